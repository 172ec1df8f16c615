"""One loss input of a JSON-shaped datum, as it will lie in the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from provenance.columns import FLOAT32, INT64, OTHER_DTYPE, TARGETS, Array, Ints
from provenance.formats._builder import RowTensor
from provenance.formats._numbers import (
    INT64_MAX,
    INT64_MIN,
    Numbers,
    Packed,
    as_float32,
    as_int64,
    first_unlike_int64,
    numbers_of,
)
from provenance.formats._problem import RecordError, join, object_of, refuse_unknown, required, shown
from provenance.models._arrays import MAX_RANK

_FIELDS: Final = ("data", "dtype", "shape", "sparse_crow_indices", "sparse_col_indices")
DTYPES: Final[Mapping[str, int]] = {"int64": INT64, "float32": FLOAT32}


def tensor_of(name: str, value: object, path: str) -> RowTensor | None:
    """Read a loss input; None where it is null, or its data are: a missing input.

    Raises:
        RecordError: FMT004 for a field of the wrong type.
    """
    if value is None:
        return None
    fields = object_of(value, path)
    refuse_unknown(fields, _FIELDS, path)
    if "data" in fields and fields["data"] is None:
        return None
    numbers = numbers_of(required(fields, "data", path), join(path, "data"))
    dtype = required(fields, "dtype", path)
    if not isinstance(dtype, str):
        raise RecordError(join(path, "dtype"), f"{shown(dtype)} is not a string")
    shape = _shape_of(fields.get("shape"), join(path, "shape"))
    declared = DTYPES.get(dtype, OTHER_DTYPE)
    packed = as_int64(numbers) if name == TARGETS else as_float32(numbers)
    note = _note(name, dtype, numbers, packed)
    crow, col = fields.get("sparse_crow_indices"), fields.get("sparse_col_indices")
    if crow is None and col is None:
        rank, rows, width, sound = dense_shape(shape, numbers.shape, packed.count)
        coordinates = None
    else:
        crow = _indices(crow, join(path, "sparse_crow_indices"))
        col = _indices(col, join(path, "sparse_col_indices"))
        rank, rows, width, sound = _extent(shape or ())
        coordinates = _coordinates(shape, numbers, crow, col)
        sound = coordinates is not None
    return RowTensor(
        declared, rank, rows, width, sound, packed.count, packed.data, packed.valid, coordinates, note
    )


def dense_shape(
    shape: tuple[int, ...] | None, nesting: tuple[int, ...] | None, count: int
) -> tuple[int, int, int, bool]:
    """Rank, rows, width, and whether shape, nesting and number of values agree.

    A scalar, shape [], has rank 0, 0 rows and one value. Ragged lists have rank 2 and no values.
    """
    if nesting is None:
        return 2, 0, 1, False
    if shape is not None and len(shape) > MAX_RANK:  # the product of thousands of dimensions takes hours
        return len(shape), _clamp(shape[0]), 1, False
    if shape is None:
        return _extent(nesting)
    rank, rows, width, sound = _extent(shape)
    agrees = math.prod(shape) == count if len(nesting) == 1 else nesting == shape
    return rank, rows, width, sound and agrees


def _extent(shape: tuple[int, ...]) -> tuple[int, int, int, bool]:
    """Rank, rows, width, and whether no dimension is negative; sizes beyond int64 are clamped to it."""
    rows = shape[0] if shape else 0
    width = math.prod(shape[1:])
    return len(shape), _clamp(rows), _clamp(width), all(size >= 0 for size in shape)


def _clamp(size: int) -> int:
    return max(INT64_MIN, min(INT64_MAX, size))


def _shape_of(value: Any, path: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise RecordError(path, f"{shown(value)} is not a list of integers")
    for i, size in enumerate(value):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise RecordError(f"{path}[{i}]", f"{shown(size)} is not an integer")
    return tuple(int(size) for size in value)


def _note(name: str, dtype: str, numbers: Numbers, packed: Packed) -> str | None:
    """Why the values are not of the declared dtype; NaN and infinity are values, which VAL001 judges."""
    if dtype not in DTYPES:
        return f"declared {shown(dtype)}"
    if dtype == "float32":
        return None
    first = packed.changed if name == TARGETS else first_unlike_int64(numbers)
    if first is None:
        return None
    value = numbers.flat[first]
    return f"data[{first}] is {shown(value)}"


def _indices(value: object, path: str) -> Ints | None:
    """CSR indices, None where they are absent or out of range; nulls and fractions are the wrong type."""
    if value is None:
        return None
    numbers = numbers_of(value, path)
    packed = as_int64(numbers)
    if packed.inexact is not None or packed.valid is not None:
        i = packed.inexact if packed.inexact is not None else packed.valid.index(0)  # type: ignore[union-attr]
        raise RecordError(f"{path}[{i}]", f"{shown(numbers.flat[i])} is not an integer")
    one_dimensional = numbers.shape is not None and len(numbers.shape) == 1
    return np.frombuffer(packed.data, np.int64) if one_dimensional and packed.clamped is None else None


def _coordinates(
    shape: tuple[int, ...] | None, numbers: Numbers, crow: Array | None, col: Array | None
) -> bytes | None:
    """Row-major index of each CSR value as int64, None where indices, shape and values disagree."""
    if crow is None or col is None or shape is None or len(shape) != 2:
        return None
    n, k = shape
    count = len(numbers.flat)
    if numbers.shape != (count,) or n < 0 or k < 0 or n * k > INT64_MAX:
        return None
    if len(crow) != n + 1 or len(col) != count or crow[0] != 0 or crow[-1] != count:
        return None
    lengths = np.diff(crow)
    if (lengths < 0).any() or ((col < 0) | (col >= k)).any():
        return None
    coordinates = np.repeat(np.arange(n, dtype=np.int64), lengths) * k + col
    # Rows follow each other, so that columns increase within a row exactly where coordinates do everywhere.
    return None if (np.diff(coordinates) <= 0).any() else coordinates.tobytes()
