"""Arrow and Parquet: every type that means the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _arrow import CHUNK, CONTAINERS, SPAN, datums, input_of, only, span, table, write
from _columns import assert_same_columns

from provenance.formats import arrow, objects


def lists(kind: Callable[[Any], Any], child: Any, values: list[Any]) -> pa.Array:
    return pa.array(values, kind(child))


def hiding(values: list[Any], child: Any, hidden: Any) -> pa.Array:
    """A list array whose nulls have elements that they hide."""
    full = pa.array([hidden if value is None else value for value in values], pa.list_(child))
    null = pa.array([value is None for value in values])
    return pa.ListArray.from_arrays(full.offsets, full.values, mask=null)


TOKENS, TARGETS = [[1, 2, 3], [], [4, 5]], [[2, 3, 9], [], [5, 6]]
LOGPROBS, WEIGHTS = [[-0.5, 0.0, -0.25], [], [-1.0, -2.0]], [[1.0, 0.0, 0.0], [], None]
SPANS = [[span("prompt", "a", 2), span("sampled", "b", 1)], [], None]


def dictionary_spans(index: Any, value: Any) -> pa.Array:
    kinds = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], index), pa.array(["sampled", "prompt"], value))
    ids = pa.DictionaryArray.from_arrays(
        pa.array([3, 2, 0], index), pa.array(["x", None, "b", "a", "a"], value)
    )
    struct = pa.StructArray.from_arrays(
        [kinds, ids, pa.array([0, 0, 7]), pa.array([2, 1, 7])], ["type", "sequence_id", "offset", "length"]
    )
    return pa.ListArray.from_arrays(pa.array([0, 2, 2, 3]), struct, mask=pa.array([False, False, True]))


SAME: dict[str, Callable[[], dict[str, Any]]] = {
    **{
        f"tokens-{kind.__name__}-{child}": lambda kind=kind, child=child: {
            "model_input_tokens": lists(kind, child, TOKENS),
            "target_tokens": lists(kind, child, TARGETS),
        }
        for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
        for child in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int32(), pa.int64(), pa.uint64())
    },
    **{
        f"floats-{kind.__name__}-{child}": lambda kind=kind, child=child: {
            "logprobs": lists(kind, child, LOGPROBS),
            "weights": lists(kind, child, WEIGHTS),
        }
        for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
        for child in (pa.float16(), pa.float32(), pa.float64())
    },
    "child-name": lambda: {
        "logprobs": pa.array(LOGPROBS, pa.list_(pa.field("element", pa.float32(), nullable=False)))
    },
    "hidden": lambda: {"weights": hiding(WEIGHTS, pa.float32(), [7.0, 8.0])},
    "hidden-first": lambda: {
        "weights": hiding([None, None, *WEIGHTS], pa.float32(), [float("nan")]).slice(2)
    },
    **{
        f"spans-{kind}": lambda kind=kind: {
            "model_input_spans": pa.array(
                SPANS,
                pa.large_list(
                    pa.struct(
                        [
                            ("length", pa.int16()),
                            ("sequence_id", kind),
                            ("offset", pa.uint64()),
                            ("type", kind),
                        ]
                    )
                ),
            )
        }
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        f"dictionary-{index}-{value}": lambda index=index, value=value: {
            "model_input_spans": dictionary_spans(index, value)
        }
        for index in (pa.int8(), pa.uint32())
        for value in (pa.string(), pa.large_string(), pa.string_view())
    },
    "no-offset": lambda: {
        "model_input_spans": pa.array(
            SPANS,
            pa.list_(pa.struct([("type", pa.string()), ("sequence_id", pa.string()), ("length", pa.int8())])),
        )
    },
    "null-offset": lambda: {
        "model_input_spans": pa.array(
            [[span("prompt", "a", 2, None), span("sampled", "b", 1)], [], None], pa.list_(SPAN)
        )
    },
    "null-column": lambda: {"mask": pa.nulls(3), "rewards": pa.nulls(3, pa.list_(pa.float64()))},
    "ignored": lambda: {
        "datum_id": pa.array(["x", None, "z"]),
        "group_id": pa.array([1, 2, 3]),
        "metadata": pa.array([{"a": 1}, None, {"a": 2}]),
    },
    "chunks": lambda: {
        "model_input_tokens": None,
        "model_input": pa.array(
            [[{"type": "encoded_text", "tokens": row, "length": None}] for row in TOKENS], pa.list_(CHUNK)
        ),
    },
    "chunks-few-fields": lambda: {
        "model_input_tokens": None,
        "model_input": pa.array(
            [[{"type": "encoded_text", "tokens": row}] for row in TOKENS],
            pa.large_list(pa.struct([("tokens", pa.large_list(pa.uint16())), ("type", pa.large_string())])),
        ),
    },
}
# pyarrow writes neither views nor dictionaries that hold a null.
NOT_IN_PARQUET = ("_view", "-string_view", "dictionary-")


@pytest.mark.parametrize("name", SAME)
def test_same_datums_in_other_types(name: str) -> None:
    assert_same_columns(arrow.columns_of_batch(table(**SAME[name]())), objects.columns_of(datums()))


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("name", SAME)
def test_same_datums_in_files(name: str, suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet" and any(part in name for part in NOT_IN_PARQUET):
        pytest.skip("no such type in Parquet")
    path = write(table(**SAME[name]()), tmp_path / f"data{suffix}")
    assert_same_columns(only(arrow.read_datums(path)), objects.columns_of(datums()))


@pytest.mark.parametrize("name", SAME)
def test_slices(name: str) -> None:
    data, expected = table(**SAME[name]()), datums()
    for start, stop in combinations(range(4), 2):
        batch = arrow.columns_of_batch(data.slice(start, stop - start))
        assert_same_columns(batch, objects.columns_of(expected[start:stop]))


@pytest.mark.parametrize("name", SAME)
def test_chunked_tables(name: str) -> None:
    data = table(**SAME[name]())
    pieces = pa.concat_tables([data.slice(0, 1), data.slice(1, 0), data.slice(1, 2), data])
    assert_same_columns(arrow.columns_of_batch(pieces), objects.columns_of(datums() + datums()))


def test_chunks_with_different_dictionaries() -> None:
    kind = pa.list_(
        pa.struct(
            [
                ("type", pa.string()),
                ("sequence_id", pa.dictionary(pa.int32(), pa.string())),
                ("length", pa.int64()),
            ]
        )
    )
    pieces = [
        table(model_input_spans=pa.array([[span("prompt", word, 3)], [], None], kind))
        for word in ("one", "two")
    ]
    batch = arrow.columns_of_batch(pa.concat_tables(pieces))
    assert [batch.ids[i] for i in batch.input_spans.sequence] == ["one", "two"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.int64(), 2), [[1, 2], None, [3, 4]]),
        (pa.list_(pa.int64()), [[1, 2], None, [3, 4]]),
        (pa.list_view(pa.int64()), [[1, 2], None, [3, 4]]),
    ],
)
@pytest.mark.parametrize("start", range(3))
def test_fixed_size_and_other_lists_as_input(kind: Any, values: list[Any], start: int) -> None:
    tensor = arrow.columns_of_batch(table(target_tokens=pa.array(values, kind)).slice(start)).inputs[
        "target_tokens"
    ]
    kept = values[start:]
    assert tensor.present.tolist() == [row is not None for row in kept]
    assert tensor.rows.tolist() == [0 if row is None else 2 for row in kept]
    assert tensor.values.tolist() == [value for row in kept for value in row or ()]
    assert tensor.rank.tolist() == [1] * len(kept)
    assert tensor.valid is None


def test_list_views_out_of_order() -> None:
    view = pa.ListViewArray.from_arrays(
        pa.array([3, 0, 1], pa.int32()), pa.array([2, 0, 2], pa.int32()), pa.array([0.0, 1.0, 2.0, 3.0, 4.0])
    )
    tensor = input_of(view)
    assert tensor.values.tolist() == [3.0, 4.0, 1.0, 2.0]
    assert tensor.offsets.tolist() == [0, 2, 2, 4]
