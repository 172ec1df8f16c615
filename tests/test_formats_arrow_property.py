"""Whatever datums agree on the types of their loss inputs: written, and read, they say the same."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _columns import assert_same_columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provenance.columns import Columns
from provenance.formats import arrow, objects

DMEL_OF_3 = base64.b64encode(b"\x00\x02\x03\x05").decode()


def read(path: Path) -> Columns:
    (batch,) = arrow.read_datums(str(path))
    return batch


def tensor(data: list[Any], dtype: str = "float32", **fields: Any) -> dict[str, Any]:
    return {"data": data, "dtype": dtype, **fields}


numbers = st.floats(width=32) | st.none() | st.integers(-(2**53), 2**53)
ids = st.text(st.characters(codec="utf-8"), max_size=3)
spans = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["prompt", "sampled"])
            | st.none()
            | st.text(st.characters(codec="utf-8"), max_size=2),
            "sequence_id": st.none() | ids,
            "length": st.none() | st.integers(-(2**63), 2**63 - 1),
        },
        optional={"offset": st.none() | st.integers(-(2**63), 2**63 - 1)},
    ),
    max_size=3,
)
text_chunks = st.builds(
    lambda tokens: {"type": "encoded_text", "tokens": tokens},
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
)
image_chunks = st.fixed_dictionaries(
    {"type": st.just("image"), "data": st.just("aGk="), "format": st.sampled_from(["png", "jpeg"])},
    optional={"expected_tokens": st.none() | st.integers(0, 5)},
)
pointer_chunks = st.fixed_dictionaries(
    {"type": st.just("image_asset_pointer"), "location": ids, "format": st.just("png")},
    optional={"expected_tokens": st.none() | st.integers(0, 5)},
)
dmel_chunks = st.just({"type": "dmel", "dmel": DMEL_OF_3})


def vectors(values: st.SearchStrategy[Any], dtype: str) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=4).map(lambda data: tensor(data, dtype))


def matrices(values: st.SearchStrategy[Any], dtype: str, width: int) -> st.SearchStrategy[Any]:
    return st.integers(0, 3).flatmap(
        lambda rows: st.lists(values, min_size=rows * width, max_size=rows * width).map(
            lambda data: tensor(data, dtype, shape=[rows, width])
        )
    )


@st.composite
def datasets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Datums that agree on dtype and width of each loss input."""
    integers = st.none() | st.integers(-(2**63), 2**63 - 1)
    inputs = {}
    for name in ("target_tokens", "logprobs", "weights"):
        dtype = draw(st.sampled_from(["int64", "float32"]))
        width = draw(st.none() | st.integers(1, 3))
        values = integers if dtype == "int64" else numbers
        inputs[name] = st.none() | (
            vectors(values, dtype) if width is None else matrices(values, dtype, width)
        )
    text_only = draw(st.booleans())
    chunk = text_chunks | image_chunks | pointer_chunks | dmel_chunks
    one = st.fixed_dictionaries(
        {
            "model_input": st.fixed_dictionaries(
                {
                    "chunks": st.lists(text_chunks, min_size=1, max_size=1)
                    if text_only
                    else st.lists(chunk, max_size=3)
                }
            ),
            "loss_fn_inputs": st.fixed_dictionaries({}, optional=inputs),
        },
        optional={"model_input_spans": spans, "loss_fn_input_spans": spans},
    )
    return draw(st.lists(one, min_size=1, max_size=4))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dataset=datasets(), data=st.data())
def test_what_is_written_is_read(
    suffix: str, dataset: list[dict[str, Any]], data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / f"data{suffix}"
    arrow.write_datums(dataset, str(path))
    batch, expected = read(path), objects.columns_of(dataset)
    assert_same_columns(batch, expected)
    assert batch.input_spans.notes == expected.input_spans.notes
    start = data.draw(st.integers(0, len(dataset) - 1))
    sliced = pq.read_table(path) if suffix == ".parquet" else _ipc_table(path)
    assert_same_columns(arrow.columns_of_batch(sliced.slice(start)), objects.columns_of(dataset[start:]))


def _ipc_table(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source) if path.suffix == ".arrow" else pa.ipc.open_stream(source)
        return reader.read_all()
