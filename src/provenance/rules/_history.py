"""What a check remembers of the batches it has seen: which keys occurred before."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from provenance.columns import Ints, Mask


class History:
    """Sets of keys, kept as 8-byte hashes so that a dataset of any size fits."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Ints]] = {}

    def seen_before(self, kind: str, keys: Sequence[Hashable]) -> Mask:
        """Add keys and tell for each whether it was added before, within ``keys`` too; shape (len(keys),)."""
        hashes = np.fromiter(map(hash, keys), np.int64, len(keys))
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        repeated = np.zeros(len(ordered), np.bool_)
        np.equal(ordered[1:], ordered[:-1], out=repeated[1:])
        runs = self._runs.setdefault(kind, [])
        for run in runs:
            at = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            repeated |= run[at] == ordered
        before = np.empty(len(hashes), np.bool_)
        before[order] = repeated
        if not repeated.all():
            runs.append(ordered[~repeated])
        # Runs at least double in size from last to first, so that there are only log(n) to search.
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            last = runs.pop()
            # A stable sort merges two sorted runs in one pass.
            runs[-1] = np.sort(np.concatenate([runs[-1], last]), kind="stable")
        return before
