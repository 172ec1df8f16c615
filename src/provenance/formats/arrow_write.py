"""Datums and sequences into Parquet and Arrow IPC, a batch at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from provenance.errors import SchemaError
from provenance.formats._arrow_encode import Encoded, encoded, refuse
from provenance.formats._arrow_files import readable_input
from provenance.formats._arrow_layout import Layout, list_array
from provenance.formats._problem import RecordError
from provenance.formats._sequences import record_of
from provenance.sequences import ABSENT, Record

_PARQUET: Final = (".parquet",)
_IPC_FILE: Final = (".arrow", ".feather", ".ipc")
_IPC_STREAM: Final = (".arrows",)
#: A batch ends after so many rows or numbers.
BATCH_ROWS: Final = 1024
_BATCH_NUMBERS: Final = 2**20
# Batches wait for a row group of a size that readers like.
_ROW_GROUP_BYTES: Final = 2**25

_TIME: Final = pa.timestamp("us", tz="UTC")
_SEQUENCES: Final = pa.schema(
    [
        ("sequence_id", pa.string()),
        ("session_id", pa.string()),
        ("prompt_tokens", pa.list_(pa.int32())),
        ("tokens", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("sampled_at", _TIME),
        ("last_used_at", _TIME),
        ("record_stability_info", pa.bool_()),
        ("model", pa.string()),
        ("policy_version", pa.string()),
        ("stop_reason", pa.string()),
        ("temperature", pa.float32()),
        ("top_p", pa.float32()),
        ("top_k", pa.int32()),
        ("seed", pa.int64()),
    ]
)
_TEXTS: Final = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
_INTEGERS: Final = ("sampled_at", "last_used_at", "top_k", "seed")


def write_datums(datums: Iterable[Mapping[str, Any]], path: str, *, name: str | None = None) -> None:
    """Write JSON-shaped datums.

    The first batch decides on the columns: tokens alone where each of its datums is one text chunk, chunks
    otherwise; and the names, dtypes and widths of the loss inputs.

    Args:
        datums: The datums, which may be a generator; memory holds a row group of them.
        path: The file to write.
        name: Whose suffix tells the container; `path` if not given.

    Raises:
        SchemaError: A datum is malformed, or cannot be held; names the row, from 0, and the field.
        ReadError: The file cannot be written.
    """
    batches = _batches(encoded(datum, number) for number, datum in enumerate(datums))
    first = next(batches, [])
    layout = Layout(first)
    with _Sink(path, name or path, layout.schema) as sink:
        if first:
            sink.write(layout.batch(first))
        for rows in batches:
            sink.write(layout.batch(rows))


def write_sequences(sequences: Iterable[Mapping[str, Any]], path: str, *, name: str | None = None) -> None:
    """Write JSON-shaped sampled sequences; arguments and errors as for `write_datums`."""
    records = (_record(sequence, number) for number, sequence in enumerate(sequences))
    with _Sink(path, name or path, _SEQUENCES) as sink:
        for rows in _batches(records):
            sink.write(_sequence_batch([row.record for row in rows]))


class _Sized:
    """A record, and the numbers in it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.size = (len(record.prompt) + len(record.tokens) + len(record.logprobs)) // 4


_Row = TypeVar("_Row", Encoded, _Sized)


def _batches(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += row.size
        if len(batch) >= BATCH_ROWS or size >= _BATCH_NUMBERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _record(sequence: Mapping[str, Any], number: int) -> _Sized:
    try:
        return _Sized(record_of(sequence))
    except RecordError as error:
        raise refuse(number, error.field, error.message, error.code) from None


def _sequence_batch(records: Sequence[Record]) -> Any:
    columns = {
        **{name: pa.array([getattr(record, name) for record in records], pa.string()) for name in _TEXTS},
        **{name: _integers([getattr(record, name) for record in records], name) for name in _INTEGERS},
        **{name: _reals([getattr(record, name) for record in records]) for name in ("temperature", "top_p")},
        "record_stability_info": pa.array([record.record_stability_info for record in records], pa.bool_()),
        "prompt_tokens": _numbers([record.prompt for record in records], np.int32),
        "tokens": _numbers([record.tokens for record in records], np.int32),
        "logprobs": _numbers([record.logprobs for record in records], np.float32),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in _SEQUENCES.names], schema=_SEQUENCES)


def _integers(values: Sequence[int], name: str) -> Any:
    array = pa.array([None if value == ABSENT else value for value in values], pa.int64())
    return array.cast(_SEQUENCES.field(name).type)


def _reals(values: Sequence[float]) -> Any:
    return pa.array([None if math.isnan(value) else value for value in values], pa.float32())


def _numbers(parts: Sequence[bytes], dtype: type[np.generic]) -> Any:
    values = pa.array(np.frombuffer(b"".join(parts), dtype))
    return list_array(values, [len(part) // 4 for part in parts])


class _Sink:
    """A file that takes record batches. What the caller's own data raise is not an error of the file."""

    def __init__(self, path: str, name: str, schema: Any) -> None:
        suffix = PurePath(name).suffix.lower()
        known = (*_PARQUET, *_IPC_FILE, *_IPC_STREAM)
        if suffix not in known:
            raise SchemaError(
                f"{name!r}: an Arrow file's name ends in {', '.join(known[:-1])} or {known[-1]}"
            )
        self._name = name
        self._waiting: list[Any] = []
        self._bytes = 0
        self._row_group_bytes = _ROW_GROUP_BYTES if suffix in _PARQUET else 0
        with readable_input(name), ExitStack() as stack:
            file = stack.enter_context(pa.OSFile(path, "wb"))
            self._writer = stack.enter_context(_writer(suffix, file, schema))
            self._stack = stack.pop_all()

    def write(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._row_group_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            with readable_input(self._name):
                self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with readable_input(self._name), self._stack:
            if error is None:
                self._flush()


def _writer(suffix: str, file: Any, schema: Any) -> Any:
    if suffix in _PARQUET:
        return pq.ParquetWriter(file, schema, compression="zstd")
    # Not compressed: who wants IPC wants to use the bytes as they lie there.
    return pa.ipc.new_file(file, schema) if suffix in _IPC_FILE else pa.ipc.new_stream(file, schema)
