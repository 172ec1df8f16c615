"""How lists, numpy arrays and torch tensors become read-only arrays, and what is refused on the way."""

from __future__ import annotations

import array
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from provenance.errors import SchemaError
from provenance.models import Datum, EncodedTextChunk, ModelInput, TensorData

FLT_MAX = float(np.finfo(np.float32).max)
TOKEN = "is not a token id in [0, 2^31) (TOK001 token-out-of-range)"
FRACTION = "is not a token id in [0, 2^31) (FMT004 wrong-type)"
LOOP: list[Any] = []
LOOP.append(LOOP)


def int64(data: Any, **fields: Any) -> TensorData:
    return TensorData(data=data, dtype="int64", **fields)


def float32(data: Any, **fields: Any) -> TensorData:
    return TensorData(data=data, dtype="float32", **fields)


@pytest.mark.parametrize(
    "given_tokens",
    [
        [3, 2**31 - 1],
        (3, 2**31 - 1),
        [np.int64(3), 2**31 - 1],
        [3.0, np.array(2**31 - 1)],
        array.array("q", [3, 2**31 - 1]),
        *(np.array([3, 2**31 - 1], dtype) for dtype in ("i4", ">i4", "i8", "u4", "u8", "f8", "O")),
        np.array([3, 0, 2**31 - 1])[::2],
        np.ma.masked_array([3, 2**31 - 1]),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}",
)
def test_tokens_of_any_origin(given_tokens: Any) -> None:
    tokens = EncodedTextChunk(tokens=given_tokens).tokens
    assert tokens.tolist() == [3, 2**31 - 1]
    assert (type(tokens), tokens.dtype, tokens.flags.writeable) == (np.ndarray, np.int32, False)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([1, 2.7], f"tokens[1]: 2.7 {FRACTION}"),
        (np.array([1, 2.7]), f"tokens[1]: 2.7 {FRACTION}"),
        (np.array([1, 2.5], np.float16), f"tokens[1]: 2.5 {FRACTION}"),
        ([1, float("nan")], f"tokens[1]: nan {TOKEN}"),
        (np.array([1, np.nan]), f"tokens[1]: nan {TOKEN}"),
        ([1, True], f"tokens[1]: True {TOKEN}"),
        ([1, np.True_], f"tokens[1]: True {TOKEN}"),
        ([1, None], f"tokens[1]: None {TOKEN}"),
        (np.ma.masked_array([1, 2], [False, True]), f"tokens[1]: None {TOKEN}"),
        ([1, "2"], f"tokens[1]: '2' {TOKEN}"),
        ([1, 2**31], f"tokens[1]: 2147483648 {TOKEN}"),
        ([1, 2**80], f"tokens[1]: 1208925819614629174706176 {TOKEN}"),
        ([1, 10**5000], f"tokens[1]: <int too long to print> {TOKEN}"),
        (np.array([1, 2**31], np.uint32), f"tokens[1]: 2147483648 {TOKEN}"),
        (np.array([2**63], np.uint64), f"tokens[0]: 9223372036854775808 {TOKEN}"),
        (np.array([1.0, 2.0**31]), f"tokens[1]: 2147483648.0 {TOKEN}"),
        ([-100, 5], f"tokens[0]: -100 {TOKEN}"),
        (np.array([5, -100], np.int32), f"tokens[1]: -100 {TOKEN}"),
        (np.array([5, -100], np.int8), f"tokens[1]: -100 {TOKEN}"),
        (
            np.array([True]),
            "tokens: an array of bool is not an array of int32 (TOK001 token-out-of-range)",
        ),
        (
            [[1, 2], [3, 4]],
            "tokens: an array of shape [2, 2] is not one-dimensional (TOK001 token-out-of-range)",
        ),
        (5, "tokens: 5 is not an array of numbers (TOK001 token-out-of-range)"),
        ("12", "tokens: '12' is not an array of numbers (TOK001 token-out-of-range)"),
        ({1, 2}, "tokens: {1, 2} is not an array of numbers (TOK001 token-out-of-range)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_tokens_are_refused_with_index_and_value(tokens: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        EncodedTextChunk(tokens=tokens)
    assert str(caught.value) == message
    assert caught.value.code in message


def test_a_writeable_array_is_copied() -> None:
    source = np.arange(4, dtype=np.int64)
    window = source[:]
    window.flags.writeable = False
    tensors = [int64(source), int64(window), TensorData.from_numpy(source)]
    source[:] = 9
    for tensor in tensors:
        assert tensor.tolist() == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="WRITEABLE"):
            tensor.data.setflags(write=True)


