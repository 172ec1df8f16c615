"""Numbers of a batch, and what is known of all of them at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from provenance.columns import Array, Mask
from provenance.rules._lazy import lazy

#: The largest float32 that is finite.
LARGEST: Final = np.finfo(np.float32).max


class Values:
    """The token ids or the values of a loss input, m of them."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @lazy
    def _extremes(self) -> tuple[float, float]:
        """The smallest and the largest; both NaN where one of them is no number."""
        return self.array.min().item(), self.array.max().item()

    def between(self, low: float | np.float32, high: float | np.float32) -> Mask | None:
        """(m,): the value lies in [low, high], which NaN does not; None when all do."""
        if not len(self.array):
            return None
        # Nearly always all do, which two numbers say for every rule that asks, without a mask for each.
        smallest, largest = self._extremes
        if low <= smallest and largest <= high:
            return None
        inside: Mask = (self.array >= low) & (self.array <= high)
        return inside

    @lazy
    def nonzero(self) -> Mask:
        """(m,): the value is not 0; NaN is not."""
        found: Mask = self.array != 0
        return found
