"""What spans claim, held against the records of a ledger."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from provenance.columns import SAMPLED, Array, Ints, Mask, Spans, ranges
from provenance.pool import Pool
from provenance.rules._derived import LogprobDifferences
from provenance.rules._lazy import lazy
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS, side_of

if TYPE_CHECKING:
    from provenance.rules._batch import Batch


class Claims:
    """The claims of a batch's spans; s spans in a list, p positions. ``field`` names a side of the datum."""

    def __init__(self, batch: Batch) -> None:
        # The batch holds its claims: a circle would keep its arrays until the garbage collector comes by.
        self._batch: Batch = weakref.proxy(batch)
        self._table = batch.table

    def comparable(self, field: str) -> Mask:
        """(s,): the span, on the side of a field, names one record that is known, without a conflict."""
        return self._comparable_input if side_of(field) == "input" else self._comparable_target

    @lazy
    def _comparable_input(self) -> Mask:
        return self._names_one_record(INPUT_SPANS)

    @lazy
    def _comparable_target(self) -> Mask:
        return self._names_one_record(TARGET_SPANS)

    def _names_one_record(self, field: str) -> Mask:
        return self._batch.recorded[self._batch.spans(field).sequence]

    def claim_in_range(self, field: str) -> Mask:
        """(s,): a comparable span lies within what its record holds."""
        return self._in_range_input if side_of(field) == "input" else self._in_range_target

    @lazy
    def _in_range_input(self) -> Mask:
        return self._in_range(INPUT_SPANS)

    @lazy
    def _in_range_target(self) -> Mask:
        return self._in_range(TARGET_SPANS)

    def _in_range(self, field: str) -> Mask:
        spans, table = self._batch.spans(field), self._table
        available = _of_kind(spans, table.token_length, table.prompt_length)
        # Written as a subtraction: an offset near 2^63 must not wrap around.
        return self.comparable(field) & (spans.length <= available - spans.start)

    def _bases(self, field: str) -> Ints:
        """(s,): the address of the first token each span claims; without meaning where not verifiable."""
        spans, table = self._batch.spans(field), self._table
        addresses: Ints = _of_kind(spans, table.token_start, table.prompt_start) + spans.start
        return addresses

    def claimed_tokens(self, field: str) -> tuple[Array, Mask | None]:
        """What the spans on the side of a field claim.

        Returns:
            (p,) token ids, 0 where nothing is claimed that could be compared; and (p,) whether something
            is, None when that holds everywhere.
        """
        spans, usable = self._batch.spans(field), self.claim_in_range(field)
        starts = self._bases(field)
        if usable.all() and self._batch.all_spanned:
            return self._table.pool.gather(starts, spans.length), None
        positions = self._batch.columns.positions
        claimed = np.zeros(positions, np.int32)
        chosen = usable.nonzero()[0]
        where = ranges(self._batch.span_starts(field)[chosen], spans.length[chosen])
        claimed[where] = self._table.pool.gather(starts[chosen], spans.length[chosen])
        compared = np.zeros(positions, np.bool_)
        compared[where] = True
        return claimed, compared

    @lazy
    def input_claims(self) -> tuple[Mask, Mask | None]:
        """(p,) the input token is the one that its span claims; (p,) or None: whether that can be said."""
        columns = self._batch.columns
        if self._batch.all_spanned and self.claim_in_range(INPUT_SPANS).all():
            lengths = columns.input_spans.length
            return self._table.pool.equal(self._bases(INPUT_SPANS), lengths, columns.tokens), None
        claimed, compared = self.claimed_tokens(INPUT_SPANS)
        return columns.tokens == claimed, compared

    @lazy
    def target_claims(self) -> tuple[Mask, Mask | None]:
        """(p,) the target is the token that its span claims; (p,) or None: whether that can be said."""
        batch, scalar = self._batch, self._batch.scalar_positions
        if scalar is not None or not batch.all_spanned or not self.claim_in_range(TARGET_SPANS).all():
            claimed, compared = self.claimed_tokens(TARGET_SPANS)
            if scalar is not None:
                compared = scalar if compared is None else compared & scalar
            return batch.targets == claimed, compared
        same = self._proved_by_input()
        rest = (~same).nonzero()[0]
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
        starts = self._batch.target_starts
        nonempty = self._batch.columns.target_spans.length.nonzero()[0]
        span = nonempty[starts[nonempty].searchsorted(positions, "right") - 1]
        places = self._bases(TARGET_SPANS)[span] + positions - starts[span]
        return self._table.pool.at(places, np.ones(len(places), np.bool_))

    @lazy
    def logprob_differences(self) -> LogprobDifferences:
        """Given against recorded logprobs under the verifiable sampled target spans."""
        batch, table, spans = self._batch, self._table, self._batch.columns.target_spans
        sampled = (spans.kind == SAMPLED) & (spans.length > 0)
        complete = table.logprob_length == table.token_length
        usable = sampled & self.claim_in_range(TARGET_SPANS) & complete[spans.sequence]
        whole = batch.all_spanned and bool((usable == sampled).all())
        span = usable.nonzero()[0]
        sequence, starts, lengths = spans.sequence[span], batch.target_starts[span], spans.length[span]
        return LogprobDifferences(
            span=span,
            length=lengths,
            position=None if whole else ranges(starts, lengths),
            sampled=batch.sampled,
            given=(Pool(batch.at_positions("logprobs")), starts),
            recorded=(table.logprobs, table.logprob_start[sequence] + spans.start[span]),
        )


def _of_kind(spans: Spans, sampled: Ints, prompt: Ints) -> Ints:
    """(s,): of the sequence that a span names, its entry among the sampled ones or among the prompts."""
    of_kind: Ints = np.where(spans.kind == SAMPLED, sampled[spans.sequence], prompt[spans.sequence])
    return of_kind