def test_an_array_that_nobody_can_write_to_is_shared() -> None:
    data = int64([1, 2, 3]).data
    assert np.shares_memory(int64(data).data, data)
    assert np.shares_memory(int64(data[1:]).data, data)


@pytest.mark.parametrize(
    ("build", "code", "place"),
    [
        (lambda: float32([0.0, float("nan")]), "VAL001 non-finite-value", "data[1]: nan is not finite"),
        (lambda: float32(np.array([0, np.inf])), "VAL001 non-finite-value", "data[1]: inf is not finite"),
        (lambda: float32([0.0, None]), "VAL001 non-finite-value", "data[1]: None is not a number"),
        (lambda: float32([1e39]), "VAL001 non-finite-value", "data[0]: 1e+39 overflows float32"),
        (
            lambda: float32(np.array([[0.0], [1e39]])),
            "VAL001 non-finite-value",
            "data[1, 0]: 1e+39 overflows",
        ),
        (lambda: float32([10**400]), "VAL001 non-finite-value", "data[0]: 1000000000000"),
        (lambda: int64([1, None]), "VAL001 non-finite-value", "data[1]: None is not an int64"),
        (lambda: int64([1, float("inf")]), "VAL001 non-finite-value", "data[1]: inf is not an int64"),
        (lambda: int64(np.array([np.nan])), "VAL001 non-finite-value", "data[0]: nan is not an int64"),
        (lambda: int64([[1, 2], [3, 4.5]]), "INP003 wrong-dtype", "data[1, 1]: 4.5 is not an int64"),
        (lambda: int64(np.array([0.5], np.float16)), "INP003 wrong-dtype", "data[0]: 0.5 is not an int64"),
        (lambda: int64([2**63]), "INP003 wrong-dtype", "data[0]: 9223372036854775808 is not"),
        (lambda: int64([2.0**63]), "INP003 wrong-dtype", "data[0]: 9.2233720368547"),
        (lambda: int64(np.array([2**63], "u8")), "INP003 wrong-dtype", "data[0]: 9223372036854775808 is not"),
        (lambda: int64(np.array([2.0**63])), "INP003 wrong-dtype", "data[0]: 9.2233720368547"),
        (
            lambda: int64(np.array([1j])),
            "INP003 wrong-dtype",
            "data: an array of complex128 is not an array of int64",
        ),
        (lambda: float32(np.array([True])), "INP003 wrong-dtype", "data: an array of bool is not"),
        (lambda: TensorData(data=[1], dtype="float64"), "INP003 wrong-dtype", "dtype: 'float64' should be"),
        (lambda: float32([1.0, True]), "FMT004 wrong-type", "data[1]: True is not a number"),
        (lambda: float32([1.0, "2"]), "FMT004 wrong-type", "data[1]: '2' is not a number"),
        (lambda: int64([1, True]), "FMT004 wrong-type", "data[1]: True is not an int64"),
        (lambda: float32(1.0), "FMT004 wrong-type", "data: 1.0 is not an array of numbers"),
        (lambda: float32(None), "FMT004 wrong-type", "data: None is not an array of numbers"),
        (lambda: TensorData.from_numpy("x"), "FMT004 wrong-type", "data: 'x' is not an array"),
        (lambda: float32([[1, 2], [3]]), "INP004 wrong-rank", "data[1]: a row of 1 among rows of 2 values"),
        (lambda: float32([[1, 2], 3]), "INP004 wrong-rank", "data[1]: 3 among rows of 2 values"),
        (
            lambda: float32([np.ones(2), np.ones(3)]),
            "INP004 wrong-rank",
            "data[1]: a row of 3 among rows of 2",
        ),
        (lambda: float32([1, [2]]), "INP004 wrong-rank", "data[1]: [2] among single values"),
        (lambda: float32(LOOP), "INP004 wrong-rank", "data: more than 8 levels of nested lists"),
        (lambda: float32([1, 2], shape=[3]), "INP004 wrong-rank", "shape: [3] does not hold 2 values"),
        (
            lambda: float32([1, 2], shape=[2**70, 0]),
            "INP004 wrong-rank",
            "shape[0]: 1180591620717411303424 is",
        ),
        (lambda: float32([], shape=[2**62, 2**62, 0]), "INP004 wrong-rank", "shape: [4611686018427387904,"),
        (
            lambda: float32([[1, 2]], shape=[2]),
            "INP004 wrong-rank",
            "shape: [2] is declared for data nested as",
        ),
        (lambda: float32([1], shape=[True]), "INP004 wrong-rank", "shape[0]: True is not a dimension"),
        (lambda: float32([1], shape=[-1]), "INP004 wrong-rank", "shape[0]: -1 is not a dimension"),
        (lambda: float32([1], shape=1), "INP004 wrong-rank", "shape: 1 is not a list of dimensions"),
    ],
)
def test_values_are_refused_by_rule(build: Callable[[], object], code: str, place: str) -> None:
    with pytest.raises(SchemaError) as caught:
        build()
    assert str(caught.value).startswith(place)
    assert str(caught.value).endswith(f"({code})")
    assert caught.value.code == code[:6]


