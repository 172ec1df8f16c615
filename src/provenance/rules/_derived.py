"""Tables that several rules share: shifted stretches, pairs of datum and sequence, logprob differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from provenance.columns import SAMPLED, Columns, Floats, Ints, Mask, Spans, distinct


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """Stretches of positions i that each have one target span at i and one input span at i + 1.

    The stretches tile all positions; those where that does not hold (the last position of a datum, a datum
    without spans) have no source in common.
    """

    length: Ints
    """(r,): positions of each stretch."""
    same_source: Mask
    """(r,): both spans name the same sequence and kind."""
    same_place: Mask
    """(r,): and the same position of it."""
    sampled: Mask
    """(r,): the target span is a sampled one."""

    def over(self, stretches: Mask) -> Mask:
        """(p,): the position lies in a chosen stretch; ``stretches`` is (r,)."""
        return np.repeat(stretches, self.length)


def shifted(columns: Columns, target_starts: Ints, input_starts: Ints) -> Shifted:
    """Cut the positions wherever the target span or the next input's span changes."""
    targets, inputs = columns.target_spans, columns.input_spans
    last = columns.offsets[1:] - 1
    cuts = np.concatenate([target_starts, input_starts - 1, last, columns.offsets])
    cuts = distinct(cuts[(cuts >= 0) & (cuts < columns.positions)])
    length = np.diff(np.append(cuts, columns.positions))
    i = _span_at(targets, target_starts, cuts)
    j = _span_at(inputs, input_starts, cuts + 1)
    if not len(i) or not len(j):
        nowhere = np.zeros(len(cuts), np.bool_)
        return Shifted(length, nowhere, nowhere, nowhere)
    row = np.searchsorted(columns.offsets, cuts, "right") - 1
    paired = (cuts < last[row]) & targets.present[row] & inputs.present[row]
    same_source = paired & (targets.sequence[i] == inputs.sequence[j]) & (targets.kind[i] == inputs.kind[j])
    target_place = targets.start[i] + (cuts - target_starts[i])
    input_place = inputs.start[j] + (cuts + 1 - input_starts[j])
    return Shifted(
        length, same_source, same_source & (target_place == input_place), targets.kind[i] == SAMPLED
    )


def _span_at(spans: Spans, starts: Ints, positions: Ints) -> Ints:
    """The span that covers each position; spans of length 0 cover none."""
    nonempty = np.flatnonzero(spans.length > 0)
    if not len(nonempty):
        return nonempty
    return nonempty[np.maximum(np.searchsorted(starts[nonempty], positions, "right") - 1, 0)]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Each datum with each sequence its spans name, once, ordered by datum and first mention."""

    row: Ints
    """(q,): the datum."""
    sequence: Ints
    """(q,): index into ``Columns.ids``."""
    sampled: Mask
    """(q,): a sampled span of either list names it."""
    trained: Mask
    """(q,): a target-side sampled span with at least one position names it."""
    of_input_span: Ints
    """(s,): the pair of each input span, -1 for a span without an id."""
    of_target_span: Ints
    """(s,): the pair of each target span, -1 for a span without an id."""


def pairs_of(columns: Columns) -> Pairs:
    """Collect the pairs of both span lists."""
    lists = (columns.input_spans, columns.target_spans)
    row = np.concatenate([np.repeat(np.arange(len(columns)), np.diff(spans.offsets)) for spans in lists])
    sequence = np.concatenate([spans.sequence for spans in lists])
    kind = np.concatenate([spans.kind for spans in lists])
    target = np.arange(len(row)) >= len(columns.input_spans.kind)
    nonempty = np.concatenate([spans.length for spans in lists]) > 0
    key = row * (len(columns.ids) + 1) + sequence
    named = np.flatnonzero(sequence >= 0)
    pairs, first, inverse = np.unique(key[named], return_index=True, return_inverse=True)
    order = np.lexsort((first, row[named][first]))
    rank = np.empty(len(pairs), np.int64)
    rank[order] = np.arange(len(pairs))
    of_span = np.full(len(row), -1, np.int64)
    of_span[named] = rank[inverse]
    sampled = np.zeros(len(pairs), np.bool_)
    sampled[of_span[named][kind[named] == SAMPLED]] = True
    trained = np.zeros(len(pairs), np.bool_)
    trained[of_span[named][((kind == SAMPLED) & target & nonempty)[named]]] = True
    split = len(columns.input_spans.kind)
    return Pairs(
        row=row[named][first][order],
        sequence=sequence[named][first][order],
        sampled=sampled,
        trained=trained,
        of_input_span=of_span[:split],
        of_target_span=of_span[split:],
    )


class LogprobDifferences:
    """Given and recorded logprobs at the m positions that can be compared, those of d target spans."""

    def __init__(
        self,
        *,
        span: Ints,
        length: Ints,
        position: Ints | None,
        sampled: Mask,
        given: Floats,
        recorded: Floats,
    ) -> None:
        self.span = span
        """(d,): target spans, none of them empty."""
        self.length = length
        """(d,): positions of each span."""
        self._position = position
        self._sampled = sampled
        self.given = given
        """(m,): the datums' logprobs."""
        self.recorded = recorded
        """(m,): the ledger's."""

    @cached_property
    def position(self) -> Ints:
        """(m,), ascending."""
        return np.flatnonzero(self._sampled) if self._position is None else self._position

    @cached_property
    def compared(self) -> Mask:
        """(p,): the position can be compared, and its record holds a finite value."""
        finite = np.isfinite(self.recorded)
        if self._position is None and finite.all():
            return self._sampled
        compared = np.zeros(len(self._sampled), np.bool_)
        compared[self.position[finite]] = True
        return compared

    @cached_property
    def identical(self) -> bool:
        """All given values are the recorded ones, bit for bit but for the sign of 0."""
        return np.array_equal(self.given, self.recorded)

    @cached_property
    def absolute(self) -> Floats:
        """(m,): abs(given - recorded), NaN where either is not a number or the record is infinite."""
        # A record with infinities is an inconsistent one (SEQ007): nothing can be compared with it.
        with np.errstate(invalid="ignore"):
            difference: Floats = np.abs(self.given - self.recorded)
        difference[np.isinf(self.recorded)] = np.nan
        return difference

    def beyond(self, absolute: float, relative: float) -> Ints:
        """Positions at which the difference exceeds absolute + relative * max(abs(given), abs(recorded))."""
        if self.identical:
            return np.zeros(0, np.int64)
        largest = np.maximum(np.abs(self.given), np.abs(self.recorded))
        with np.errstate(invalid="ignore"):  # 0 times the infinity of such a record
            allowed = np.float32(absolute) + np.float32(relative) * largest
        return self.position[self.absolute > allowed]

    @cached_property
    def means(self) -> npt.NDArray[np.float64]:
        """(d,): mean absolute difference over each span, NaN where one is not a number."""
        if self.identical:
            return np.zeros(len(self.span))
        firsts = np.cumsum(self.length) - self.length
        means: npt.NDArray[np.float64] = (
            np.add.reduceat(self.absolute, firsts, dtype=np.float64) / self.length
        )
        return means
