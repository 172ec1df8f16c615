"""What a rule sees of a batch: its columns, the circumstances of the check, and what follows from both.

Derived arrays are computed once, on first use, and shared by the rules. They hold for datums that passed
the gates (span lists tile their fields, loss inputs have as many rows as the input has positions), so
rules that are gates use ``columns`` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import (
    SAMPLED,
    TARGETS,
    UNKNOWN_LENGTH,
    Array,
    Columns,
    Ints,
    Mask,
    Spans,
    Tensor,
    any_in_rows,
    lengths_of,
    offsets_of,
    ranges,
)
from provenance.loss_spec import LossSpec
from provenance.rules._claims import Claims
from provenance.rules._derived import Pairs, Shifted, pairs_of, shifted
from provenance.rules._lazy import lazy
from provenance.rules._parameters import Parameters
from provenance.rules._sides import TARGET_SPANS, side_of
from provenance.rules._values import Values
from provenance.sequences import SequenceTable


class Batch:
    """Columns under a contract. ``n`` datums, ``p`` positions, s spans in a list."""

    def __init__(
        self,
        columns: Columns,
        loss: LossSpec,
        parameters: Parameters,
        *,
        config: Mapping[str, Any] | None = None,
        sequences: SequenceTable | None = None,
        session: str | None = None,
        now: int = 0,
        inputs: frozenset[str] | None = None,
    ) -> None:
        self.columns = columns
        self.loss = loss
        self.parameters = parameters
        self.config: Mapping[str, Any] = config or {}
        self.sequences = sequences
        """One row for each of ``columns.ids``, in that order; None without a ledger."""
        self.session = session
        self.now = now
        """Microseconds since 1970 UTC."""
        self.inputs = inputs
        """The loss inputs that are looked at; None for all."""
        self._values: dict[str, Values] = {}
        self._one_each: dict[str, Mask | None] = {}

    def forget(self) -> None:
        """Let derived arrays go; they are computed again where they are needed again."""
        for name, kind in vars(type(self)).items():
            if isinstance(kind, lazy):
                vars(self).pop(name, None)
        self._values.clear()
        self._one_each.clear()

    # Positions

    @lazy
    def lengths(self) -> Ints:
        """(n,): positions of each datum."""
        return lengths_of(self.columns.offsets)

    @lazy
    def measured(self) -> Mask:
        """(n,): the length of every chunk of the datum is known."""
        chunks = self.columns.chunks
        return ~any_in_rows(chunks.length == UNKNOWN_LENGTH, chunks.offsets)

    @lazy
    def last_position(self) -> Ints:
        """Indices of the last position of every datum that has one."""
        ends: Ints = self.columns.offsets[1:] - 1
        return ends[self.lengths > 0]

    def row_of(self, offsets: Ints) -> Ints:
        """The datum each element belongs to, for elements laid out by ``offsets``."""
        return np.arange(len(offsets) - 1).repeat(lengths_of(offsets))

    # Loss inputs

    def looks_at(self, field: str) -> bool:
        """Whether a loss input is looked at, or left aside because no rule of the contract needs it."""
        return self.inputs is None or field in self.inputs

    def tensor(self, field: str) -> Tensor:
        """The loss input of that name."""
        return self.columns.inputs[field]

    def values(self, field: str) -> Values:
        """The stored values of a loss input, or the tokens of model_input."""
        if field not in self._values:
            tokens = field == "model_input"
            self._values[field] = Values(self.columns.tokens if tokens else self.tensor(field).values)
        return self._values[field]

    @lazy
    def scalar_targets(self) -> Mask | None:
        """(n,): target_tokens are there, dense and one a position; None when that holds for all datums."""
        return self._one_a_position(TARGETS)

    def _one_a_position(self, field: str) -> Mask | None:
        if field not in self._one_each:
            self._one_each[field] = self._find_one_a_position(field)
        return self._one_each[field]

    def _find_one_a_position(self, field: str) -> Mask | None:
        tensor = self.columns.inputs.get(field)
        if tensor is None:
            return np.zeros(len(self.columns), np.bool_)
        plain = tensor.present & (tensor.rank == 1)
        if tensor.coordinates is not None:
            plain &= lengths_of(tensor.offsets) == tensor.rows
        return None if plain.all() else plain

    @lazy
    def scalar_positions(self) -> Mask | None:
        """(p,): the position has exactly one target; None when that holds for all."""
        return None if self.scalar_targets is None else self.scalar_targets.repeat(self.lengths)

    def at_positions(self, field: str) -> Array:
        """(p,): an input's values aligned with positions; 0 where the datum has not one a position."""
        tensor = self.columns.inputs.get(field)
        plain = self._one_a_position(field)
        if tensor is None:
            return np.zeros(self.columns.positions, np.float32)
        if plain is None:
            return tensor.values
        aligned = np.zeros(self.columns.positions, tensor.values.dtype)
        rows = np.flatnonzero(plain)
        aligned[ranges(self.columns.offsets[rows], self.lengths[rows])] = tensor.values[
            ranges(tensor.offsets[rows], self.lengths[rows])
        ]
        return aligned

    @lazy
    def targets(self) -> Array:
        """(p,): target ids aligned with positions."""
        return self.at_positions(TARGETS)

    def position_of_elements(self, field: str) -> Ints | None:
        """(m,): the position each stored value of an input belongs to; None when the two are the same."""
        if self._one_a_position(field) is None:
            return None
        tensor = self.tensor(field)
        row = self.row_of(tensor.offsets)
        within = tensor.coordinates
        if within is None:
            within = np.arange(len(tensor.values)) - tensor.offsets[row]
        return self.columns.offsets[row] + within // np.maximum(tensor.width[row], 1)

    def any_over_positions(self, field: str, elements: Mask) -> Mask:
        """(p,): some element of the input at this position is True."""
        positions = self.position_of_elements(field)
        if positions is None:
            return elements
        hit = np.zeros(self.columns.positions, np.bool_)
        hit[positions[elements]] = True
        return hit

    @lazy
    def signal(self) -> Mask:
        """(p,): the position has a nonzero advantage or weight."""
        # By the loss and not by what is there: the other name may be a stray input of some datum.
        name = "advantages" if self.loss.takes("advantages") else "weights"
        if name not in self.columns.inputs:
            return np.zeros(self.columns.positions, np.bool_)
        return self.any_over_positions(name, self.values(name).nonzero)

    # Spans and positions

    @lazy
    def spanned(self) -> Mask:
        """(n,): the datum has one of the span lists; beyond the gates it then has both."""
        return self.columns.input_spans.present | self.columns.target_spans.present

    @lazy
    def all_spanned(self) -> bool:
        """Every datum carries spans, which then tile all positions."""
        return bool(self.spanned.all())

    def spans(self, field: str) -> Spans:
        """The span list on the side of a field."""
        return self.columns.input_spans if side_of(field) == "input" else self.columns.target_spans

    @lazy
    def input_starts(self) -> Ints:
        """(s,): position at which each input span starts."""
        return self._starts(self.columns.input_spans)

    @lazy
    def target_starts(self) -> Ints:
        """(s,): position at which each target span starts."""
        return self._starts(self.columns.target_spans)

    def span_starts(self, field: str) -> Ints:
        """(s,): position at which each span on the side of a field starts."""
        return self.input_starts if side_of(field) == "input" else self.target_starts

    def _starts(self, spans: Spans) -> Ints:
        before = offsets_of(spans.length)
        if self.all_spanned:
            return before[:-1]
        row = self.row_of(spans.offsets)
        return before[:-1] - before[spans.offsets[row]] + self.columns.offsets[row]

    def over_spans(self, field: str, chosen: Mask) -> Mask:
        """(p,): the position lies under a chosen span on the side of a field; chosen is (s,)."""
        spans, starts = self.spans(field), self.span_starts(field)
        if self.all_spanned:
            return chosen.repeat(spans.length)
        covered = np.zeros(self.columns.positions, np.bool_)
        covered[ranges(starts[chosen], spans.length[chosen])] = True
        return covered

    def any_in_contexts(self, chosen: Mask) -> Mask:
        """(s,): some chosen input position is in the context of a target span; chosen is (p,).

        The context of a target is the input before it, which ends at the target's own position.
        """
        before = offsets_of(chosen.astype(np.int64))
        row = self.row_of(self.columns.target_spans.offsets)
        ends = np.minimum(self.target_starts + 1, self.columns.offsets[row + 1])
        found: Mask = before[ends] > before[self.columns.offsets[row]]
        return found

    @lazy
    def sampled_spans(self) -> Mask:
        """(s,): the target span is a sampled one."""
        sampled: Mask = self.columns.target_spans.kind == SAMPLED
        return sampled

    @lazy
    def sampled_runs(self) -> Mask:
        """(s,): the target span is a sampled one, and not empty."""
        return self.sampled_spans & (self.columns.target_spans.length > 0)

    @lazy
    def sampled(self) -> Mask:
        """(p,): the position lies under a target-side sampled span."""
        return self.over_spans(TARGET_SPANS, self.sampled_spans)

    def mark(self, positions: Ints) -> Mask:
        """(p,): True at the given positions."""
        marked = np.zeros(self.columns.positions, np.bool_)
        marked[positions] = True
        return marked

    @lazy
    def with_spans(self) -> Mask | None:
        """(p,): the position's datum carries spans; None when all do."""
        return None if self.all_spanned else self.spanned.repeat(self.lengths)

    # The shift by one: target position i stands for input position i + 1

    @lazy
    def shifted(self) -> Shifted:
        """Stretches of positions whose target and next input each lie under one span."""
        return shifted(self.columns, self.target_starts, self.input_starts)

    @property
    def token_limit(self) -> int:
        """Token ids are below it."""
        vocabulary = self.parameters.vocab_size
        return 2**31 if vocabulary is None else min(2**31, vocabulary)

    @lazy
    def readable_tokens(self) -> Mask | None:
        """(p,): the input is text and its id a possible one; None when that holds everywhere."""
        possible, text = self.values("model_input").between(0, self.token_limit - 1), self.columns.text
        if possible is not None and text is not None:
            possible &= text
        return text if possible is None else possible

    @lazy
    def next_is_token(self) -> Mask:
        """(p,): input i + 1 belongs to the same datum and is text with a possible id, known to be there."""
        after = np.ones(self.columns.positions, np.bool_)
        if self.readable_tokens is not None:
            after[:-1] = self.readable_tokens[1:]
        after[self.last_position] = False
        if not self.measured.all():
            # Where an image's length is a guess, so is which text stands behind which target.
            after &= self.measured.repeat(self.lengths)
        return after

    @lazy
    def target_is_next_input(self) -> Mask:
        """(p,): target i equals input token i + 1 of the same datum; False at the last position."""
        same = np.zeros(self.columns.positions, np.bool_)
        np.equal(self.targets[:-1], self.columns.tokens[1:], out=same[:-1])
        same[self.last_position] = False
        return same

    # The ledger

    @property
    def table(self) -> SequenceTable:
        """The looked-up records; only rules that need the ledger ask for it."""
        if self.sequences is None:
            raise RuntimeError("a rule without needs=('ledger',) asked for the ledger")
        return self.sequences

    @lazy
    def claims(self) -> Claims:
        """What the spans claim, held against the looked-up records."""
        return Claims(self)

    # Pairs of a datum and a sequence that it names

    @lazy
    def pairs(self) -> Pairs:
        """Each datum with each sequence that its spans name."""
        return pairs_of(self.columns)

    def of_pairs(self, per_sequence: Mask) -> Mask:
        """(q,): a property of the named sequences, given for each of ``columns.ids``."""
        return per_sequence[self.pairs.sequence]

    @lazy
    def recorded(self) -> Mask:
        """(i,): the sequence is one known record, of which there is one version."""
        return self.table.known & ~(self.table.ambiguous | self.table.conflicting)

    @lazy
    def recorded_pairs(self) -> Mask:
        """(q,): the pair's sequence is one such record."""
        return self.of_pairs(self.recorded)

    @lazy
    def trained_before(self) -> Mask:
        """(q,): an earlier datum of the batch has the sequence as a sampled target."""
        trained = self.pairs.trained.nonzero()[0]
        sequence = self.pairs.sequence[trained]
        first = np.zeros(len(self.columns.ids), np.int64)
        first[sequence[::-1]] = trained[::-1]  # of several assignments the last one stays
        before = np.zeros(len(self.pairs.row), np.bool_)
        before[trained] = first[sequence] != trained
        return before

    @lazy
    def named_records(self) -> Mask:
        """One per row of ``table``: known, of one session, and named by a datum."""
        named = np.zeros(len(self.table), np.bool_)
        named[self.pairs.sequence] = True
        return named & self.table.known & ~self.table.ambiguous
