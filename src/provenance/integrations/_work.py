"""What Ray and Spark have in common: the work on a part of a dataset, and what the driver makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pickle import PicklingError
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.contract import Contract
from provenance.engine.part import Part
from provenance.engine.parts import CheckInParts
from provenance.engine.sources import ledger_of, paths_of
from provenance.errors import ContractError, LedgerError, ProvenanceError, SchemaError
from provenance.formats import MAX_LINE, Note, arrow
from provenance.formats.arrow_batch import noted, rows_where
from provenance.integrations._findings import part_of, table_of
from provenance.integrations._stretches import Stretch
from provenance.ledger import Ledger, MemoryLedger
from provenance.ledger.place import is_database
from provenance.report import Report, Severity
from provenance.rules import registry

#: The column of rows that carry their sequences.
SEQUENCES: Final = "sequences"


@dataclass(frozen=True, slots=True)
class Joined:
    """The ledger of rows that carry their sequences, in a column of lists of structs.

    A struct has the columns of a file of sequences. A row has every record of each id that its spans name;
    ``with_sequences`` makes such rows.
    """

    column: str = SEQUENCES


@dataclass(frozen=True, slots=True)
class Work:
    """A check as workers do it: pickled, sent to them, and called with parts of the dataset."""

    checker: CheckInParts
    ledger: Callable[[], Ledger | None]
    """Gives, in a worker, the ledger that all share."""
    joined: Joined | None

    def rows(self, table: Any) -> Any:
        """The findings in a record batch or table: a row of ``_findings.SCHEMA``, none where it is empty."""
        return table_of(_guarded(map(self._look_at, [table] if table.num_rows else [])))

    def files(self, stretches: Iterable[Stretch]) -> Any:
        """The findings in files: rows of ``_findings.SCHEMA``."""
        return table_of(_guarded(self._look_in(stretches)))

    def good(self, table: Any) -> Any:
        """The rows without an error."""
        is_bad = np.array([note is not None for note in self._notes(table)], np.bool_)
        return rows_where(table, ~is_bad)

    def bad(self, table: Any) -> Any:
        """The rows with an error, each with its note in the last column."""
        notes = self._notes(table)
        is_bad = np.array([note is not None for note in notes], np.bool_)
        fields = [
            None if note is None else {"codes": sorted(note.codes), "violations": note.violations}
            for note in notes
        ]
        return rows_where(noted(table, fields), is_bad)

    def _look_at(self, table: Any) -> Part:
        return self.checker.look(*self._with_ledger(table))

    def _look_in(self, stretches: Iterable[Stretch]) -> Iterator[Part]:
        ledger = self.ledger()
        for stretch in stretches:
            for data in stretch.read():
                yield self.checker.look(data, ledger)

    def _notes(self, table: Any) -> list[Note | None]:
        found = self.checker.notes(*self._with_ledger(table))
        return [found[row] for row in range(table.num_rows)]

    def _with_ledger(self, table: Any) -> tuple[Any, Ledger | None]:
        if self.joined is None:
            return table, self.ledger()
        index = table.schema.get_field_index(self.joined.column)
        if index < 0:
            raise SchemaError(
                f"there is no column {self.joined.column!r} with the sequences of each row: with_sequences "
                "makes one"
            )
        return table.remove_column(index), _ledger_in(table.column(index), self.joined.column)


def _guarded(parts: Iterator[Part]) -> Iterator[Part | ProvenanceError]:
    """The parts, and the error that ends them: engines wrap what is raised in errors of their own."""
    try:
        yield from parts
    except ProvenanceError as error:
        yield error


def _ledger_in(column: Any, name: str) -> Ledger:
    """The sequences in a column of lists of structs."""
    kind = column.type
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        raise SchemaError(f"column {name!r} is {kind}, expected a list of structs, each a sequence")
    ledger = MemoryLedger()
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        fields = chunk.flatten().flatten()
        names = [kind.value_type.field(i).name for i in range(kind.value_type.num_fields)]
        sequences, faults = arrow.table_of_batch(pa.RecordBatch.from_arrays(fields, names))
        for fault in faults:
            place = f"{name}: {fault.field}" if fault.field else name
            raise LedgerError(f"{place}: {fault.message}: check the sequences by themselves first")
        ledger.load(replace(sequences, row=np.full(len(sequences), -1)))  # of no file
    return ledger


class Plan:
    """A check on its driver: what the workers are told, and what is made of what they found."""

    def __init__(
        self,
        contract: Contract | str,
        *,
        ledger: Any,
        share: Callable[[Ledger], Callable[[], Ledger | None]],
        **settings: Any,
    ) -> None:
        """Open the ledger, and share it where it is none that each worker opens itself.

        Args:
            contract: as for ``check``.
            ledger: as for ``check``, or `Joined`.
            share: hands a ledger to the workers, and tells how they get it.
            settings: other arguments of `CheckInParts`.
        """
        self.checker = CheckInParts(contract, ledger=ledger is not None, **settings)
        joined = ledger if isinstance(ledger, Joined) else None
        self._start, opened = self.checker.start(None if joined else ledger)
        self.work = Work(self.checker, _source(ledger, opened, share), joined)

    def report(self, rows: Iterable[Mapping[str, Any]], *, one_table: bool = False) -> Report:
        """The report, from the rows of findings in the order of the dataset; each is let go when it is read.

        Args:
            rows: rows of ``_findings.SCHEMA``.
            one_table: they are parts of one table, and none is a file.

        Raises:
            ProvenanceError: the first that the rows tell of.
        """
        parts = map(part_of, rows)
        return self.checker.report(self._start, _one_fault_of_columns(parts) if one_table else parts)


def _source(
    ledger: Any, opened: Ledger | None, share: Callable[[Ledger], Callable[[], Ledger | None]]
) -> Callable[[], Ledger | None]:
    if opened is None:
        return _no_ledger
    paths = paths_of(ledger)
    if paths is not None and is_database(paths[0]):
        return Database(paths[0])
    try:
        return share(opened)
    except (TypeError, PicklingError):
        raise SchemaError(
            f"cannot send a {type(opened).__name__} to other processes: give the path or address of its "
            "database"
        ) from None


def _no_ledger() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Database:
    """Opens the ledger in a database, in whichever process it is called."""

    address: str = field(repr=False)

    def __call__(self) -> Ledger | None:
        """The ledger; it keeps no connection."""
        return ledger_of(self.address, max_line=MAX_LINE)[0]


def _one_fault_of_columns(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts of one table, whose columns are wrong once and not once in each part."""
    known = False
    for part in parts:
        if not (known and part.failed_files):
            yield part
        known |= part.failed_files


def files_of(data: Any, ledger: Any) -> list[str]:
    """The files that a user names.

    Raises:
        SchemaError: it is no path and no list of paths; or the ledger is `Joined`, for which files have no
            column.
        ReadError: a pattern matches nothing.
    """
    paths = paths_of(data)
    if paths is None:
        raise SchemaError(
            f"cannot check a {type(data).__name__} here: give paths, or a dataset of this engine"
        )
    if isinstance(ledger, Joined):
        raise SchemaError(
            "files have no sequences beside their datums: read them as a dataset of this engine"
        )
    return paths


def refuse_unique(contract: Contract | str) -> None:
    """Rows are sorted one by one.

    Raises:
        ContractError: whether a row is good depends on the rows before it.
    """
    severities = Contract.of(contract).severities
    for code, severity in severities.items():
        if registry()[code].unique and severity == Severity.ERROR:
            raise ContractError(
                f"{code} is an error in this contract and depends on the rows before, expected a contract by "
                f"which each row is good or bad alone: contract.with_severity({{{code!r}: 'warning'}})"
            )
