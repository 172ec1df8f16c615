"""Parquet files, Arrow IPC files and Arrow IPC streams as record batches of a bounded size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from provenance.errors import ReadError, WriteError
from provenance.formats._arrow_arrays import joined, lists_of
from provenance.formats._arrow_limits import refuse_unions
from provenance.formats._ipc_messages import check_file, check_stream
from provenance.formats._parquet_pages import check_footer, check_pages

#: Rows a batch has at most: datums of a few tokens still cost memory of their own.
_MOST_ROWS: Final = 4096
# Pages of a column chunk are read in pieces of this size, so a row group of any size takes little memory.
_BUFFER_BYTES: Final = 2**20
_SHOWN: Final = 200
# Who wants all columns gets batches of so many words, of so many bytes.
_WORDS: Final = 2**21
_WORD: Final = 8
_BROKEN: Final = (OSError, pa.ArrowException, UnicodeDecodeError)


@contextmanager
def failing(kind: type[ReadError | WriteError], name: object) -> Iterator[None]:
    """Turn whatever pyarrow raises about a file into an error of one line."""
    try:
        yield
    except _BROKEN as error:
        raise kind(name, _reason(error)) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        # pyarrow's own text repeats the path.
        return os.strerror(error.errno).lower()
    first = str(error).strip().partition("\n")[0].partition(". Detail:")[0].rstrip(".")
    if not first:
        return type(error).__name__
    return first[:_SHOWN] if first.isupper() else first[0].lower() + first[1:_SHOWN]


class ArrowFile:
    """An open file of one of the three containers, told apart by its first bytes."""

    schema: Any

    def __init__(
        self, path: str, on_bytes: Callable[[int], object] | None = None, *, footer: Any = None
    ) -> None:
        """Open a file; ``footer`` is that of a Parquet file that was open before."""
        self._footer = footer
        self._on_bytes = on_bytes
        self._reported = 0
        with ExitStack() as stack:
            # Not a memory map: the kernel kills who reads a map of a file that is cut meanwhile.
            self._source = stack.enter_context(pa.OSFile(path))
            self._size = self._source.size()
            self._open()
            self._stack = stack.pop_all()

    def _open(self) -> None:
        magic = self._source.read(6)
        self._source.seek(0)
        self._parquet: Any = None
        self._ipc: Any = None
        # One thread: decoding is bound by memory, and a pool would decode columns of several batches at once.
        options = pa.ipc.IpcReadOptions(use_threads=False)
        if magic[:4] == b"PAR1":
            self._parquet = pq.ParquetFile(
                self._source, metadata=self._footer, pre_buffer=False, buffer_size=_BUFFER_BYTES
            )
            if self._footer is None:
                check_footer(self._source, self._size, self._parquet.schema)
            self.schema = self._parquet.schema_arrow
            return
        if magic == b"ARROW1":
            check_file(self._source, self._size)
            self._ipc = pa.ipc.open_file(self._source, options=options)
        elif magic[:4] == b"\xff\xff\xff\xff":
            check_stream(self._source, self._size)
            self._source.seek(0)
            self._ipc = pa.ipc.open_stream(self._source, options=options)
        else:
            raise pa.ArrowInvalid(
                f"starts with {magic!r}, neither Parquet nor Arrow IPC" if magic else "empty file"
            )
        self.schema = self._ipc.schema

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def all_columns(self) -> Iterator[Any]:
        """Yield all columns in batches of about 16 MiB."""
        return self.batches(None, None, _WORDS)

    def batches(
        self, names: Sequence[str] | None, counted: Sequence[str] | None, batch_positions: int
    ) -> Iterator[Any]:
        """Yield the named columns, or all, in batches of a size.

        That is about so many elements in the counted columns, or where ``counted`` is None in words of eight
        bytes.
        """
        if self._parquet is not None:
            yield from self._parquet_batches(names, counted, batch_positions)
        else:
            yield from self._ipc_batches(names, counted, batch_positions)
        self.finish()

    def finish(self) -> None:
        """Report all bytes as read."""
        self._report(self._size)

    def _report(self, done: int) -> None:
        if self._on_bytes is not None and done > self._reported:
            self._on_bytes(done - self._reported)
            self._reported = done

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file, which alone has parts."""
        return self._parquet is not None

    def parts(self, counted: Sequence[str] | None, batch_positions: int) -> list[RowGroups]:
        """A Parquet file in parts, which share no batch; arguments are those of `batches`."""
        groups = [
            _RowGroup(self._parquet.metadata.row_group(i), counted)
            for i in range(self._parquet.num_row_groups)
        ]
        parts: list[RowGroups] = []
        row = done = 0
        for first, last in _together(groups, batch_positions):
            some = groups[first:last]
            rows, positions = sum(group.rows for group in some), sum(group.positions for group in some)
            stored = sum(group.stored for group in some)
            size = _rows_per_batch(rows, positions, batch_positions)
            parts.append(RowGroups(range(first, last), row, rows, positions, size, done, stored))
            row, done = row + rows, done + stored
        return parts

    def bounds(self, part: RowGroups, name: str) -> tuple[int, int] | None:
        """Smallest and largest integer in a column of lists, as the statistics of a Parquet file tell.

        None where they do not tell, and where some list or element of it is null, or a list is empty.
        """
        metadata = self._parquet.metadata
        # Of other writers it is not known whether they count a null list as a null.
        if not (metadata.created_by or "").startswith("parquet-cpp-arrow"):
            return None
        ends: list[int] = []
        for number in part.groups:
            group = metadata.row_group(number)
            for i in range(group.num_columns):
                column = group.column(i)
                if column.path_in_schema.partition(".")[0] != name:
                    continue
                found = column.statistics
                if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                    return None
                ends += found.min, found.max
        return (min(ends), max(ends)) if ends else None

    @property
    def footer(self) -> Any:
        """Of a Parquet file."""
        return self._parquet.metadata

    def batches_of(
        self, part: RowGroups, names: Sequence[str] | None, total: int, *, threads: bool = False
    ) -> Iterator[Any]:
        """Yield a part of a Parquet file; ``total`` is what all parts have stored.

        With ``threads`` the columns of a batch are decoded at once.
        """
        read = 0
        check_pages(self._source, self._parquet.metadata, part.groups, names)
        for batch in self._parquet.iter_batches(
            part.batch_rows,
            row_groups=list(part.groups),
            columns=None if names is None else list(names),
            use_threads=threads,
        ):
            read += len(batch)
            self.passed(part, total, share=min(read / max(part.rows, 1), 1))
            yield batch
        if read != part.rows:
            raise pa.ArrowInvalid(f"{read} rows, where the footer says {part.rows}")

    def passed(self, part: RowGroups, total: int, *, share: float = 1) -> None:
        """Report a part of a Parquet file, or a share of it, as read."""
        self._report(int(self._size * (part.stored_before + part.stored * share) / max(total, 1)))

    def _parquet_batches(
        self, names: Sequence[str] | None, counted: Sequence[str] | None, batch_positions: int
    ) -> Iterator[Any]:
        parts = self.parts(counted, batch_positions)
        total = sum(part.stored for part in parts)
        for part in parts:
            yield from self.batches_of(part, names, total)

    def _ipc_batches(
        self, names: Sequence[str] | None, counted: Sequence[str] | None, batch_positions: int
    ) -> Iterator[Any]:
        if names is None:
            refuse_unions(self.schema)
        for batch in self._whole_ipc_batches():
            # Parquet is decoded, but IPC is used as it lies there: offsets may point anywhere.
            batch.validate(full=True)
            kept = batch if names is None else batch.select(list(names))
            if counted is None:
                positions = batch.get_total_buffer_size() // _WORD
            else:
                positions = sum(_elements(batch.column(name)) for name in counted)
            size = _rows_per_batch(len(batch), positions, batch_positions)
            for start in range(0, len(kept), size):
                yield kept.slice(start, size)

    def _whole_ipc_batches(self) -> Iterator[Any]:
        if hasattr(self._ipc, "num_record_batches"):
            count = self._ipc.num_record_batches
            for i in range(count):
                batch = self._ipc.get_batch(i)
                self._report(self._size * (i + 1) // count)
                yield batch
            return
        for batch in self._ipc:
            self._report(min(self._source.tell(), self._size))
            yield batch


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Neighbouring row groups of a Parquet file that are read together."""

    groups: range
    """Their numbers."""
    row: int
    """Number of the first row in the file."""
    rows: int
    positions: int
    """Elements in the counted columns."""
    batch_rows: int
    """Rows of a batch, of the last one fewer."""
    stored_before: int
    """Compressed bytes of the row groups before these."""
    stored: int
    """Compressed bytes of these."""


class _RowGroup:
    """What the metadata say about a row group."""

    def __init__(self, metadata: Any, counted: Sequence[str] | None) -> None:
        self.rows = metadata.num_rows
        self.positions = self.stored = 0
        most: dict[str, int] = {}
        for i in range(metadata.num_columns):
            column = metadata.column(i)
            self.stored += column.total_compressed_size
            if counted is None:
                # Repeated values are stored once, and long ones take many words.
                most[column.path_in_schema] = column.num_values + column.total_uncompressed_size // _WORD
                continue
            name = column.path_in_schema.partition(".")[0]
            if name in counted:
                most[name] = max(most.get(name, 0), column.num_values)
        self.positions = sum(most.values())


def _together(groups: Sequence[_RowGroup], batch_positions: int) -> Iterator[tuple[int, int]]:
    """Neighbouring row groups that are so small that they share a batch."""
    first = rows = positions = 0
    for i, group in enumerate(groups):
        rows, positions = rows + group.rows, positions + group.positions
        if rows >= _MOST_ROWS or positions >= batch_positions:
            yield first, i + 1
            first, rows, positions = i + 1, 0, 0
    if first < len(groups):
        yield first, len(groups)


def _rows_per_batch(rows: int, positions: int, batch_positions: int) -> int:
    return max(1, min(_MOST_ROWS, rows * batch_positions // max(positions, 1)))


def _elements(column: Any) -> int:
    """Number of elements of a list column; of chunks, the tokens in them."""
    lists = lists_of(joined(column))
    kind = lists.elements.type
    if pa.types.is_struct(kind) and kind.get_field_index("tokens") >= 0:
        return _elements(lists.elements.field("tokens"))
    return int(np.sum(lists.lengths))
