"""Numbers of any origin become one read-only numpy array, or are refused by name.

Python lists, tuples, numpy arrays, torch tensors and whatever offers `__array__` are taken. Nothing is
rounded, wrapped or dropped on the way, apart from the narrowing to float32 that the protocol prescribes.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from provenance.models._base import refuse, shorten

Array: TypeAlias = npt.NDArray[Any]

_LETTERS = {4: "i", 8: "q"}  # of struct; numpy's own letters for integers differ between platforms
MAX_RANK = 8  # also what stops a list that contains itself


class SupportsArray(Protocol):
    """What numpy can turn into an array: torch tensors, pandas and pyarrow columns."""

    def __array__(self) -> Any:
        """Return the data as a numpy array."""


ArrayLike: TypeAlias = Sequence[Any] | Array | SupportsArray


@dataclass(frozen=True)
class Kind:
    """What an array holds, and which rule speaks for each way to get it wrong."""

    dtype: np.dtype[Any]
    """int32, int64 or float32."""
    noun: str
    """Names one valid element in a message, with its article."""
    missing: str = "VAL001"
    """Null, NaN, infinity, float32 overflow."""
    wrong: str = "FMT004"
    """An element that is no number: bool, str."""
    inexact: str = "INP003"
    """An integer out of range, an array of another dtype."""
    fraction: str = "INP003"
    """A fraction among integers."""
    low: int = -(2**63)
    high: int = 2**63 - 1


INT64 = Kind(np.dtype(np.int64), "an int64")
FLOAT32 = Kind(np.dtype(np.float32), "a number")
LOGPROBS = Kind(np.dtype(np.float32), "a number", missing="SEQ007")
INDICES = Kind(np.dtype(np.int64), "an index >= 0", "INP004", "INP004", "INP004", "INP004", low=0)
TOKENS = Kind(
    np.dtype(np.int32),
    "a token id in [0, 2^31)",
    "TOK001",
    "TOK001",
    "TOK001",
    "FMT004",
    low=0,
    high=2**31 - 1,
)
PROMPT_TOKENS = Kind(
    np.dtype(np.int32),
    "a token id in [0, 2^31), or -1 for no text",
    "TOK001",
    "TOK001",
    "TOK001",
    "FMT004",
    low=-1,
    high=2**31 - 1,
)


def as_array(value: object, kind: Kind) -> Array:
    """Return the numbers as a read-only array of the kind's dtype, of any rank, backed by `bytes`.

    `bytes` rather than a flag: an array that owns its memory takes `setflags(write=True)` back.
    """
    if isinstance(value, (list, tuple)):
        return _from_list(value, kind)
    array = value if type(value) is np.ndarray else to_numpy(value)
    if array is None or (array.dtype.kind == "O" and array.ndim == 0):
        raise refuse(kind.wrong, f"{shorten(value)} is not an array of numbers")
    return _from_list(array.tolist(), kind) if array.dtype.kind == "O" else _from_numpy(array, kind)


def as_vector(value: object, kind: Kind) -> Array:
    """Return the numbers as `as_array` does, refusing any rank but 1."""
    array = as_array(value, kind)
    if array.ndim != 1:
        shape = list(array.shape)
        raise refuse(kind.wrong, f"an array of shape {shape} is not one-dimensional")
    return array


def to_numpy(value: Any) -> Array | None:
    """Return the value as a numpy array if it is some library's array, else None. Never imports torch."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            value = value.to_dense()
        if value.dtype == torch.bfloat16:  # numpy has no such type, and widening loses nothing
            value = value.float()
        array: Array = value.numpy(force=True)
        return array
    if isinstance(value, np.ma.MaskedArray):
        return np.array(value.tolist(), dtype=object)  # a masked element must not pass as its fill value
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return np.array(list(value), dtype=object)
    return None


def flatten(values: Sequence[Any]) -> tuple[Sequence[Any], tuple[int, ...]]:
    """Return the leaves of nested lists and their shape; ragged nesting is refused (INP004)."""
    shape = [len(values)]
    while len(values) and _row(values[0]) is not None:
        rows = [_row(value) for value in values]
        width = len(rows[0] or ())
        for i, row in enumerate(rows):
            if row is None or len(row) != width:
                what = shorten(values[i]) if row is None else f"a row of {len(row)}"
                raise refuse("INP004", f"{what} among rows of {width} values", index=_index(i, shape))
        if len(shape) == MAX_RANK:
            raise refuse("INP004", f"more than {MAX_RANK} levels of nested lists")
        values = list(chain.from_iterable(row or () for row in rows))
        shape.append(width)
    return values, tuple(shape)


def _row(value: Any) -> Sequence[Any] | None:
    """Return what is nested in an element of a list, None for a single value."""
    if isinstance(value, (list, tuple)):
        return value
    if not getattr(value, "ndim", 0):
        return None
    array = to_numpy(value) if type(value) is not np.ndarray else value
    return None if array is None else array.tolist()


def freeze(array: Array) -> Array:
    """Return the array itself if nobody can write to it, else a copy that is so."""
    base: Any = array
    while type(base) is np.ndarray:
        base = base.base
    if type(base) is bytes and type(array) is np.ndarray and array.flags.c_contiguous:
        return array
    return np.ndarray(array.shape, array.dtype, buffer=array.tobytes())


