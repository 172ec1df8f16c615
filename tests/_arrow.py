"""A small table of datums in Arrow, what it means, and how it gets into files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from provenance.columns import Columns
from provenance.formats import arrow

CONTAINERS = (".parquet", ".arrow", ".arrows")
SPAN = pa.struct(
    [("type", pa.string()), ("sequence_id", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]
)
CHUNK = pa.struct(
    [
        ("type", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("length", pa.int32()),
        ("data", pa.binary()),
        ("format", pa.string()),
        ("location", pa.string()),
    ]
)


def span(kind: Any, sequence_id: Any, length: Any, offset: Any = 0) -> dict[str, Any]:
    return {"type": kind, "sequence_id": sequence_id, "offset": offset, "length": length}


def table(**changes: Any) -> pa.Table:
    """Three datums of 3, 0 and 2 tokens; the last without spans and weights."""
    columns = {
        "model_input_tokens": pa.array([[1, 2, 3], [], [4, 5]], pa.list_(pa.int32())),
        "target_tokens": pa.array([[2, 3, 9], [], [5, 6]], pa.list_(pa.int64())),
        "logprobs": pa.array([[-0.5, 0.0, -0.25], [], [-1.0, -2.0]], pa.list_(pa.float32())),
        "weights": pa.array([[1.0, 0.0, 0.0], [], None], pa.list_(pa.float32())),
        "model_input_spans": pa.array(
            [[span("prompt", "a", 2), span("sampled", "b", 1)], [], None], pa.list_(SPAN)
        ),
        "loss_fn_input_spans": pa.array(
            [[span("prompt", "a", 1, 1), span("sampled", "b", 2)], [], None], pa.list_(SPAN)
        ),
    }
    columns.update(changes)
    return pa.table({name: column for name, column in columns.items() if column is not None})


def datums() -> list[dict[str, Any]]:
    """What `table` means."""
    rows = []
    plain = table()
    for row in plain.to_pylist():
        tokens = row.pop("model_input_tokens")
        spans = {name: row.pop(name) for name in ("model_input_spans", "loss_fn_input_spans")}
        inputs = {
            name: data
            if data is None
            else {"data": data, "dtype": "int64" if "tokens" in name else "float32"}
            for name, data in row.items()
        }
        rows.append(
            {
                "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens}]},
                "loss_fn_inputs": inputs,
                **spans,
            }
        )
    return rows


def write(data: pa.Table, path: Path, rows: int | None = None) -> str:
    if path.suffix == ".parquet":
        pq.write_table(data, path, row_group_size=rows)
        return str(path)
    open_writer = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
    with open_writer(str(path), data.schema) as writer:
        writer.write_table(data, max_chunksize=rows)
    return str(path)


def only(batches: Iterator[Columns]) -> Columns:
    (batch,) = batches
    return batch


def input_of(values: Any, name: str = "advantages", **columns: Any) -> Any:
    return arrow.columns_of_batch(table(**{name: values}, **columns)).inputs[name]
