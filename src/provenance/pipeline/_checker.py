"""A contract with all that it needs, for batch after batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, cast

import numpy as np

from provenance.batch import ValidatedBatch
from provenance.columns import Columns, Mask
from provenance.contract import Contract
from provenance.engine.arguments import refuse_examples
from provenance.engine.run import Run
from provenance.engine.sources import batches as engine_batches
from provenance.engine.sources import ledger_of, paths_of
from provenance.engine.split import note
from provenance.engine.step import Step
from provenance.engine.verbs import EXAMPLES, validate
from provenance.errors import SchemaError, ValidationError
from provenance.formats import MAX_LINE, FileNotes, Note
from provenance.pipeline._batches import data_of, given_back, rows_of, taken
from provenance.pipeline._steps import refuse
from provenance.report import Report


class Checker:
    """A contract with all that it needs, made once and used on batch after batch.

    A batch is a list of datums (models or JSON-shaped mappings), or Arrow data: a record batch, a table, or
    what hands itself over by ``__arrow_c_stream__``, such as a DataFrame of polars or pandas, or a relation
    of DuckDB. Arrow data are not copied where their types allow it. An empty batch is fine.

    Each batch is judged alone. What only a dataset as a whole can tell (SEQ010, ADV003) is told of the batch;
    a `CheckedStream` remembers what came before.

    A checker can be pickled. Of a ledger given as paths these are pickled, and opened anew by whoever
    unpickles it; any other ledger is pickled itself, if it can be.
    """

    def __init__(
        self,
        contract: Contract | str = "stable_reinforce",
        *,
        ledger: Any = None,
        session: str | None = None,
        now: datetime | str | None = None,
        loss_config: Mapping[str, Any] | None = None,
        max_examples: int = EXAMPLES,
    ) -> None:
        """Open the ledger; arguments are those of `provenance.check`.

        Without ``now`` the time is the clock's at each batch.

        Raises:
            ContractError: the contract, the session, the time or the options of the loss cannot be used.
            LedgerError: the ledger is a database that cannot be read.
            ReadError: a file of the ledger cannot be read.
            SchemaError: ``ledger`` is none.
        """
        refuse_examples(max_examples)
        self._settings: dict[str, Any] = {
            "contract": Contract.of(contract),
            "session": session,
            "now": now,
            "loss_config": loss_config,
        }
        self._max_examples = max_examples
        self._paths = paths_of(ledger)
        self._open(ledger)
        self._start()  # refuses what cannot be used

    def _open(self, ledger: Any) -> None:
        self._ledger, self._faults = ledger_of(ledger, max_line=MAX_LINE)

    def __getstate__(self) -> dict[str, Any]:
        opened = () if self._paths is None else ("_ledger", "_faults")
        return {name: value for name, value in vars(self).items() if name not in opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._paths is not None:
            self._open(self._paths)

    def check_batch(self, batch: Any) -> Report:
        """The report that `provenance.check` gives of this batch.

        Raises:
            SchemaError: it is no batch.
        """
        run, data = self._start(), data_of(taken(batch))
        for step in chain(run.before(self._faults), run.batches(data, self._ledger, workers=1), run.after()):
            run.tally.keep(step, self._max_examples)
        return run.report()

    def mask(self, batch: Any) -> Mask:
        """(n,) bool: the datum has no error. A warning is none.

        Raises:
            SchemaError: it is no batch, or its columns are not those of datums.
        """
        return self._mask(taken(batch))

    def filter(self, batch: Any) -> Any:
        """The datums without an error, in what they came in.

        Lists, record batches, tables and DataFrames of polars come back as such, other Arrow data as a table.
        Errors are those of `mask`.
        """
        rows = taken(batch)
        return given_back(rows_of(rows, self._mask(rows)), batch)

    def annotate(self, batch: Any) -> Any:
        """Arrow data with all their rows, and why they are bad: the column that ``check(write_bad=)`` adds.

        The column ``provenance`` is null beside a good datum; of another it has ``codes`` of its errors, the
        number of its ``row`` in the batch, and the first ``violations``. Readers pass over it, and a later
        check replaces it.

        Raises:
            SchemaError: as for `mask`, and for a list of datums.
        """
        rows = taken(batch)
        if isinstance(rows, Sequence):
            raise SchemaError(f"a {type(batch).__name__} has no columns, expected Arrow data to annotate")
        from provenance.formats.arrow_batch import noted

        run, found = self._start(), FileNotes()
        for step, _ in self._judged(run, rows):
            note(step, run.tally.severity, found)
        return given_back(noted(rows, [_fields(found[row], row) for row in range(rows.num_rows)]), batch)

    def validated(self, batches: Iterable[Any]) -> Iterator[ValidatedBatch]:
        """Each batch as `provenance.validate` packs it for a loss.

        Raises:
            ValidationError: a batch breaks the contract; ``report`` is about that batch.
            ContractError: the contract has rules about the ledger or the session, and none was given.
            SchemaError: it is no batch.
        """
        run = self._start()
        for step in run.before(self._faults):
            refuse(run, step)
        for number, batch in enumerate(batches):
            try:
                packed = validate(data_of(taken(batch)), ledger=self._ledger, **self._settings)
            except ValidationError as error:
                raise ValidationError(f"batch {number}: {error}", error.report) from None
            yield packed

    def _start(self) -> Run:
        return Run(**self._settings, ledger=self._ledger, allow_empty=True)

    def _mask(self, rows: Any) -> Mask:
        masks = [good for _, good in self._judged(self._start(), rows)]
        return np.concatenate([np.zeros(0, np.bool_), *masks])

    def _judged(self, run: Run, rows: Any, *, before: int = 0) -> Iterator[tuple[Step, Mask]]:
        """Judge what `taken` gave, in steps; the mask says which datums of a step have no error.

        Args:
            run: what is judged counts in it.
            rows: the batch.
            before: datums that came before it.
        """
        # Pieces, which the engine has too, are of files only.
        for columns in cast("Iterator[Columns]", engine_batches(data_of(rows), max_line=MAX_LINE)):
            for fault in columns.faults:
                if fault.row is None:
                    column = f"column {fault.field!r}: " if fault.field else ""
                    only = "; a batch has the columns of datums and no others"
                    raise SchemaError(f"{column}{fault.message}{only}", code=fault.code)
            numbered = replace(columns, row=columns.row + before)
            for step in run.batches(numbered, self._ledger, workers=1):
                yield step, ~np.isin(numbered.row, step.bad_datums(run.tally.severity))


def _fields(note: Note | None, row: int) -> dict[str, Any] | None:
    if note is None:
        return None
    return {"codes": sorted(note.codes), "row": row, "violations": note.violations}
