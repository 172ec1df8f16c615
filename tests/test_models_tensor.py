"""TensorData: CSR and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from provenance.errors import SchemaError
from provenance.models import Datum, EncodedTextChunk, ModelInput, TensorData

CSR = {
    "data": [5, 6, 7],
    "dtype": "int64",
    "shape": [3, 4],
    "sparse_crow_indices": [0, 2, 2, 3],
    "sparse_col_indices": [1, 3, 0],
}


def test_csr_becomes_dense() -> None:
    tensor = TensorData(**CSR)
    assert tensor.to_numpy().tolist() == [[0, 5, 0, 6], [0, 0, 0, 0], [7, 0, 0, 0]]
    assert tensor.tolist() == tensor.to_numpy().tolist()
    assert not tensor.to_numpy().flags.writeable
    assert tensor.rows == 3
    assert tensor.model_dump(mode="json") == CSR


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"shape": None}, "shape: None is not the two dimensions that CSR needs"),
        ({"shape": [12]}, "shape: (12,) is not the two dimensions that CSR needs"),
        ({"sparse_col_indices": None}, "sparse_col_indices: missing, CSR needs both index lists"),
        ({"sparse_crow_indices": None}, "sparse_crow_indices: missing, CSR needs both index lists"),
        ({"data": [[5], [6], [7]]}, "data: nested as [3, 1], CSR values are flat"),
        ({"shape": [4, 4]}, "sparse_crow_indices: 4 row starts, expected 5, one more than rows"),
        ({"data": [5, 6]}, "sparse_col_indices: 3 columns, expected 2, one for each value"),
        (
            {"sparse_crow_indices": [1, 2, 2, 3]},
            "sparse_crow_indices: int64[4] [1, 2, 2, 3] does not rise from 0",
        ),
        (
            {"sparse_crow_indices": [0, 2, 1, 3]},
            "sparse_crow_indices: int64[4] [0, 2, 1, 3] does not rise from 0",
        ),
        (
            {"sparse_crow_indices": [0, 2, 2, 2]},
            "sparse_crow_indices: int64[4] [0, 2, 2, 2] does not rise from 0",
        ),
        ({"sparse_crow_indices": [0, 2, 2, 2.5]}, "sparse_crow_indices[3]: 2.5 is not an index >= 0"),
        ({"sparse_crow_indices": [0, True, 2, 3]}, "sparse_crow_indices[1]: True is not an index >= 0"),
        ({"sparse_col_indices": [1, 4, 0]}, "sparse_col_indices[1]: 4 is not a column of 4"),
        ({"sparse_col_indices": [1, -1, 0]}, "sparse_col_indices[1]: -1 is not an index >= 0"),
        (
            {"sparse_col_indices": [3, 1, 0]},
            "sparse_col_indices[1]: 1 after 3 in one row, columns must increase",
        ),
        (
            {"sparse_col_indices": [1, 1, 0]},
            "sparse_col_indices[1]: 1 after 1 in one row, columns must increase",
        ),
    ],
    ids=str,
)
def test_inconsistent_csr_is_refused(change: dict[str, Any], place: str) -> None:
    with pytest.raises(SchemaError) as caught:
        TensorData(**CSR | change)
    assert str(caught.value).startswith(place)
    assert str(caught.value).endswith("(INP004 wrong-rank)")


def test_csr_values_are_checked_like_dense_ones() -> None:
    with pytest.raises(SchemaError, match=r"^data\[2\]: nan is not finite \(VAL001 non-finite-value\)$"):
        TensorData(**CSR | {"data": [1.0, 2.0, float("nan")], "dtype": "float32"})


def test_csr_that_is_huge_when_dense_is_kept_but_not_made_dense() -> None:
    huge = TensorData(**CSR | {"shape": [3, 2**40]})
    with pytest.raises(
        SchemaError, match=r"^shape: \[3, 1099511627776\] is too large to make dense \(INP004"
    ):
        huge.to_numpy()


@settings(deadline=None)
@given(arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 2)))
def test_any_matrix_survives_csr(dense: np.ndarray) -> None:
    rows, columns = dense.nonzero()
    starts = np.searchsorted(rows, np.arange(dense.shape[0] + 1))
    tensor = TensorData(
        data=dense[rows, columns],
        dtype="int64",
        shape=dense.shape,
        sparse_crow_indices=starts,
        sparse_col_indices=columns,
    )
    assert np.array_equal(tensor.to_numpy(), dense)
    assert TensorData.model_validate_json(tensor.model_dump_json()) == tensor


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bfloat16", "float32"),
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float32"),
        ("int8", "int64"),
        ("int32", "int64"),
        ("int64", "int64"),
    ],
)
def test_torch_tensors_of_any_width(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = TensorData.from_torch(torch.tensor([[1, 2], [3, 4]], dtype=getattr(torch, name)))
    assert (tensor.dtype, tensor.shape, tensor.tolist()) == (dtype, (2, 2), [[1, 2], [3, 4]])


def test_torch_gradients_strides_and_layouts_do_not_matter() -> None:
    torch = pytest.importorskip("torch")
    leaf = torch.ones(2, 3, requires_grad=True)
    assert TensorData.from_torch((leaf * 2).T).tolist() == [[2, 2], [2, 2], [2, 2]]
    assert TensorData.from_torch(torch.eye(2).to_sparse()).tolist() == [[1, 0], [0, 1]]
    assert EncodedTextChunk(tokens=torch.tensor([4, 5])).tokens.tolist() == [4, 5]
    assert TensorData(data=list(torch.tensor([0.5, 1])), dtype="float32").tolist() == [0.5, 1]
    assert TensorData(data=list(torch.eye(2)), dtype="float32").tolist() == [[1, 0], [0, 1]]


def test_torch_loss_inputs_are_copies() -> None:
    torch = pytest.importorskip("torch")
    targets, advantages = torch.tensor([1, 2]), torch.tensor([0.5, 1.0], dtype=torch.bfloat16)
    datum = Datum(
        model_input=ModelInput.from_ints(targets),
        loss_fn_inputs={"target_tokens": targets, "advantages": advantages, "custom": targets.double()},
    )
    targets[0] = 9
    assert datum.model_input.to_ints() == [1, 2]
    assert {name: (t.dtype, t.tolist()) for name, t in datum.loss_fn_inputs.items()} == {
        "target_tokens": ("int64", [1, 2]),
        "advantages": ("float32", [0.5, 1.0]),
        "custom": ("float32", [1.0, 2.0]),
    }


@pytest.mark.parametrize(
    "tensor", [TensorData(**CSR), TensorData(data=[[0.5], [1.0]], dtype="float32")], ids=repr
)
def test_to_torch_hands_out_memory_of_its_own(tensor: TensorData) -> None:
    torch = pytest.importorskip("torch")
    before = tensor.tolist()
    out = tensor.to_torch()
    assert out.dtype == getattr(torch, tensor.dtype)
    assert out.tolist() == before
    out += 1
    assert tensor.tolist() == before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda torch: torch.tensor([0.0, float("nan")]),
            "data[1]: nan is not finite (VAL001 non-finite-value)",
        ),
        (
            lambda torch: torch.tensor([True]),
            "data: an array of bool is not an array of float32 (INP003 wrong-dtype)",
        ),
        (
            lambda torch: [torch.tensor(1.0), torch.tensor([1.0])],
            "data[1]: tensor([1.]) among single values (INP004 wrong-rank)",
        ),
    ],
)
def test_torch_values_are_checked_like_others(build: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    given_value = build(torch)
    with pytest.raises(SchemaError) as caught:
        TensorData.from_torch(given_value)
    assert str(caught.value) == message