def _from_list(values: Sequence[Any], kind: Kind) -> Array:
    flat, shape = flatten(values)
    form = f"{len(flat)}{kind.dtype.char if kind.dtype.kind == 'f' else _LETTERS[kind.dtype.itemsize]}"
    element: Any = float if kind.dtype.kind == "f" else int
    try:
        # msgspec tells ints from bools and floats, struct checks the range: strict, and twice numpy's speed.
        buffer = struct.pack(form, *msgspec.convert(flat, list[element]))
    except (msgspec.ValidationError, struct.error, OverflowError):
        buffer = struct.pack(form, *_exact(flat, shape, kind))
    array: Array = np.ndarray(shape, kind.dtype, buffer=buffer)
    if kind.dtype.kind == "f":
        bad = ~np.isfinite(array)
    elif kind is INT64:
        return array
    else:  # struct has checked the upper end
        bad = array < kind.low
    if np.count_nonzero(bad):
        _exact(flat, shape, kind)
    return array


def _exact(flat: Sequence[Any], shape: tuple[int, ...], kind: Kind) -> list[int] | list[float]:
    """Convert one by one, raising at the first element that is not what the kind says."""
    return [_element(value, i, shape, kind) for i, value in enumerate(flat)]


def _element(value: Any, i: int, shape: tuple[int, ...], kind: Kind) -> Any:
    # Scalars of numpy, torch and jax: what iterating over an array yields.
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if number is None:
        raise refuse(kind.missing, f"None is not {kind.noun}", index=_index(i, shape))
    if _row(number) is not None:
        raise refuse("INP004", f"{shorten(number)} among single values", index=_index(i, shape))
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise refuse(kind.wrong, f"{shorten(number)} is not {kind.noun}", index=_index(i, shape))
    if kind.dtype.kind == "f":
        try:
            struct.pack("=f", number)  # without "=" an overflow becomes infinity
        except (OverflowError, struct.error):
            raise refuse(
                kind.missing, f"{shorten(number)} overflows float32", index=_index(i, shape)
            ) from None
        if not math.isfinite(number):
            raise refuse(kind.missing, f"{number!r} is not finite", index=_index(i, shape))
        return float(number)
    if isinstance(number, float) and not math.isfinite(number):
        raise refuse(kind.missing, f"{number!r} is not {kind.noun}", index=_index(i, shape))
    if number != int(number):
        raise refuse(kind.fraction, f"{shorten(number)} is not {kind.noun}", index=_index(i, shape))
    if not kind.low <= number <= kind.high:
        raise refuse(kind.inexact, f"{shorten(number)} is not {kind.noun}", index=_index(i, shape))
    return int(number)


def _from_numpy(array: Array, kind: Kind) -> Array:
    if array.dtype.kind not in "iuf":
        if array.dtype.name != "bfloat16":  # of ml_dtypes, as jax hands it out
            raise refuse(kind.inexact, f"an array of {array.dtype} is not an array of {kind.dtype}")
        array = array.astype(np.float32)
    return _floats(array, kind) if kind.dtype.kind == "f" else _integers(array, kind)


def _floats(array: Array, kind: Kind) -> Array:
    given = array
    if array.dtype != kind.dtype:
        with np.errstate(over="ignore", under="ignore"):  # an overflow is found below, with its position
            array = array.astype(kind.dtype)
    bad = ~np.isfinite(array)
    if np.count_nonzero(bad):  # on an array this short in half the time of bad.any()
        first = _first(bad)
        value = given[first].item()
        text = "overflows float32" if math.isfinite(value) else "is not finite"
        raise refuse(kind.missing, f"{value!r} {text}", index=first)
    return freeze(array)


def _integers(array: Array, kind: Kind) -> Array:
    if array.dtype == kind.dtype:
        if kind is INT64 or not array.size:
            return freeze(array)
        bad = array < kind.low
    elif array.dtype.kind == "f":
        array = array.astype(np.float64) if array.dtype.itemsize < 8 else array
        # Compared as floats, so that the bounds of int64, 2^63 not being one of them, are met exactly.
        bad = (np.trunc(array) != array) | (array < float(kind.low)) | (array >= float(kind.high + 1))
    else:
        # numpy compares any integer with a Python integer exactly, also where the dtype cannot hold it.
        bad = (array < kind.low) | (array > kind.high)
    if np.count_nonzero(bad):
        first = _first(bad)
        value = array[first].item()
        if not math.isfinite(value):
            code = kind.missing
        else:
            code = kind.inexact if value == int(value) else kind.fraction
        raise refuse(code, f"{value!r} is not {kind.noun}", index=first)
    return freeze(array if array.dtype == kind.dtype else array.astype(kind.dtype))


def _first(bad: Array) -> tuple[int, ...]:
    return _index(int(bad.argmax()), bad.shape)


def _index(i: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(i, tuple(shape))) if len(shape) else ()


@dataclass(frozen=True)
class Vector:
    """Annotates a field that holds a read-only 1-D array of one kind; an array of numbers in JSON."""

    kind: Kind

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate the whole array with one call instead of one per element."""
        kind = self.kind
        return core_schema.no_info_plain_validator_function(
            lambda value: as_vector(value, kind),
            serialization=core_schema.plain_serializer_function_ser_schema(to_list, when_used="json"),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the array as JSON carries it."""
        if self.kind.dtype.kind == "f":
            return {"type": "array", "items": {"type": "number"}}
        bounds = {"minimum": self.kind.low, "maximum": self.kind.high}
        return {"type": "array", "items": {"type": "integer", **bounds}}


def to_list(array: Array) -> list[Any]:
    """Return the values as JSON carries them, flat."""
    values: list[Any] = array.ravel().tolist()
    return values


Tokens: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]
Indices: TypeAlias = npt.NDArray[np.int64]
