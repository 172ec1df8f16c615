"""Sequences in Parquet files by the number of their row, decoded in pieces; the last used are kept."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import Fault, Ints
from provenance.errors import ReadError
from provenance.formats._arrow_files import ArrowFile, RowGroups, failing
from provenance.formats._arrow_schema import sequence_faults
from provenance.formats.arrow_sequences import COUNTED, read_sequences, table_of_batch
from provenance.sequences import SequenceTable

#: Tokens of a piece, about.
_POSITIONS: Final = 2**20
#: Columns that take most of the space, and what must be known of one to do without it; of logprobs, nothing.
_LISTS: Final = {"prompt_tokens": (-1, 2**31 - 1), "tokens": (0, 2**31 - 1), "logprobs": None}
#: Bytes that a sequence takes in memory beside its tokens and logprobs, about.
_ROW_BYTES: Final = 400
_OPEN_FILES: Final = 8


def bytes_in_memory(path: str) -> int | None:
    """About what the sequences of a Parquet file take in memory, by its footer; None for another file.

    Raises:
        ReadError: The file cannot be opened.
    """
    with failing(ReadError, path), ArrowFile(path) as file:
        if not file.is_parquet:
            return None
        parts = file.parts(tuple(_LISTS), _POSITIONS)
        return sum(4 * part.positions + _ROW_BYTES * part.rows for part in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Neighbouring rows of one file. Numbers of rows count over all files."""

    file: str
    offset: int
    """Number of the file's first row."""
    first: int
    """Number of the first row."""
    stop: int
    """Number of the last row, plus 1."""
    table: SequenceTable
    """The rows that can be read; their ``row`` counts within the file."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        return self.table.pool.nbytes + self.table.logprobs.nbytes + _ROW_BYTES * len(self.table)

    def take(self, rows: Ints) -> SequenceTable:
        """Rows of this piece, by ascending numbers.

        Raises:
            ReadError: One of them has a fault that was not there when the files were scanned.
        """
        wanted = rows - self.offset
        places = np.searchsorted(self.table.row, wanted)
        found = np.append(self.table.row, -1)[places] == wanted
        if not found.all():
            row = int(wanted[~found][0])
            raise ReadError(self.file, f"row {row} is not as the statistics in the footer say: write it anew")
        return self.table.take(places)


class Pieces:
    """The rows of files, one file after the other. Not for several threads at once."""

    def __init__(self, paths: Sequence[str], most_bytes: int) -> None:
        """Look at the files' footers.

        Args:
            paths: The files.
            most_bytes: Of decoded rows that are kept; the last piece always is.

        Raises:
            ReadError: A file cannot be opened, or is no Parquet file; here and in the methods, or is damaged,
                or has changed.
        """
        self.paths = tuple(paths)
        self._most_bytes = most_bytes
        self._stamps = [_stamp(path) for path in self.paths]
        self.offsets = [0]
        """Number of each file's first row."""
        for path in self.paths:
            with failing(ReadError, path), ArrowFile(path) as file:
                if not file.is_parquet:
                    raise ReadError(path, "Arrow IPC, expected Parquet")
                self.offsets.append(self.offsets[-1] + sum(part.rows for part in _parts(file)))
        self._open: OrderedDict[int, _Cursor] = OrderedDict()
        self._kept: OrderedDict[int, Decoded] = OrderedDict()
        self._kept_bytes = 0

    def close(self) -> None:
        """Close the files and forget what was decoded; what is asked for later opens them again."""
        for cursor in self._open.values():
            cursor.close()
        self._open.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def scan(
        self, number: int, on_bytes: Callable[[int], object] | None = None
    ) -> Iterator[tuple[SequenceTable, tuple[Fault, ...]]]:
        """Read a file from start to end, for everything but tokens and logprobs, as `read_sequences` does.

        Faults are those of all columns. Columns of tokens are read where the statistics in the footer do not
        say that all is well with them.
        """
        path = self._unchanged(number)
        with failing(ReadError, path), ArrowFile(path, on_bytes) as file:
            if sequence_faults(file.schema):
                yield from read_sequences(path, on_bytes=on_bytes)
                return
            parts = _parts(file)
            stored = sum(part.stored for part in parts)
            row = 0
            for part in parts:
                spared = [name for name in _LISTS if _is_well(name, file.bounds(part, name))]
                names = [name for name in file.schema.names if name not in spared]
                for batch in file.batches_of(part, names, stored):
                    yield table_of_batch(_with_empty(batch, spared), file=path, first_row=row)
                    row += len(batch)
            file.finish()

    def at(self, row: int) -> Decoded:
        """The piece that a row lies in."""
        for first, piece in self._kept.items():
            if first <= row < piece.stop:
                self._kept.move_to_end(first)
                return piece
        piece = self._read(row)
        self._kept[piece.first] = piece
        self._kept_bytes += piece.nbytes
        while self._kept_bytes > self._most_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.nbytes
        return piece

    def _read(self, row: int) -> Decoded:
        number = bisect_right(self.offsets, row) - 1
        path, offset = self.paths[number], self.offsets[number]
        with failing(ReadError, path):
            first, batch = self._cursor(number).batch_with(row - offset)
            table, _ = table_of_batch(batch, file=path, first_row=first)
        return Decoded(path, offset, offset + first, offset + first + len(batch), table)

    def _cursor(self, number: int) -> _Cursor:
        """An open file, where reading goes on if it can."""
        cursor = self._open.pop(number, None)
        if cursor is None:
            if len(self._open) == _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
            cursor = _Cursor(self._unchanged(number))
        self._open[number] = cursor
        return cursor

    def _unchanged(self, number: int) -> str:
        """A file that is about to be opened: numbers of rows mean nothing in another one."""
        path = self.paths[number]
        if _stamp(path) != self._stamps[number]:
            raise ReadError(path, "changed since the ledger was opened: open it again")
        return path


