"""Loss inputs in Arrow: nulls, narrowing, and (N, K)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from _arrow import input_of, table

from provenance.columns import FLOAT32, INT64
from provenance.formats import arrow


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_nulls_beside_large_integers(kind: Any) -> None:
    values = pa.array([[2**53 + 1, None, 7], [], [None, 2**62 + 1]], pa.list_(kind))
    tensor = input_of(values, "target_tokens")
    assert tensor.values.tolist() == [2**53 + 1, 0, 7, 0, 2**62 + 1]
    assert tensor.valid.tolist() == [True, False, True, False, True]
    assert tensor.declared.tolist() == [INT64] * 3


def test_hidden_values_of_nulls_are_zero() -> None:
    masked = pa.array(np.array([5.0, np.nan, 6.0]), mask=np.array([False, True, True]))
    tensor = input_of(pa.ListArray.from_arrays(pa.array([0, 3, 3, 3]), masked))
    assert tensor.values.tolist() == [5.0, 0.0, 0.0]
    assert tensor.valid.tolist() == [True, False, False]


def test_integers_above_int64() -> None:
    tensor = input_of(
        pa.array([[2**64 - 1, 2**63, 2**63 - 1], [], [1, 2]], pa.list_(pa.uint64())), "target_tokens"
    )
    assert tensor.values.tolist() == [2**63 - 1] * 3 + [1, 2]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.float64(), 1e39, np.inf),
        (pa.float64(), -1e39, -np.inf),
        (pa.float64(), 0.1, float(np.float32(0.1))),
        (pa.float16(), 65504.0, 65504.0),
        (pa.float64(), -0.0, -0.0),
        (pa.int64(), 2**24 + 1, float(2**24)),
        # Rounded twice, as in JSON: to a float64 between two float32, and then to the even one.
        (pa.int64(), 2**60 + 2**36 + 1, float(2**60)),
    ],
)
def test_narrowing_to_float32(kind: Any, value: float, expected: float) -> None:
    tensor = input_of(pa.array([[value], [], []], pa.list_(kind)))
    assert tensor.values.dtype == np.float32
    assert tensor.values.tolist() == [expected]
    assert np.signbit(tensor.values[0]) == np.signbit(expected)
    assert tensor.declared.tolist() == [INT64 if pa.types.is_integer(kind) else FLOAT32] * 3


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_targets_that_are_floats(kind: Any) -> None:
    values = [[2.75, float("nan"), float("inf")], [], [float("-inf"), 7.0]]
    tensor = input_of(pa.array(values, pa.list_(kind)), "target_tokens")
    assert tensor.values.tolist() == [2, 0, 2**63 - 1, -(2**63), 7]
    assert tensor.declared.tolist() == [FLOAT32] * 3


def test_null_and_empty_lists() -> None:
    tensor = input_of(pa.array([None, [], [1.0]], pa.list_(pa.float64())))
    assert tensor.present.tolist() == [False, True, True]
    assert tensor.rows.tolist() == [0, 0, 1]
    assert tensor.declared.tolist() == [FLOAT32] * 3


@pytest.mark.parametrize("kind", [pa.list_(pa.null()), pa.list_(pa.list_(pa.null()))])
def test_lists_of_nothing(kind: Any) -> None:
    tensor = input_of(pa.array([None, [], []], kind))
    assert tensor.present.tolist() == [False, True, True]
    assert tensor.declared.tolist() == [FLOAT32] * 3


def test_list_of_type_null_with_elements() -> None:
    tensor = input_of(pa.array([[None, None], [], None], pa.list_(pa.null())), "target_tokens")
    assert tensor.valid.tolist() == [False, False]
    assert tensor.declared.tolist() == [INT64] * 3


# Matrices

MATRICES = [[[1, 2], [3, None], [5, 6]], [], None]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view])
def test_matrices(kind: Callable[[Any], Any]) -> None:
    tensor = input_of(pa.array(MATRICES, kind(pa.list_(pa.int64(), 2))), "target_tokens")
    assert tensor.rank[tensor.present].tolist() == [2, 2]
    assert tensor.rows.tolist() == [3, 0, 0]
    assert tensor.width[tensor.present].tolist() == [2, 2]
    assert tensor.values.tolist() == [1, 2, 3, 0, 5, 6]
    assert tensor.valid.tolist() == [True, True, True, False, True, True]
    assert tensor.sound.all()


@pytest.mark.parametrize("start", range(3))
def test_slices_of_matrices_that_hide_values(start: int) -> None:
    inner = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12)), 2)
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 5, 6]), inner, mask=pa.array([False, True, False]))
    tensor = arrow.columns_of_batch(table(weights=hidden).slice(start)).inputs["weights"]
    assert tensor.values.tolist() == [*([0.0, 1.0, 2.0, 3.0] if start == 0 else []), 10.0, 11.0]
    assert tensor.rows.tolist() == [2, 0, 1][start:]


def test_null_row_of_a_matrix_keeps_its_place() -> None:
    inner = pa.FixedSizeListArray.from_arrays(
        pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2, mask=pa.array([False, True, False])
    )
    tensor = input_of(pa.ListArray.from_arrays(pa.array([0, 3, 3, 3]), inner))
    assert tensor.rows.tolist() == [3, 0, 0]
    assert tensor.values.tolist() == [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]
    assert tensor.valid.tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("rows", "sound", "width"),
    [
        ([[[1.0], [2.0]], [], [[3.0, 4.0]]], [True, True, True], [1, 1, 2]),
        ([[[1.0, 2.0], [3.0]], [], [[4.0]]], [False, True, True], [2, 2, 1]),
        ([[[], None], [], [[4.0]]], [False, True, True], [0, 0, 1]),
    ],
)
def test_lists_of_lists_are_matrices(rows: list[Any], sound: list[bool], width: list[int]) -> None:
    tensor = input_of(pa.array(rows, pa.list_(pa.large_list(pa.float32()))))
    assert tensor.sound.tolist() == sound
    assert tensor.width.tolist() == width
    assert tensor.rank.tolist() == [2, 2, 2]
    values = [value for row in rows for inner in row for value in inner or ()]
    assert tensor.values.tolist() == values
    assert tensor.offsets[-1] == len(values)
