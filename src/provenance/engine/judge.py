"""Judge one batch: shape before content, so that a rule never sees data it cannot make sense of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenance.columns import Columns
from provenance.contract import Contract
from provenance.engine.evaluate import Finding, evaluate, failed_datums
from provenance.engine.room import with_room
from provenance.errors import LedgerError
from provenance.ledger import Ledger
from provenance.rules import Batch, Rule
from provenance.sequences import SequenceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a dataset is judged by: the same for all of its batches."""

    contract: Contract
    gates: tuple[Rule, ...]
    """All gates, also those that the contract silences: what fails one cannot be looked at further."""
    rules: tuple[Rule, ...]
    """The other rules that can be judged."""
    inputs: frozenset[str] | None
    """The loss inputs that are looked at; None for all."""
    ledger: Ledger | None
    session: str | None
    now: int

    def batch(self, columns: Columns) -> Batch:
        """Columns under these circumstances, not looked up yet."""
        return Batch(
            columns,
            self.contract.loss,
            self.contract.parameters,
            session=self.session,
            now=self.now,
            inputs=self.inputs,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What was found in a batch of datums."""

    columns: Columns
    """As they were read, but with room for images of unknown length."""
    findings: list[Finding]
    """Of gates over all readable datums, and of the other rules over those that passed the gates; those that
    failed somewhere, and those that the whole dataset decides."""
    checked: dict[str, int]
    """Code -> elements that the rule judged."""
    passed: Batch
    """The datums that passed the gates."""


def judge(columns: Columns, circumstances: Circumstances) -> Judged:
    """Run the gates over what could be read, and the other rules over what passed them."""
    columns = looked_at = with_room(columns)
    if circumstances.inputs is not None:
        inputs = {name: columns.inputs[name] for name in columns.inputs if name in circumstances.inputs}
        looked_at = replace(columns, inputs=inputs)
    if columns.readable.all():
        shaped = circumstances.batch(looked_at)
    else:
        shaped = circumstances.batch(looked_at.take(np.flatnonzero(columns.readable)))
    findings, checked = evaluate(shaped, circumstances.gates)
    failed = failed_datums(shaped, findings)
    kept = np.flatnonzero(~failed)
    passed = shaped if len(kept) == len(failed) else circumstances.batch(shaped.columns.take(kept))
    if circumstances.ledger is not None:
        passed.sequences = _look_up(circumstances.ledger, passed.columns.ids, circumstances.session)
    if len(kept):
        more, others = evaluate(passed, circumstances.rules)
        findings += more
        checked |= others
    return Judged(columns, findings, checked, passed)


def _look_up(ledger: Ledger, ids: tuple[str, ...], session: str | None) -> SequenceTable:
    found: object = ledger.lookup(ids, session)
    if not isinstance(found, SequenceTable) or len(found) != len(ids):
        raise LedgerError(
            f"{type(ledger).__name__}.lookup answered {len(ids)} ids with something else than a "
            "SequenceTable of as many rows"
        )
    return found