class _Cursor:
    """An open file and how far it was read."""

    def __init__(self, path: str) -> None:
        with ExitStack() as stack:
            self._file = stack.enter_context(ArrowFile(path))
            self._parts = _parts(self._file)
            self._starts = [part.row for part in self._parts]
            self._part = -1
            self._row = 0
            self._batches: Iterator[Any] = iter(())
            self.close = stack.pop_all().close

    def batch_with(self, row: int) -> tuple[int, Any]:
        """The batch that a row lies in, and the number of its first row; numbers count within the file."""
        number = bisect_right(self._starts, row) - 1
        if number != self._part or row < self._row:
            part = self._parts[number]
            self._part, self._row = number, part.row
            self._batches = self._file.batches_of(part, self._file.schema.names, part.stored)
        for batch in self._batches:
            first, self._row = self._row, self._row + len(batch)
            if row < self._row:
                return first, batch
        raise pa.ArrowInvalid(f"row {row} is missing")


def _parts(file: ArrowFile) -> list[RowGroups]:
    return file.parts(COUNTED, _POSITIONS)


def _stamp(path: str) -> tuple[int, int, int]:
    with failing(ReadError, path):
        found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_well(name: str, bounds: tuple[int, int] | None) -> bool:
    limits = _LISTS[name]
    if limits is None:
        return True
    return bounds is not None and limits[0] <= bounds[0] and bounds[1] <= limits[1]


def _with_empty(batch: Any, names: Sequence[str]) -> Any:
    """The batch with a column of empty lists for each of the names."""
    # Not `pa.array`, which imports pandas.
    offsets = pa.py_buffer(np.zeros(len(batch) + 1, np.int32))
    children = [pa.nulls(0, pa.int32())]
    empty = pa.Array.from_buffers(pa.list_(pa.int32()), len(batch), [None, offsets], children=children)
    for name in names:
        batch = batch.append_column(name, empty)
    return batch
