"""What a check saw beside violations, for a report that is looked at: distributions, and bad datums whole.

Everything is bounded, whatever the dataset: the edges of a histogram are fixed beforehand, so that histograms
of parts add up, and only the first bad datums of each rule are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from provenance.columns import Columns, Ints
from provenance.report import Violation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """How often values lay where."""

    edges: npt.NDArray[np.float64]
    """(n + 1,): ascending; bin i is [edges[i], edges[i + 1])."""
    counts: Ints
    """(n,): values in each bin."""
    below: int
    above: int
    """Values at the last edge, or above it."""
    unusable: int
    """Values that are NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BadDatum:
    """A datum with violations."""

    columns: Columns
    """A batch of one."""
    violations: tuple[Violation, ...]
    """Those of this datum that were kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """What a check saw."""

    histograms: Mapping[str, Histogram]
    """``logprobs``, ``advantages``: given values at positions whose target was sampled. ``log_ratios``: given
    minus recorded logprob there. ``lengths``: positions of a datum. ``ages``: seconds since a sequence was
    last used, one for each that a batch names. Absent is what nothing was seen of."""
    datums: tuple[BadDatum, ...]
    """In the order of the dataset."""
    omitted: int
    """Bad datums that were to be kept and are too long."""
