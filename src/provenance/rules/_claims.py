"""What spans claim, held against the records of a ledger."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from provenance.columns import SAMPLED, Array, Mask, ranges
from provenance.rules._derived import LogprobDifferences
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS, side_of

if TYPE_CHECKING:
    from provenance.rules._batch import Batch


class Claims:
    """The claims of a batch's spans; s spans in a list, p positions. ``field`` names a side of the datum."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._table = batch.table

    def comparable(self, field: str) -> Mask:
        """(s,): the span, on the side of a field, names one record that is known."""
        known = self._table.known & ~self._table.ambiguous
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

    def verifiable(self, field: str) -> Mask:
        """(s,): the span's claim can be compared with one record: known, in range, without conflict."""
        usable = self.claim_in_range(field)
        if self._table.conflicting.any():
            usable = usable & ~self._table.conflicting[self._batch.spans(field).sequence]
        return usable

    def claimed_tokens(self, field: str) -> tuple[Array, Mask | None]:
        """What the spans on the side of a field claim.

        Returns:
            (p,) token ids, 0 where nothing is claimed that could be compared; and (p,) whether something
            is, None when that holds everywhere.
        """
        spans, usable = self._batch.spans(field), self.verifiable(field)
        positions, sequence = self._batch.columns.positions, spans.sequence
        if not len(self._table):
            return np.zeros(positions, np.int32), np.zeros(positions, np.bool_)
        base = np.where(
            spans.kind == SAMPLED, self._table.token_start[sequence], self._table.prompt_start[sequence]
        )
        starts = base + spans.start
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
        claimed, compared = self.claimed_tokens(TARGET_SPANS)
        scalar = self._batch.scalar_positions
        if scalar is not None:
            compared = scalar if compared is None else compared & scalar
        return self._batch.targets == claimed, compared

    @cached_property
    def logprob_differences(self) -> LogprobDifferences:
        """Given against recorded logprobs under the verifiable sampled target spans."""
        spans = self._batch.columns.target_spans
        usable = self.verifiable(TARGET_SPANS) & (spans.kind == SAMPLED) & (spans.length > 0)
        if len(self._table):
            complete = self._table.logprob_length == self._table.token_length
            usable &= complete[spans.sequence]
        span = np.flatnonzero(usable)
        sequence = spans.sequence[span]
        position = ranges(self._batch.target_starts[span], spans.length[span])
        return LogprobDifferences(
            span=span,
            position=position,
            given=self._batch.at_positions("logprobs")[position],
            recorded=self._table.logprobs.gather(
                self._table.logprob_start[sequence] + spans.start[span], spans.length[span]
            ),
            length=spans.length[span],
        )
