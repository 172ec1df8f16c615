"""What spans claim, held against the records of a ledger."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from provenance.columns import SAMPLED, Array, Ints, Mask, ranges
from provenance.rules._derived import LogprobDifferences
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS, side_of
from provenance.sequences import Pool

if TYPE_CHECKING:
    from provenance.rules._batch import Batch


class Claims:
    """The claims of a batch's spans; s spans in a list, p positions. ``field`` names a side of the datum."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._table = batch.table

    def comparable(self, field: str) -> Mask:
        """(s,): the span, on the side of a field, names one record that is known, without a conflict."""
        return self._comparable_input if side_of(field) == "input" else self._comparable_target

    @cached_property
    def _comparable_input(self) -> Mask:
        return self._names_one_record(INPUT_SPANS)

    @cached_property
    def _comparable_target(self) -> Mask:
        return self._names_one_record(TARGET_SPANS)

    def _names_one_record(self, field: str) -> Mask:
        known = self._table.known & ~self._table.ambiguous & ~self._table.conflicting
        sequence = self._batch.spans(field).sequence
        if not len(known):
            return np.zeros(len(sequence), np.bool_)
        return known[sequence] & (sequence >= 0)

    def claim_in_range(self, field: str) -> Mask:
        """(s,): a comparable span lies within what its record holds."""
        return self._in_range_input if side_of(field) == "input" else self._in_range_target

    @cached_property
    def _in_range_input(self) -> Mask:
        return self._in_range(INPUT_SPANS)

    @cached_property
    def _in_range_target(self) -> Mask:
        return self._in_range(TARGET_SPANS)

    def _in_range(self, field: str) -> Mask:
        spans, comparable = self._batch.spans(field), self.comparable(field)
        available = np.zeros(len(comparable), np.int64)
        sequence = spans.sequence[comparable]
        available[comparable] = np.where(
            spans.kind[comparable] == SAMPLED,
            self._table.token_length[sequence],
            self._table.prompt_length[sequence],
        )
        # Written as a subtraction: an offset near 2^63 must not wrap around.
        return comparable & (spans.start <= available) & (spans.length <= available - spans.start)

    def _bases(self, field: str) -> Ints:
        """(s,): the address of the first token each span claims; without meaning where not verifiable."""
        spans, table = self._batch.spans(field), self._table
        sampled = spans.kind == SAMPLED
        base = np.where(sampled, table.token_start[spans.sequence], table.prompt_start[spans.sequence])
        addresses: Ints = base + spans.start
        return addresses

    def claimed_tokens(self, field: str) -> tuple[Array, Mask | None]:
        """What the spans on the side of a field claim.

        Returns:
            (p,) token ids, 0 where nothing is claimed that could be compared; and (p,) whether something
            is, None when that holds everywhere.
        """
        spans, usable = self._batch.spans(field), self.claim_in_range(field)
        positions = self._batch.columns.positions
        if not len(self._table):
            return np.zeros(positions, np.int32), np.zeros(positions, np.bool_)
        starts = self._bases(field)
        if usable.all() and spans.present.all():
            return self._table.pool.gather(starts, spans.length), None
        claimed = np.zeros(positions, np.int32)
        chosen = np.flatnonzero(usable)
        where = ranges(self._batch.span_starts(field)[chosen], spans.length[chosen])
        claimed[where] = self._table.pool.gather(starts[chosen], spans.length[chosen])
        compared = np.zeros(positions, np.bool_)
        compared[where] = True
        return claimed, compared

    @cached_property
    def input_claims(self) -> tuple[Mask, Mask | None]:
        """(p,) the input token is the one that its span claims; (p,) or None: whether that can be said."""
        claimed, compared = self.claimed_tokens(INPUT_SPANS)
        return self._batch.columns.tokens == claimed, compared

    @cached_property
    def target_claims(self) -> tuple[Mask, Mask | None]:
        """(p,) the target is the token that its span claims; (p,) or None: whether that can be said."""
        batch = self._batch
        usable, scalar = self.claim_in_range(TARGET_SPANS), batch.scalar_positions
        if not usable.all() or not batch.columns.target_spans.present.all() or scalar is not None:
            claimed, compared = self.claimed_tokens(TARGET_SPANS)
            if scalar is not None:
                compared = scalar if compared is None else compared & scalar
            return batch.targets == claimed, compared
        same = self._proved_by_input()
        rest = np.flatnonzero(~same)
        same[rest] = batch.targets[rest] == self._claimed_at(rest)
        return same, None

    def _proved_by_input(self) -> Mask:
        """(p,): target i is input i + 1, which is the token claimed there, and both claim the same place."""
        same, compared = self.input_claims
        proved = self._batch.shifted.over(self._batch.shifted.same_place)
        proved &= self._batch.target_is_next_input
        proved[:-1] &= same[1:] if compared is None else same[1:] & compared[1:]
        return proved

    def _claimed_at(self, positions: Ints) -> Array:
        """The tokens that the target spans claim at some positions, all of them verifiable."""
        spans, starts = self._batch.columns.target_spans, self._batch.target_starts
        nonempty = np.flatnonzero(spans.length > 0)
        span = nonempty[np.searchsorted(starts[nonempty], positions, "right") - 1]
        places = self._bases(TARGET_SPANS)[span] + positions - starts[span]
        return self._table.pool.gather(places, np.ones(len(places), np.int64))

    @cached_property
    def logprob_differences(self) -> LogprobDifferences:
        """Given against recorded logprobs under the verifiable sampled target spans."""
        spans = self._batch.columns.target_spans
        usable = self.claim_in_range(TARGET_SPANS) & (spans.kind == SAMPLED) & (spans.length > 0)
        if len(self._table):
            complete = self._table.logprob_length == self._table.token_length
            usable &= complete[spans.sequence]
        whole = bool(usable[(spans.kind == SAMPLED) & (spans.length > 0)].all()) and bool(spans.present.all())
        span = np.flatnonzero(usable)
        sequence, starts, lengths = spans.sequence[span], self._batch.target_starts[span], spans.length[span]
        return LogprobDifferences(
            span=span,
            length=lengths,
            position=None if whole else ranges(starts, lengths),
            sampled=self._batch.sampled,
            given=Pool(self._batch.at_positions("logprobs")).gather(starts, lengths),
            recorded=self._table.logprobs.gather(
                self._table.logprob_start[sequence] + spans.start[span], lengths
            ),
        )
