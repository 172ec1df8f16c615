"""Sampled sequences in Arrow and Parquet."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _arrow import CONTAINERS, write

from provenance.errors import SchemaError
from provenance.formats import arrow, objects
from provenance.formats.arrow_write import BATCH_ROWS
from provenance.sequences import ABSENT, SequenceTable

NOON = "2026-01-02T12:00:00.000001Z"
NOON_MICROSECONDS = 1_767_355_200_000_001


def sequence(**changes: Any) -> dict[str, Any]:
    return {
        "sequence_id": "s:1",
        "session_id": "one",
        "prompt_tokens": [1, -1, 3],
        "tokens": [4, 5],
        "logprobs": [-0.5, -0.25],
        "sampled_at": NOON,
        "record_stability_info": True,
        **changes,
    }


FULL = sequence(
    sequence_id="s:2",
    prompt_tokens=[],
    tokens=[2**31 - 1],
    logprobs=[None],
    last_used_at="2026-01-02T13:00:00+01:00",
    record_stability_info=False,
    model="m",
    policy_version=7,
    stop_reason="stop",
    temperature=0.5,
    top_p=1,
    top_k=-1,
    seed=2**53 + 1,
)
SEQUENCES = [sequence(), FULL, sequence(sequence_id="ä", tokens=[], logprobs=[])]
TIME = pa.timestamp("us", "UTC")


def table(**changes: Any) -> pa.Table:
    """Two sequences."""
    columns = {
        "sequence_id": pa.array(["a", "b"]),
        "session_id": pa.array(["one", "one"]),
        "prompt_tokens": pa.array([[1, 2], [-1]], pa.list_(pa.int32())),
        "tokens": pa.array([[3], [4, 5]], pa.list_(pa.int32())),
        "logprobs": pa.array([[-0.5], [-0.25, -1.0]], pa.list_(pa.float32())),
        "sampled_at": pa.array([NOON_MICROSECONDS] * 2, pa.int64()).cast(TIME),
        "record_stability_info": pa.array([True, False]),
    }
    columns.update(changes)
    return pa.table({name: column for name, column in columns.items() if column is not None})


def assert_same_table(a: SequenceTable, b: SequenceTable) -> None:
    for field in fields(SequenceTable):
        if field.name.endswith("_start") or field.name in ("pool", "logprobs", "file", "row", "line"):
            continue
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=field.name)
    for i in range(len(a)):
        assert a.prompt(i).tolist() == b.prompt(i).tolist()
        assert a.tokens(i).tolist() == b.tokens(i).tolist()
        np.testing.assert_array_equal(a.sampled_logprobs(i), b.sampled_logprobs(i))
        assert a.prompt(i).dtype == a.tokens(i).dtype == np.int32


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_sequences_come_back(suffix: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"data{suffix}")
    arrow.write_sequences(SEQUENCES, path)
    read: list[int] = []
    ((found, faults),) = arrow.read_sequences(path, on_bytes=read.append)
    expected, _ = objects.table_of(SEQUENCES)
    assert not faults
    assert_same_table(found, expected)
    assert found.row.tolist() == [0, 1, 2]
    assert found.line.tolist() == [0, 0, 0]
    assert found.file.tolist() == [path] * 3
    assert sum(read) == Path(path).stat().st_size


def test_shape_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    arrow.write_sequences([sequence()], str(path))
    schema = pq.read_schema(path)
    assert schema.field("sampled_at").type == TIME
    assert schema.field("tokens").type.value_type == pa.int32()
    assert schema.field("policy_version").type == pa.string()


def test_many_sequences(tmp_path: Path) -> None:
    path = str(tmp_path / "data.parquet")
    arrow.write_sequences((sequence(sequence_id=str(i)) for i in range(BATCH_ROWS * 5)), path)
    tables = [found for found, _ in arrow.read_sequences(path)]
    assert np.concatenate([found.sequence_id for found in tables]).tolist() == list(
        map(str, range(BATCH_ROWS * 5))
    )
    assert np.concatenate([found.row for found in tables]).tolist() == list(range(BATCH_ROWS * 5))


def test_refusals_name_the_row(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"row 1: tokens\[0\]: -1 is not a token id"):
        arrow.write_sequences([sequence(), sequence(tokens=[-1])], str(tmp_path / "data.parquet"))


# The same sequences in other types

SAME: dict[str, dict[str, Any]] = {
    "plain": {},
    "large": {
        "sequence_id": pa.array(["a", "b"], pa.large_string()),
        "prompt_tokens": pa.array([[1, 2], [-1]], pa.large_list(pa.int64())),
        "tokens": pa.array([[3], [4, 5]], pa.list_view(pa.uint64())),
        "logprobs": pa.array([[-0.5], [-0.25, -1.0]], pa.large_list(pa.float64())),
    },
    "views": {
        "sequence_id": pa.array(["a", "b"], pa.string_view()),
        "session_id": pa.array(["one", "one"]).dictionary_encode(),
        "logprobs": pa.array([[-0.5], [-0.25, -1.0]], pa.large_list_view(pa.float16())),
    },
    "half-floats": {
        "temperature": pa.array([None, None], pa.float16()),
        "top_k": pa.array([None, None], pa.int8()),
    },
    "null-columns": {
        name: pa.nulls(2) for name in ("last_used_at", "seed", "top_p", "model", "policy_version")
    },
    "hidden": {
        "prompt_tokens": pa.ListArray.from_arrays(
            pa.array([1, 3, 4]), pa.array([9, 1, 2, -1, 9], pa.int32())
        ),
    },
}


@pytest.mark.parametrize("name", SAME)
def test_other_types(name: str) -> None:
    expected = arrow.table_of_batch(table())[0]
    data = table(**SAME[name])
    found, faults = arrow.table_of_batch(data)
    assert not faults
    assert_same_table(found, expected)
    doubled, _ = arrow.table_of_batch(pa.concat_tables([data, data]), file="x", first_row=10)
    assert doubled.row.tolist() == [10, 11, 12, 13]
    assert doubled.file.tolist() == ["x"] * 4
    assert_same_table(doubled.take(np.array([2, 3])), expected)
    assert_same_table(arrow.table_of_batch(data.slice(1))[0], expected.take(np.array([1])))


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", -5, -5_000_000),
        ("ms", 1_767_355_200_001, 1_767_355_200_001_000),
        ("us", NOON_MICROSECONDS, NOON_MICROSECONDS),
        ("ns", NOON_MICROSECONDS * 1000 + 999, NOON_MICROSECONDS),
        ("ns", -1, -1),
    ],
)
def test_units_of_time(unit: str, value: int, expected: int) -> None:
    times = pa.array([value, None], pa.int64()).cast(pa.timestamp(unit, "Europe/Berlin"))
    found, faults = arrow.table_of_batch(table(last_used_at=times))
    assert not faults
    assert found.last_used_at.tolist() == [expected, ABSENT]


def test_values_that_are_null() -> None:
    found, faults = arrow.table_of_batch(
        table(
            logprobs=pa.array([[None], None], pa.list_(pa.float64())),
            top_k=pa.array([40, None]),
            seed=pa.array([2**53 + 1, None]),
            temperature=pa.array([0.5, None]),
            policy_version=pa.array([7, None]),
        )
    )
    assert not faults
    assert np.isnan(found.sampled_logprobs(0)).tolist() == [True]
    assert found.logprob_length.tolist() == [1, 0]
    assert found.top_k.tolist() == [40, ABSENT]
    assert found.seed.tolist() == [2**53 + 1, ABSENT]
    assert np.isnan(found.temperature).tolist() == [False, True]
    assert found.policy_version.tolist() == ["7", None]


def test_logprobs_that_are_none() -> None:
    values = [[float("-inf")], [float("nan"), 1e39]]
    found, _ = arrow.table_of_batch(table(logprobs=pa.array(values, pa.list_(pa.float64()))))
    assert not np.isfinite(found.sampled_logprobs(0)).any()
    assert not np.isfinite(found.sampled_logprobs(1)).any()


INT_LIST, BIG_LIST = pa.list_(pa.int32()), pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"sequence_id": pa.array(["a", None])}, "sequence_id", "null"),
        ({"sequence_id": pa.array(["a", ""])}, "sequence_id", "'' is empty, expected an id"),
        ({"session_id": pa.array(["a", None])}, "session_id", "null"),
        ({"sampled_at": pa.array([0, None], pa.int64()).cast(TIME)}, "sampled_at", "null"),
        ({"record_stability_info": pa.array([True, None])}, "record_stability_info", "null"),
        ({"prompt_tokens": pa.array([[1], None], INT_LIST)}, "prompt_tokens", "null"),
        ({"tokens": pa.array([[1], None], INT_LIST)}, "tokens", "null"),
        (
            {"tokens": pa.array([[1], [2, None]], INT_LIST)},
            "tokens[1]",
            "null is not a token id in [0, 2^31)",
        ),
        ({"tokens": pa.array([[1], [-1]], INT_LIST)}, "tokens[0]", "-1 is not a token id in [0, 2^31)"),
        (
            {"tokens": pa.array([[1], [2**31]], BIG_LIST)},
            "tokens[0]",
            "2147483648 is not a token id in [0, 2^31)",
        ),
        (
            {"prompt_tokens": pa.array([[1], [0, -2]], BIG_LIST)},
            "prompt_tokens[1]",
            "-2 is not a token id in [0, 2^31), or -1 for no text",
        ),
        (
            {"sampled_at": pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("s", "UTC"))},
            "sampled_at",
            "4611686018427387904 s is out of range",
        ),
        (
            {"top_k": pa.array([1, 2**40])},
            "top_k",
            "1099511627776 is not an integer in [-2147483648, 2147483647]",
        ),
        (
            {"last_used_at": pa.array([0, 10**18], pa.int64()).cast(pa.timestamp("us", "UTC"))},
            "last_used_at",
            "1000000000000000000 us is out of range",
        ),
        ({"temperature": pa.array([1.0, float("inf")])}, "temperature", "inf is not a finite number"),
        ({"temperature": pa.array([None, float("nan")])}, "temperature", "nan is not a finite number"),
        ({"top_p": pa.array([1.0, 3.2e38])}, "top_p", "3.2e+38 is not a finite number"),
    ],
)
def test_rows_that_cannot_be_read_are_left_out(changes: dict[str, Any], field: str, message: str) -> None:
    data = table(**changes)
    found, faults = arrow.table_of_batch(pa.concat_tables([data, data.slice(0, 1)]), first_row=5)
    assert [(f.code, f.row, f.field, f.message) for f in faults] == [("FMT004", 6, field, message)]
    assert found.row.tolist() == [5, 7]


def test_a_row_has_one_fault() -> None:
    data = table(sequence_id=pa.nulls(2, pa.string()), tokens=pa.nulls(2, INT_LIST))
    found, faults = arrow.table_of_batch(data)
    assert [(f.row, f.field) for f in faults] == [(0, "tokens"), (1, "tokens")]
    assert len(found) == 0


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        (
            {"sampled_at": pa.array([0, 1], pa.timestamp("us"))},
            "sampled_at",
            "expected timestamp with a time zone",
        ),
        (
            {"sampled_at": pa.array(["2026", "2027"])},
            "sampled_at",
            "string, expected timestamp with a time zone",
        ),
        ({"last_used_at": pa.array([dt.date(2026, 1, 1)] * 2)}, "last_used_at", "date32"),
        ({"tokens": pa.array([[1.0], []])}, "tokens", "expected list of integers"),
        ({"logprobs": pa.array([1.0, 2.0])}, "logprobs", "expected list of floats"),
        ({"record_stability_info": pa.array([1, 0])}, "record_stability_info", "int64, expected bool"),
        ({"sequence_id": pa.array([1, 2])}, "sequence_id", "int64, expected string"),
        ({"temperature": pa.array(["1", "1"])}, "temperature", "string, expected float"),
        ({"top_k": pa.array([1.5, 2.0])}, "top_k", "double, expected integer"),
        ({"session_id": None}, "session_id", "missing, expected string"),
        ({"reward": pa.array([1.0, 2.0])}, "reward", "unknown field"),
    ],
)
def test_wrong_columns(
    changes: dict[str, Any], field: str, message: str, suffix: str, tmp_path: Path
) -> None:
    path = write(table(**changes), tmp_path / f"data{suffix}")
    ((found, faults),) = arrow.read_sequences(path)
    assert len(found) == 0
    assert [(f.code, f.row, f.field) for f in faults] == [("FMT004", None, field)]
    assert message in faults[0].message