@pytest.mark.parametrize("value", [2**53 + 1, -(2**63), 2**63 - 1])
def test_integers_are_exact(value: int) -> None:
    tensor = int64([value])
    assert tensor.tolist() == [value]
    assert TensorData.model_validate_json(tensor.model_dump_json()).tolist() == [value]


def test_the_largest_float32_fits_and_integral_floats_are_integers() -> None:
    assert float32([FLT_MAX, -FLT_MAX]).tolist() == [FLT_MAX, -FLT_MAX]
    assert float32(np.array([FLT_MAX])).tolist() == [FLT_MAX]
    assert int64([2.0, -(2.0**63)]).tolist() == [2, -(2**63)]
    assert int64(np.array([2.0, -(2.0**63)])).tolist() == [2, -(2**63)]
    assert int64(np.array([4], np.float16)).tolist() == [4]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f4"])
def test_floats_of_any_width_become_float32(dtype: Any) -> None:
    tensor = TensorData.from_numpy(np.array([0.1, -0.0], dtype))
    assert tensor.dtype == "float32"
    assert tensor.data.tolist() == [float(np.float32(dtype(0.1) if callable(dtype) else 0.1)), 0.0]
    assert np.signbit(tensor.data[1])


@pytest.mark.parametrize(
    ("name", "values", "dtype"),
    [
        ("target_tokens", [1, 2], "int64"),
        ("target_tokens", np.array([1.0, 2.0]), "int64"),
        ("target_tokens", np.array([1, 2], np.int32), "int64"),
        ("advantages", [1, 2], "float32"),
        ("advantages", np.array([1, 2]), "int64"),
        ("mask", [0, 1], "float32"),
        ("sequence_ratio_mask", [[0], [1]], "float32"),
        ("custom", [1, 2], "int64"),
        ("custom", [[1, 2], [3, np.int64(4)]], "int64"),
        ("custom", range(3), "int64"),
        ("custom", [1, 2.5], "float32"),
        ("custom", [], "float32"),
        ("custom", np.zeros(2, np.float16), "float32"),
    ],
    ids=str,
)
def test_plain_loss_inputs_get_the_dtype_of_their_name(name: str, values: Any, dtype: str) -> None:
    tensor = Datum(model_input=ModelInput.empty(), loss_fn_inputs={name: values}).loss_fn_inputs[name]
    assert tensor.dtype == dtype
    assert tensor.tolist() == np.asarray(values).tolist()


@settings(deadline=None)
@given(
    arrays(np.float32, array_shapes(min_dims=0, max_dims=3, min_side=0), elements=st.floats(-3, 3, width=32))
)
def test_numpy_lists_and_json_agree(values: np.ndarray) -> None:
    tensor = TensorData.from_numpy(values)
    assert tensor.shape == values.shape
    assert np.array_equal(tensor.to_numpy(), values)
    assert TensorData.model_validate_json(tensor.model_dump_json()) == tensor
    if values.size:
        assert values.ndim == 0 or float32(values.tolist()) == tensor


@settings(deadline=None)
@given(st.lists(st.integers(-(2**70), 2**70) | st.floats() | st.booleans() | st.none(), max_size=5))
def test_a_list_is_kept_exactly_or_refused(values: list[Any]) -> None:
    try:
        kept = int64(values).tolist()
    except SchemaError:
        exact = [v for v in values if type(v) is int or (type(v) is float and v.is_integer())]
        assert len(exact) < len(values) or not all(-(2**63) <= v < 2**63 for v in exact)
    else:
        assert kept == values


def test_lists_need_no_torch() -> None:
    code = (
        "import sys, numpy as np; from provenance.models import Datum, ModelInput;"
        "Datum(model_input=ModelInput.from_ints([1]), loss_fn_inputs={'logprobs': [0.0], 'a': np.zeros(1)});"
        "print([name for name in ('torch', 'pyarrow', 'hypothesis') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_torch_is_named_with_the_command_that_installs_it() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from provenance.models import TensorData\n"
        "try: TensorData(data=[1], dtype='int64').to_torch()\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "MissingDependencyError torch is not installed: run pip install 'datum-prov"
    )
