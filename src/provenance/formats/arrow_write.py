"""Datums and sequences into Parquet and Arrow IPC, a batch at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from provenance.columns import Mask, view
from provenance.formats._arrow_encode import Encoded, encoded
from provenance.formats._arrow_layout import Layout, joined_masks, list_array
from provenance.formats._arrow_parts import Parts
from provenance.formats._arrow_sink import Sink
from provenance.formats._problem import RecordError, RowError, object_of
from provenance.formats._sequences import record_of
from provenance.sequences import ABSENT, Record

#: A batch ends after so many rows or numbers.
BATCH_ROWS: Final = 1024
_BATCH_NUMBERS: Final = 2**20

_TIME: Final = pa.timestamp("us", tz="UTC")
SEQUENCES: Final = pa.schema(
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
        ("temperature", pa.float64()),
        ("top_p", pa.float64()),
        ("top_k", pa.int32()),
        ("seed", pa.int64()),
    ]
)
_TEXTS: Final = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
_INTEGERS: Final = ("sampled_at", "last_used_at", "top_k", "seed")


def write_datums(datums: Iterable[Mapping[str, Any]], path: str, *, name: str | None = None) -> None:
    """Write JSON-shaped datums.

    The columns are what the datums need: tokens alone where each of them is one text chunk, chunks otherwise;
    and a column for each loss input and each label that some datum has.

    Args:
        datums: The datums, which may be a generator; memory holds a row group of them.
        path: The file to write.
        name: Whose suffix tells the container; `path` if not given.

    Raises:
        RowError: A `SchemaError`: a datum is malformed, or cannot be held in one file with those before it;
            names the row, from 0, and the field. It is the last datum that was taken from ``datums``.
        WriteError: The file cannot be written.
    """
    layout = Layout()
    with Parts(path, name or path) as parts:
        for rows in _batches(_admitted(layout, datums)):
            parts.write(layout.batch(rows))
        parts.finish(layout.schema)


def _admitted(layout: Layout, datums: Iterable[Mapping[str, Any]]) -> Iterator[Encoded]:
    for number, datum in enumerate(datums):
        row = encoded(datum, number)
        layout.admit(row)
        yield row


def write_sequences(sequences: Iterable[Mapping[str, Any]], path: str, *, name: str | None = None) -> None:
    """Write JSON-shaped sampled sequences; arguments and errors as for `write_datums`."""
    records = (_record(sequence, number) for number, sequence in enumerate(sequences))
    with Sink(path, name or path, SEQUENCES) as sink:
        for rows in _batches(records):
            sink.write(_sequence_batch(rows))


class _Sized:
    """A record, and the numbers in it."""

    def __init__(self, record: Record, logprobs: object) -> None:
        self.record = record
        self.size = (len(record.prompt) + len(record.tokens) + len(record.logprobs)) // 4
        self.has_logprobs = logprobs is not None
        self.null_logprobs: Mask | None = None
        if isinstance(logprobs, (list, tuple)) and None in logprobs:
            self.null_logprobs = np.array([value is None for value in logprobs], np.bool_)


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
        return _Sized(record_of(sequence), object_of(sequence, "").get("logprobs"))
    except RecordError as error:
        raise RowError(number, error.field, error.message, error.code) from None


def _sequence_batch(rows: Sequence[_Sized]) -> Any:
    records = [row.record for row in rows]
    columns = {
        **{name: pa.array([getattr(record, name) for record in records], pa.string()) for name in _TEXTS},
        **{name: _integers([getattr(record, name) for record in records], name) for name in _INTEGERS},
        **{name: _reals([getattr(record, name) for record in records]) for name in ("temperature", "top_p")},
        "record_stability_info": pa.array([record.record_stability_info for record in records], pa.bool_()),
        "prompt_tokens": _tokens([record.prompt for record in records]),
        "tokens": _tokens([record.tokens for record in records]),
        "logprobs": _logprobs(rows),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SEQUENCES.names], schema=SEQUENCES)


def _integers(values: Sequence[int], name: str) -> Any:
    array = pa.array([None if value == ABSENT else value for value in values], pa.int64())
    return array.cast(SEQUENCES.field(name).type)


def _reals(values: Sequence[float]) -> Any:
    return pa.array([None if math.isnan(value) else value for value in values], pa.float64())


def _tokens(parts: Sequence[bytes]) -> Any:
    return list_array(pa.array(view(b"".join(parts), np.int32)), [len(part) // 4 for part in parts])


def _logprobs(rows: Sequence[_Sized]) -> Any:
    parts = [row.record.logprobs for row in rows]
    lengths = [len(part) // 4 for part in parts]
    null = joined_masks([row.null_logprobs for row in rows], lengths)
    values = pa.array(view(b"".join(parts), np.float32), pa.float32(), mask=null)
    return list_array(values, lengths, np.array([row.has_logprobs for row in rows], np.bool_))
