"""What a mutation changes: a dataset that is free to be wrong, and the circumstances it is checked under."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from provenance.contract import Contract
from provenance.engine import check
from provenance.errors import WriteError
from provenance.formats import is_arrow, writer_of
from provenance.formats._io import replacing, writing
from provenance.formats._json import dumps
from provenance.formats._problem import RowError
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
        return replace(report, violations=tuple(without), files={})

    def to_jsonl(self) -> bytes:
        """The datums as a file of one object a line; NaN and infinities as the literals that readers take."""
        lines = [
            self.lines[row] if row in self.lines else dumps(datum) for row, datum in enumerate(self.datums)
        ]
        return b"".join(line + b"\n" for line in lines)

    def write(
        self,
        datums: str | os.PathLike[str] | None = None,
        sequences: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the datums to a file, and what was sampled to another, in the formats that their names say.

        Both take their names when both are complete; on failure nothing is left of them.

        Args:
            datums: the file of datums; broken lines can be written to lines of JSON only.
            sequences: the file of sequences, empty where there is no ledger.

        Raises:
            WriteError: for an unknown suffix, a place that cannot be written, one file for both, or a datum
                or sequence that the format cannot hold.
        """
        if datums is not None and sequences is not None:
            name = os.fspath(sequences)
            if os.path.realpath(name) == os.path.realpath(datums):
                raise WriteError(name, "the file of the datums, expected another for the sequences")
        with contextlib.ExitStack() as stack:
            for path, kind in ((datums, "datums"), (sequences, "sequences")):
                if path is not None:
                    name = os.fspath(path)
                    self._write(name, kind, stack.enter_context(replacing(name)))

    def _write(self, name: str, kind: str, temporary: str) -> None:
        """Write one of the two lists to a file that will be called ``name``."""
        write = writer_of(name, sequences=kind == "sequences")
        try:
            if kind == "sequences":
                write(self.sequences or (), temporary)
            elif not self.lines:
                write(self.datums, temporary)
            elif is_arrow(name, WriteError):
                raise WriteError(name, "a broken line can be written to lines of JSON (.jsonl) only")
            else:
                with writing(temporary, name) as put:
                    put(self.to_jsonl())
        except RowError as error:
            raise WriteError(name, f"{error}; lines of JSON (.jsonl) hold it") from error


_IMMUTABLE: Final = frozenset({int, float, str, bool, type(None)})


def copied(value: Any) -> Any:
    """A deep copy that does not visit each number of a list; what is there twice is copied twice."""
    if type(value) in _IMMUTABLE:
        return value
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return value.copy() if _IMMUTABLE.issuperset(map(type, value)) else [copied(item) for item in value]
    return copy.deepcopy(value)
