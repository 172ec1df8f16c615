"""Arrow files as two files, good and bad: the rows keep their values and their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.errors import ReadError
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_sink import Sink
from provenance.formats._split import NOTE, FileNotes, note_fields

_NOTE: Final = pa.struct(
    [
        ("codes", pa.list_(pa.string())),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("violations", pa.list_(pa.string())),
    ]
)


def split(
    files: Mapping[str, FileNotes], paths: Mapping[str, str], *, good: str | None, bad: str | None
) -> None:
    """Copy rows to ``paths[good]`` and ``paths[bad]``; arguments and errors as for `formats.split`."""
    schema = _common_schema(list(files))
    with ExitStack() as stack:
        good_sink = None if good is None else stack.enter_context(Sink(paths[good], good, schema))
        bad_sink = None if bad is None else stack.enter_context(Sink(paths[bad], bad, _noted_schema(schema)))
        for path, notes in files.items():
            for batch, first_row in _batches(path):
                found = [notes[row] for row in range(first_row, first_row + len(batch))]
                is_bad = np.array([note is not None for note in found], np.bool_)
                if good_sink is not None:
                    _write(good_sink, batch, ~is_bad)
                if bad_sink is not None and is_bad.any():
                    values = [
                        None if note is None else note_fields(note, path, row)
                        for row, note in enumerate(found, first_row)
                    ]
                    _write(bad_sink, _noted(batch, pa.array(values, _NOTE)), is_bad)


def _common_schema(paths: Sequence[str]) -> Any:
    schema: Any = None
    for path in paths:
        with failing(ReadError, path), ArrowFile(path) as file:
            if schema is None:
                schema = file.schema
            else:
                _refuse_other_columns(path, file.schema, paths[0], schema)
    return schema


def _refuse_other_columns(path: str, schema: Any, first: str, expected: Any) -> None:
    for mine, theirs in zip_longest(schema, expected):
        if mine is None or theirs is None or not mine.equals(theirs):
            here, there = (
                "nothing" if column is None else f"{column.name!r} of {column.type}"
                for column in (mine, theirs)
            )
            what = f"has the column {here} where {first} has {there}, expected the same columns"
            raise ReadError(path, f"{what}: sort the files one by one")


def _batches(path: str) -> Iterator[tuple[Any, int]]:
    first_row = 0
    with failing(ReadError, path), ArrowFile(path) as file:
        for batch in file.all_columns():
            yield batch, first_row
            first_row += len(batch)


def _noted_schema(schema: Any) -> Any:
    index = schema.get_field_index(NOTE)
    return (schema if index < 0 else schema.remove(index)).append(pa.field(NOTE, _NOTE))


def _noted(batch: Any, notes: Any) -> Any:
    columns = [batch.column(i) for i, name in enumerate(batch.schema.names) if name != NOTE]
    return pa.RecordBatch.from_arrays([*columns, notes], schema=_noted_schema(batch.schema))


def _write(sink: Sink, batch: Any, chosen: Any) -> None:
    """Write the chosen rows, as few batches."""
    # Runs of rows, because `filter` has no kernel for some of the types that columns may have.
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2).tolist()
    runs = [batch.slice(start, end - start) for start, end in edges]
    if len(runs) > 1:
        runs = pa.Table.from_batches(runs).combine_chunks().to_batches()
    for run in runs:
        sink.write(run)
