"""Arrow files as two files, good and bad: the rows keep their values and their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from typing import Any

import numpy as np

from provenance.errors import ReadError
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_sink import Sink
from provenance.formats._split import FileNotes, note_fields
from provenance.formats.arrow_batch import noted, noted_schema, rows_where


def split(
    files: Mapping[str, FileNotes], paths: Mapping[str, str], *, good: str | None, bad: str | None
) -> None:
    """Copy rows to ``paths[good]`` and ``paths[bad]``; arguments and errors as for `formats.split`."""
    schema = _common_schema(list(files))
    with ExitStack() as stack:
        good_sink = None if good is None else stack.enter_context(Sink(paths[good], good, schema))
        bad_sink = None if bad is None else stack.enter_context(Sink(paths[bad], bad, noted_schema(schema)))
        for path, notes in files.items():
            for batch, first_row in _batches(path):
                found = [notes[row] for row in range(first_row, first_row + len(batch))]
                is_bad = np.array([note is not None for note in found], np.bool_)
                if good_sink is not None and not is_bad.all():
                    good_sink.write(rows_where(batch, ~is_bad))
                if bad_sink is not None and is_bad.any():
                    values = [
                        None if note is None else note_fields(note, path, row)
                        for row, note in enumerate(found, first_row)
                    ]
                    bad_sink.write(rows_where(noted(batch, values), is_bad))


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
