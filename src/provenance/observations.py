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
    """(n + 1,): ascending; bin i is [edges[i], edges[i + 1]). A bin [0, 2**-149) holds zeros alone."""
    counts: Ints
    """(n,): values in each bin."""
    below: int
    above: int
    """Values at the last edge, or above it."""
    unusable: int
    """Values that are null, NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Where a datum breaks a rule in one field: the first 20,000 violations."""

    code: str
    field: str
    start: Ints
    """(n,): the first failing element of each, as its location has it; i * K + k in an (N, K) tensor."""
    length: Ints
    """(n,): failing elements from there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BadDatum:
    """A datum with violations."""

    columns: Columns
    """A batch of one."""
    violations: tuple[Violation, ...]
    """The first 20 of each rule."""
    counts: Mapping[str, int]
    """How many there are, by code."""
    places: tuple[Places, ...]
    """Where they are, but for those of the datum, or of a field, as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """What a check saw."""

    histograms: Mapping[str, Histogram]
    """Of the datums whose shape is sound. Absent is what nothing was seen of.

    ``lengths``: positions of each datum.
    ``logprobs``, ``advantages``: given values at positions whose target was sampled; in datums without spans,
    which do not say that, at positions with an advantage.
    ``log_ratios``: given minus recorded logprob, where a sampled target span claims what its record has.
    ``ages``: seconds since the last use of a recorded sequence, once for each datum with a sampled span of
    it; the middle edge is the contract's window.
    """
    datums: tuple[BadDatum, ...]
    """Of each rule the first three that break it, but for those that could not be read; each once, in the
    order of the dataset. At most 60, of at most 1,000,000 positions together, errors first."""
    omitted: int
    """Bad datums that would be here, but are too long (200,000 positions) or too many."""
    bad_datums: int
    """Datums with a violation, be it a warning: these, and all others."""
