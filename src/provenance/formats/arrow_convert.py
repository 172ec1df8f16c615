"""Arrow files as lines of JSON, and as Arrow files of another container."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from provenance.errors import ReadError
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_lines import datum_lines, sequence_lines
from provenance.formats._arrow_schema import INPUT, INPUT_TOKENS
from provenance.formats._arrow_sink import Sink
from provenance.formats._convert import NEITHER, NO_RECORD
from provenance.formats._problem import RowError
from provenance.formats.arrow import columns_of_batch
from provenance.formats.arrow_sequences import table_of_batch
from provenance.sequences import SequenceTable


class _Read(NamedTuple):
    """A batch whose rows can all be read."""

    batch: Any
    first_row: int
    table: SequenceTable | None
    """The batch as a table, where it holds sequences."""


def to_lines(source: str, put: Callable[[bytes], object]) -> int:
    """Write the records of an Arrow file as lines of JSON, and return how many; errors as for ``convert``."""
    count = 0
    for line in lines_of(source):
        put(line.encode() + b"\n")
        count += 1
    return count


def lines_of(source: str) -> Iterator[str]:
    """The records of an Arrow file as lines of JSON; raises `ReadError`."""
    for batch, first_row, table in _batches(source):
        try:
            lines = datum_lines(batch) if table is None else sequence_lines(batch, table)
        except RowError as error:
            raise ReadError(source, f"row {first_row + error.row}: {error.what}") from None
        yield from lines


def copy(source: str, path: str, name: str) -> int:
    """Write the records of an Arrow file to another, with the same columns, and return how many."""
    batches = _batches(source)
    first = next(batches)
    count = len(first.batch)
    with Sink(path, name, first.batch.schema) as sink:
        sink.write(first.batch)
        for read in batches:
            sink.write(read.batch)
            count += len(read.batch)
    return count


def _batches(source: str) -> Iterator[_Read]:
    """The batches of a file; raises `ReadError` where one cannot be read, or there is none."""
    first_row = 0
    with failing(ReadError, source), ArrowFile(source) as file:
        names = file.schema.names
        sequences = INPUT not in names and INPUT_TOKENS not in names
        if sequences and "prompt_tokens" not in names:
            raise ReadError(source, NEITHER)
        for batch in file.all_columns():
            table = None
            if sequences:
                table, faults = table_of_batch(batch, file=source)
            else:
                faults = columns_of_batch(batch, file=source).faults
            if faults:
                fault = faults[0]
                place = "" if fault.row is None else f"row {first_row + fault.row}: "
                raise ReadError(source, f"{place}{fault.field}: {fault.message}")
            if len(batch):
                yield _Read(batch, first_row, table)
            first_row += len(batch)
    if not first_row:
        raise ReadError(source, NO_RECORD)
