"""What a mutation changes: a dataset that is free to be wrong, and the circumstances it is checked under."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from provenance.contract import Contract
from provenance.engine import check
from provenance.formats._json import dumps
from provenance.report import Report

Json: TypeAlias = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Dataset:
    """Datums and sequences as JSON objects, with everything that a check of them asks for."""

    datums: list[Json]
    """In the JSON form of a datum, one object each; nothing about them is checked."""
    sequences: list[Json] | None = None
    """What was sampled, in the JSON form of a sequence; None where there is no ledger."""
    contract: Contract = field(default_factory=lambda: Contract.for_loss("stable_reinforce"))
    session: str | None = None
    """The training session; None: SES001 is not checked."""
    now: datetime | str | None = None
    """When it is checked, aware or RFC 3339; None is the clock's time."""
    loss_config: Json = field(default_factory=dict)
    lines: dict[int, bytes] = field(default_factory=dict)
    """Row -> the line that its datum is written as, without a newline, for faults that no object has."""

    def copy(self) -> Dataset:
        """A copy whose datums, sequences and options can be changed without changing these."""
        return replace(
            self,
            datums=copied(self.datums),
            sequences=copied(self.sequences),
            loss_config=copied(self.loss_config),
            lines=dict(self.lines),
        )

    def report(self, *, max_examples: int = 20) -> Report:
        """Check the dataset under its circumstances (see `provenance.check`, which also says what it raises).

        Violations name rows, and lines where some row is written as a line of its own; they name no file.
        """
        circumstances: dict[str, Any] = {
            "ledger": self.sequences,
            "session": self.session,
            "now": self.now,
            "loss_config": self.loss_config,
            "max_examples": max_examples,
        }
        if not self.lines:
            return check(self.datums, self.contract, **circumstances)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "datums.jsonl")
            path.write_bytes(self.to_jsonl())
            report = check(path, self.contract, **circumstances)
        # The file is gone; and with its name no two reports on a dataset would be equal.
        without = [
            replace(violation, location=replace(violation.location, file=None)) for violation in report
        ]
        return replace(report, violations=tuple(without))

    def to_jsonl(self) -> bytes:
        """The datums as a file of one object a line; NaN and infinities as the literals that readers take."""
        lines = [
            self.lines[row] if row in self.lines else dumps(datum) for row, datum in enumerate(self.datums)
        ]
        return b"".join(line + b"\n" for line in lines)


def copied(value: Any) -> Any:
    """A deep copy that does not visit each number of a list."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            return [copied(item) for item in value]
        return value.copy()
    return copy.deepcopy(value)
