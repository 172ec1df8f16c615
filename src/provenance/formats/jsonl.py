"""Datums and sequences as files of one JSON object a line, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from provenance.columns import Columns, Fault
from provenance.formats import _json
from provenance.formats._builder import ColumnsBuilder, Row
from provenance.formats._datums import row_of
from provenance.formats._io import BLOCK, MAX_LINE, Line, OnBytes, name_of, read_lines, writing
from provenance.formats._plain import keys_in, plain_datum, plain_sequence
from provenance.formats._problem import RecordError
from provenance.formats._sequences import record_of
from provenance.sequences import Record, SequenceTable, TableBuilder

#: Positions of a batch, about.
BATCH_POSITIONS: Final = 1 << 18
#: Rows of a batch, at most.
BATCH_ROWS: Final = 1 << 12
# Stored values of a batch, about: (N, K) inputs are larger than their positions.
_VALUES_A_POSITION: Final = 8


def read_datums(
    path: str,
    *,
    batch_positions: int = BATCH_POSITIONS,
    max_line: int = MAX_LINE,
    on_bytes: OnBytes | None = None,
    block: int = BLOCK,
) -> Iterator[Columns]:
    """Read datums in batches of about ``batch_positions`` positions and at most 4,096 rows.

    A line that cannot be read is a row that is not ``readable``, and a fault. ``row`` counts the lines that
    are not blank; a file without any has no batch. ``block``: bytes read at once.

    Raises:
        ReadError: for a file that cannot be read, and for a line of more than ``max_line`` bytes.
    """
    file = name_of(path)
    batch = ColumnsBuilder(file=file, lines=True)
    for line in read_lines(path, max_line=max_line, on_bytes=on_bytes, block=block):
        row = datum_in(line)
        if isinstance(row, Row):
            batch.append(row, line.number)
        else:
            batch.append_unreadable(row, line.number)
        full = batch.positions >= batch_positions or batch.rows >= BATCH_ROWS
        if full or batch.stored >= batch_positions * _VALUES_A_POSITION:
            yield batch.finish()
            batch = ColumnsBuilder(file=file, first_row=batch.first_row + batch.rows, lines=True)
    if batch.rows:
        yield batch.finish()


def datum_in(line: Line) -> Row | list[RecordError]:
    """Read the datum of a line; what is wrong with it where it cannot be read."""
    row = plain_datum(line)
    if row is not None:
        return row
    try:
        return row_of(_json.parse(line.data))
    except RecordError as error:
        return [error]


def sequence_in(line: Line) -> Record:
    """Read the sequence of a line; raises `RecordError`."""
    return plain_sequence(line) or record_of(_json.parse(line.data))


def object_in(line: Line) -> dict[str, Any]:
    """The object of a line with every number as it is written; raises `RecordError`."""
    try:
        found = msgspec.json.decode(line.data)
        # msgspec keeps the last of two equal keys, and then the line has more keys than the object.
        if isinstance(found, dict) and keys_in(found) == line.keys:
            return found
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    return _json.parse(line.data)


def read_sequences(
    path: str, *, max_line: int = MAX_LINE, on_bytes: OnBytes | None = None, block: int = BLOCK
) -> Iterator[tuple[SequenceTable, tuple[Fault, ...]]]:
    """Read sampled sequences, in tables of about two million tokens and logprobs and at most 4,096 rows.

    A line that cannot be read is left out of its table and a fault; ``row`` of both counts the lines of the
    file that are not blank.

    Raises:
        ReadError: for a file that cannot be read, and for a line of more than ``max_line`` bytes.
    """
    file = name_of(path)
    table, faults = TableBuilder(file=file), list[Fault]()
    for row, line in enumerate(read_lines(path, max_line=max_line, on_bytes=on_bytes, block=block)):
        try:
            table.append(sequence_in(line), row, line.number)
        except RecordError as error:
            faults.append(Fault(error.code, row, error.field, error.message, line.number))
        full = table.rows + len(faults) >= BATCH_ROWS
        if full or table.stored >= BATCH_POSITIONS * _VALUES_A_POSITION:
            yield table.finish(), tuple(faults)
            table, faults = TableBuilder(file=file), []
    if table.rows or faults:
        yield table.finish(), tuple(faults)


def write(records: Iterable[object], path: str, *, name: str | None = None) -> None:
    """Write models or JSON-shaped dicts, one a line.

    The suffix of ``name``, or else of ``path``, says how the file is compressed. NaN and infinity are written
    as the literals that the readers take; numpy arrays and torch tensors as lists, bytes as base64.

    Raises:
        WriteError: the file cannot be written.
    """
    with writing(path, name or path) as put:
        for record in records:
            put(_json.dumps(record) + b"\n")
