"""Tables that several rules share: shifted stretches, pairs of datum and sequence, logprob differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from provenance.columns import SAMPLED, Columns, Floats, Ints, Mask, Spans, distinct, lengths_of
from provenance.pool import Pool
from provenance.rules._lazy import lazy


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
        return stretches.repeat(self.length)


def shifted(columns: Columns, target_starts: Ints, input_starts: Ints) -> Shifted:
    """Cut the positions wherever the target span or the next input's span changes."""
    targets, inputs = columns.target_spans, columns.input_spans
    last = columns.offsets[1:] - 1
    cuts = np.concatenate([target_starts, input_starts - 1, last, columns.offsets])
    bounds = distinct(cuts[(cuts >= 0) & (cuts <= columns.positions)])
    cuts, length = bounds[:-1], lengths_of(bounds)
    i = _span_at(targets, target_starts, cuts)
    j = _span_at(inputs, input_starts, cuts + 1)
    if not len(i) or not len(j):
        nowhere = np.zeros(len(cuts), np.bool_)
        return Shifted(length, nowhere, nowhere, nowhere)
    row = columns.offsets.searchsorted(cuts, "right") - 1
    paired = (cuts < last[row]) & targets.present[row]
    same_source = paired & (targets.sequence[i] == inputs.sequence[j]) & (targets.kind[i] == inputs.kind[j])
    target_place = targets.start[i] - target_starts[i]
    input_place = inputs.start[j] - input_starts[j] + 1
    return Shifted(
        length, same_source, same_source & (target_place == input_place), targets.kind[i] == SAMPLED
    )


def _span_at(spans: Spans, starts: Ints, positions: Ints) -> Ints:
    """The span that covers each position; spans of length 0 cover none."""
    nonempty = spans.length.nonzero()[0]
    if not len(nonempty):
        return nonempty
    return nonempty[np.maximum(starts[nonempty].searchsorted(positions, "right") - 1, 0)]


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
    """(s,): the pair of each input span."""
    of_target_span: Ints
    """(s,): the pair of each target span."""


def pairs_of(columns: Columns) -> Pairs:
    """Collect the pairs of both span lists."""
    inputs, targets = columns.input_spans, columns.target_spans
    datums = np.arange(len(columns))
    row = np.concatenate([datums.repeat(lengths_of(spans.offsets)) for spans in (inputs, targets)])
    sequence = np.concatenate([inputs.sequence, targets.sequence])
    key = row * len(columns.ids) + sequence
    by_key = key.argsort(kind="stable")
    starts = np.ones(len(key), np.bool_)
    np.not_equal(key[by_key[1:]], key[by_key[:-1]], out=starts[1:])
    first = by_key[starts]
    order = np.lexsort((first, row[first]))
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    of_span = np.empty(len(key), np.int64)
    of_span[by_key] = rank[np.add.accumulate(starts, dtype=np.int64) - 1]
    of_input, of_target = of_span[: len(inputs.kind)], of_span[len(inputs.kind) :]
    trained = np.zeros(len(first), np.bool_)
    trained[of_target[(targets.kind == SAMPLED) & (targets.length > 0)]] = True
    sampled = trained.copy()
    sampled[of_input[inputs.kind == SAMPLED]] = True
    sampled[of_target[targets.kind == SAMPLED]] = True
    mentions = first[order]
    return Pairs(
        row=row[mentions],
        sequence=sequence[mentions],
        sampled=sampled,
        trained=trained,
        of_input_span=of_input,
        of_target_span=of_target,
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
        given: tuple[Pool, Ints],
        recorded: tuple[Pool, Ints],
    ) -> None:
        self.span = span
        """(d,): target spans, none of them empty."""
        self.length = length
        """(d,): positions of each span."""
        self._position = position
        self._sampled = sampled
        self._given = given
        self._recorded = recorded

    @lazy
    def given(self) -> Floats:
        """(m,): the datums' logprobs."""
        pool, starts = self._given
        return pool.gather(starts, self.length)

    @lazy
    def recorded(self) -> Floats:
        """(m,): the ledger's."""
        pool, starts = self._recorded
        return pool.gather(starts, self.length)

    @lazy
    def position(self) -> Ints:
        """(m,), ascending."""
        return self._sampled.nonzero()[0] if self._position is None else self._position

    @lazy
    def compared(self) -> Mask:
        """(p,): the position can be compared, and its record holds a finite value."""
        if self._position is None and self.identical:
            return self._sampled
        finite = np.isfinite(self.recorded)
        compared = np.zeros(len(self._sampled), np.bool_)
        compared[self.position[finite]] = True
        return compared

    @lazy
    def identical(self) -> bool:
        """All given values are the recorded ones, but for the sign of 0, and finite."""
        (pool, starts), (records, recorded_starts) = self._given, self._recorded
        given, recorded = pool.blocks(starts, self.length), records.blocks(recorded_starts, self.length)
        return all(
            np.array_equal(ours, theirs) and bool(np.isfinite(ours).all())
            for (_, ours), (_, theirs) in zip(given, recorded, strict=True)
        )

    @lazy
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

    @lazy
    def means(self) -> npt.NDArray[np.float64]:
        """(d,): mean absolute difference over each span, NaN where one is not a number."""
        if self.identical:
            return np.zeros(len(self.span))
        firsts = np.cumsum(self.length) - self.length
        means: npt.NDArray[np.float64] = (
            np.add.reduceat(self.absolute, firsts, dtype=np.float64) / self.length
        )
        return means
