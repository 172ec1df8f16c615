"""Writing datums to Arrow and Parquet: they come back as what they were, or are refused by row and field."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _columns import assert_same_columns

from provenance.columns import Columns
from provenance.errors import SchemaError, WriteError
from provenance.formats import arrow, objects
from provenance.formats.arrow_write import BATCH_ROWS

CONTAINERS = (".parquet", ".arrow", ".feather", ".ipc", ".arrows")
DMEL_OF_3 = base64.b64encode(b"\x00\x02\x03\x05").decode()


def datum(**changes: Any) -> dict[str, Any]:
    """A datum of three tokens; a dotted path in ``changes`` is written with two underscores."""
    result: dict[str, Any] = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [2, 3, 4], "dtype": "int64", "shape": [3]},
            "logprobs": {"data": [0.0, -0.5, -0.25], "dtype": "float32"},
        },
        "model_input_spans": [
            {"type": "prompt", "sequence_id": "a", "offset": 0, "length": 2},
            {"type": "sampled", "sequence_id": "a", "length": 1},
        ],
        "loss_fn_input_spans": [{"type": "sampled", "sequence_id": "a", "offset": 0, "length": 3}],
    }
    for path, value in changes.items():
        *parents, name = path.split("__")
        place = result
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]  # type: ignore[assignment]
        place[name] = value
    return result


def read(path: Path) -> Columns:
    (batch,) = arrow.read_datums(str(path))
    return batch


def tensor(data: list[Any], dtype: str = "float32", **fields: Any) -> dict[str, Any]:
    return {"data": data, "dtype": dtype, **fields}


def chunks(*given: dict[str, Any]) -> dict[str, Any]:
    return datum(model_input={"chunks": list(given)})


IMAGE = {"type": "image", "data": "aGk=", "format": "png"}
TEXT = {"type": "encoded_text", "tokens": [5]}

HELD: dict[str, list[dict[str, Any]]] = {
    "one": [datum()],
    "several": [datum(), datum(model_input_spans=None, loss_fn_input_spans=None), datum()],
    "missing-inputs": [datum(), datum(loss_fn_inputs={}), datum(loss_fn_inputs={"logprobs": None})],
    "empty": [datum(model_input__chunks=[TEXT, TEXT]), datum(model_input__chunks=[])],
    "empty-text": [datum(model_input__chunks=[{"type": "encoded_text", "tokens": []}])],
    "null-token": [datum(model_input__chunks=[{"type": "encoded_text", "tokens": [1, None, 3]}])],
    "null-token-in-chunks": [chunks(TEXT, {"type": "encoded_text", "tokens": [None]}), datum()],
    "large-token": [
        datum(model_input__chunks=[{"type": "encoded_text", "tokens": [2**31, -(2**63), 2**63 - 1]}])
    ],
    "all-chunks": [
        chunks(
            TEXT,
            {**IMAGE, "expected_tokens": 2},
            IMAGE,
            {"type": "image_asset_pointer", "location": "x", "format": "jpeg", "expected_tokens": None},
            {"type": "dmel", "dmel": DMEL_OF_3},
        ),
        datum(),
    ],
    "integer-advantages": [datum(loss_fn_inputs__advantages=tensor([2**24 + 1, 0, None], "int64"))],
    "float-targets": [datum(loss_fn_inputs__target_tokens=tensor([2**24 + 1, 2.5, None], "float32"))],
    "large-targets": [datum(loss_fn_inputs__target_tokens=tensor([2**53 + 1, 2.0, None], "int64"))],
    "special-floats": [
        datum(loss_fn_inputs__logprobs=tensor([float("nan"), float("inf"), 1e39, -0.0, None, 0.1, 10**400]))
    ],
    "matrix": [
        datum(loss_fn_inputs__target_tokens=tensor([1, 2, 3, 4, None, 6], "int64", shape=[3, 2])),
        datum(loss_fn_inputs__target_tokens=tensor([], "int64", shape=[0, 2])),
        datum(loss_fn_inputs__target_tokens=None),
    ],
    "null-in-spans": [
        datum(
            model_input_spans=[
                None,
                {"type": None, "sequence_id": None, "offset": None, "length": None},
                {"type": "smapled", "sequence_id": "", "offset": -1, "length": -2},
            ]
        )
    ],
    "empty-spans": [datum(model_input_spans=[], loss_fn_input_spans=[])],
    "labels": [datum(datum_id="x", group_id=7, metadata={"a": [1]}), datum(), datum(group_id="g")],
}


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("name", HELD)
def test_datums_come_back(name: str, suffix: str, tmp_path: Path) -> None:
    given = copy.deepcopy(HELD[name])
    arrow.write_datums(given, str(tmp_path / f"data{suffix}"))
    assert given == HELD[name]
    batch, expected = read(tmp_path / f"data{suffix}"), objects.columns_of(given)
    assert_same_columns(batch, expected)
    assert batch.input_spans.notes == expected.input_spans.notes


def test_shape_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    arrow.write_datums([datum(datum_id="x", metadata={"a": 1})], str(path))
    schema = pq.read_schema(path)
    span = "list<element: struct<type: string, sequence_id: string, offset: int64, length: int64>>"
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "datum_id": "string",
        "metadata": "string",
        "model_input_tokens": "list<element: int32>",
        "target_tokens": "list<element: int64>",
        "logprobs": "list<element: float>",
        "model_input_spans": span,
        "loss_fn_input_spans": span,
    }
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
    assert pq.read_table(path, columns=["metadata"]).to_pylist() == [{"metadata": '{"a":1}'}]


def test_sparse_tensors_become_dense(tmp_path: Path) -> None:
    sparse = tensor(
        [7, None], "int64", shape=[3, 2], sparse_crow_indices=[0, 1, 1, 2], sparse_col_indices=[1, 0]
    )
    arrow.write_datums([datum(loss_fn_inputs__target_tokens=sparse)], str(tmp_path / "data.parquet"))
    dense = tensor([0, 7, 0, 0, None, 0], "int64", shape=[3, 2])
    expected = objects.columns_of([datum(loss_fn_inputs__target_tokens=dense)])
    assert_same_columns(read(tmp_path / "data.parquet"), expected)


def test_no_datums(tmp_path: Path) -> None:
    for suffix in CONTAINERS:
        path = str(tmp_path / f"data{suffix}")
        arrow.write_datums([], path)
        assert sum(len(batch) for batch in arrow.read_datums(path)) == 0


def test_many_datums_are_written_in_batches(tmp_path: Path) -> None:
    def stream() -> Iterator[dict[str, Any]]:
        for i in range(BATCH_ROWS * 2 + 5):
            yield datum(model_input__chunks=[{"type": "encoded_text", "tokens": [i] * (i % 3)}])

    for suffix in CONTAINERS:
        arrow.write_datums(stream(), str(tmp_path / f"data{suffix}"))
        batches = list(arrow.read_datums(str(tmp_path / f"data{suffix}")))
        rows = np.concatenate([batch.row for batch in batches])
        tokens = np.concatenate([batch.tokens for batch in batches])
        assert rows.tolist() == list(range(BATCH_ROWS * 2 + 5))
        assert tokens.tolist() == [i for i in range(BATCH_ROWS * 2 + 5) for _ in range(i % 3)]
    assert pa.ipc.open_file(tmp_path / "data.arrow").num_record_batches == 3


# Refusals

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "other-dtype": (
        datum(loss_fn_inputs__logprobs=tensor([0.0], "bfloat16")),
        "loss_fn_inputs.logprobs: declared 'bfloat16'",
    ),
    "fraction": (
        datum(loss_fn_inputs__target_tokens=tensor([2.5], "int64")),
        "loss_fn_inputs.target_tokens: data[0] is 2.5",
    ),
    "beyond-int64": (
        datum(loss_fn_inputs__target_tokens=tensor([2**63], "int64")),
        "loss_fn_inputs.target_tokens: data[0]",
    ),
    "beyond-float64": (
        datum(loss_fn_inputs__target_tokens=tensor([10**400], "float32")),
        "loss_fn_inputs.target_tokens: an integer beyond float64",
    ),
    "text": (
        datum(loss_fn_inputs__logprobs=tensor(["-0.5"])),
        "loss_fn_inputs.logprobs.data[0]: '-0.5' is not a number",
    ),
    "shape": (
        datum(loss_fn_inputs__logprobs=tensor([0.0], shape=[2])),
        "loss_fn_inputs.logprobs: shape and number",
    ),
    "scalar": (
        datum(loss_fn_inputs__logprobs=tensor([0.0], shape=[])),
        "loss_fn_inputs.logprobs: 0 dimensions",
    ),
    "cube": (
        datum(loss_fn_inputs__logprobs=tensor([0.0], shape=[1, 1, 1])),
        "loss_fn_inputs.logprobs: 3 dimensions",
    ),
    "flat-rows": (
        datum(loss_fn_inputs__logprobs=tensor([], shape=[3, 0])),
        "loss_fn_inputs.logprobs: 2 dimensions, rows of 0",
    ),
    "sparse": (
        datum(
            loss_fn_inputs__logprobs=tensor(
                [1.0], shape=[2, 2**20], sparse_crow_indices=[0, 0, 1], sparse_col_indices=[0]
            )
        ),
        "loss_fn_inputs.logprobs: sparse, and dense it would have 2097152 values, more than 1048576",
    ),
    "span-fraction": (
        datum(model_input_spans=[{"type": "prompt", "sequence_id": "a", "length": 1.5}]),
        "model_input_spans[0]: length is 1.5",
    ),
    "span-missing": (
        datum(loss_fn_input_spans=[{"type": "prompt", "sequence_id": "a"}]),
        "loss_fn_input_spans[0]: length is missing",
    ),
    "span-field": (
        datum(model_input_spans=[{"type": "prompt", "sequence_id": "a", "length": 1, "start": 1}]),
        "model_input_spans[0]: unknown field 'start'",
    ),
    "chunk": (chunks({"type": "video"}), "model_input.chunks[0].type: 'video'"),
    "unknown": (datum(loss_fn_input={}), "unknown field 'loss_fn_input'"),
    "metadata": (datum(metadata={"a": {1, 2}.__iter__()}), "metadata: cannot be written as JSON"),
}
LATER: dict[str, dict[str, Any]] = {
    "two-chunks": chunks(TEXT, TEXT),
    "image": chunks(IMAGE),
    "token": chunks({"type": "encoded_text", "tokens": [2**31]}),
    "new-input": datum(loss_fn_inputs__weights=tensor([1.0])),
    "new-label": datum(datum_id="x"),
}
UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "integer": (
        datum(loss_fn_inputs__logprobs=tensor([0], "int64")),
        "loss_fn_inputs.logprobs: int64 in a column of float32",
    ),
    "float": (
        datum(loss_fn_inputs__target_tokens=tensor([1.0], "float32")),
        "loss_fn_inputs.target_tokens: float32 in a column of int64",
    ),
    "matrix": (
        datum(loss_fn_inputs__logprobs=tensor([0.0, 0.0], shape=[1, 2])),
        "loss_fn_inputs.logprobs: (N, 2) in a column of (N,)",
    ),
}


@pytest.mark.parametrize("suffix", [".parquet", ".arrows"])
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_row_and_field(name: str, suffix: str, tmp_path: Path) -> None:
    bad, message = REFUSED[name]
    with pytest.raises(SchemaError) as caught:
        arrow.write_datums([datum(), datum(), bad], str(tmp_path / f"data{suffix}"))
    assert str(caught.value).startswith(f"row 2: {message}")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("name", LATER)
def test_columns_grow_with_what_later_datums_need(name: str, suffix: str, tmp_path: Path) -> None:
    rows = [*[datum()] * BATCH_ROWS, datum(), LATER[name], *[datum(group_id=1)] * BATCH_ROWS]
    arrow.write_datums(rows, str(tmp_path / f"data{suffix}"))
    read = list(arrow.read_datums(str(tmp_path / f"data{suffix}")))
    assert sum(map(len, read)) == len(rows)
    start = 0
    for batch in read:
        assert_same_columns(batch, objects.columns_of(rows[start : start + len(batch)]))
        start += len(batch)
    assert [path.name for path in tmp_path.iterdir()] == [f"data{suffix}"]


@pytest.mark.parametrize("before", [1, BATCH_ROWS + 1])
@pytest.mark.parametrize("name", UNLIKE)
def test_datums_that_no_column_holds_together(name: str, before: int, tmp_path: Path) -> None:
    bad, message = UNLIKE[name]
    with pytest.raises(SchemaError) as caught:
        arrow.write_datums([*[datum()] * before, bad], str(tmp_path / "data.parquet"))
    assert str(caught.value).startswith(f"row {before}: {message}")


@pytest.mark.parametrize("before", [1, BATCH_ROWS + 1])
def test_widths_that_vary(before: int, tmp_path: Path) -> None:
    def weights(n: int, k: int) -> dict[str, Any]:
        return datum(loss_fn_inputs__weights=tensor([0.5] * (n * k), shape=[n, k]))

    rows = [*[weights(1, 2)] * before, weights(3, 3), datum()]
    arrow.write_datums(rows, str(tmp_path / "data.parquet"))
    assert_same_columns(read(tmp_path / "data.parquet"), objects.columns_of(rows))
    for last in (weights(0, 3), weights(0, 2)):
        with pytest.raises(SchemaError, match=rf"row {before + 2}: .*\(N, \d\) in a column of another width"):
            arrow.write_datums([*rows, last], str(tmp_path / "data.parquet"))
    with pytest.raises(SchemaError, match=r"row 1: .*\(N, 3\) in a column of another width"):
        arrow.write_datums([weights(0, 2), weights(3, 3)], str(tmp_path / "data.parquet"))


def test_names_of_files(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"'data\.csv': an Arrow file's name ends in \.parquet"):
        arrow.write_datums([datum()], str(tmp_path / "x.parquet"), name="data.csv")
    arrow.write_datums([datum()], str(tmp_path / "x.tmp"), name="data.PARQUET")
    assert (tmp_path / "x.tmp").read_bytes()[:4] == b"PAR1"
    with pytest.raises(WriteError, match=r"data\.parquet: no such file or directory"):
        arrow.write_datums([datum()], str(tmp_path / "no" / "x.tmp"), name="data.parquet")


def test_errors_of_the_caller_are_passed_on(tmp_path: Path) -> None:
    def stream() -> Iterator[dict[str, Any]]:
        yield datum()
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        arrow.write_datums(stream(), str(tmp_path / "data.parquet"))
