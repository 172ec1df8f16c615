"""Lists and arrays of numbers as bytes of int64 or float32: nothing is lost without a word about it.

What a list holds is kept as far as it is a number: null, NaN, infinity and overflow are values that rules
report on. What is no number at all (a string, a bool, an object) makes the record unreadable.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from provenance.columns import Array
from provenance.formats._problem import RecordError, shown
from provenance.models._arrays import MAX_RANK, to_numpy

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

#: A null, in a list that was checked.
Number = int | float | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers in row-major order, and how they were nested."""

    flat: Sequence[Number] | Array
    shape: tuple[int, ...] | None
    """None where nested lists are not of one length."""


@dataclass(frozen=True, slots=True)
class Packed:
    """``count`` numbers in the machine's byte order."""

    count: int
    data: bytes
    valid: bytes | None = None
    """One byte each, 0 where the number is null; None when none is. A null is 0 in ``data``."""
    inexact: int | None = None
    """int64 alone: index of the first number that is not whole. It was cut; NaN became 0."""
    clamped: int | None = None
    """int64 alone: index of the first number out of range. It became the nearest limit."""

    @property
    def changed(self) -> int | None:
        """int64 alone: index of the first number that is not what was given."""
        return min((i for i in (self.inexact, self.clamped) if i is not None), default=None)


def numbers_of(value: object, path: str) -> Numbers:
    """Take a list, nested lists, a numpy array or a torch tensor.

    Raises:
        RecordError: for what is none of them, and for elements that are not numbers.
    """
    if isinstance(value, (list, tuple)):
        return _from_lists(value, path)
    array = to_numpy(value)
    if array is None or array.dtype.kind not in "iufOV":
        what = shown(value) if array is None else f"an array of {array.dtype}"
        raise RecordError(path, f"{what} is not a list of numbers")
    if array.dtype.kind == "O":
        return _from_lists(array.tolist(), path) if array.ndim else numbers_of([array.item()], path)
    if array.dtype.kind == "V":  # bfloat16 of ml_dtypes, as jax hands it out, is no kind that numpy knows
        array = _from_bfloat16(array, path)
    return Numbers(array.ravel(), array.shape)


def _from_bfloat16(array: Array, path: str) -> Array:
    if array.dtype.name != "bfloat16":
        raise RecordError(path, f"an array of {array.dtype} is not a list of numbers")
    return array.astype(np.float32)


def _from_lists(value: list[Any] | tuple[Any, ...], path: str) -> Numbers:
    try:
        # msgspec tells numbers from bools, in C.
        return Numbers(msgspec.convert(value, list[int | float]), (len(value),))
    except (msgspec.ValidationError, UnicodeError):  # msgspec quotes the text it refuses
        pass
    flat: Any = value
    shape = [len(value)]
    while any(isinstance(item, (list, tuple, np.ndarray)) for item in flat):
        rows = [item.tolist() if isinstance(item, np.ndarray) else item for item in flat]
        lengths = {len(row) if isinstance(row, (list, tuple)) else -1 for row in rows}
        if len(lengths) > 1 or -1 in lengths:
            return Numbers([], None)
        if len(shape) == MAX_RANK:
            raise RecordError(path, f"more than {MAX_RANK} levels of nested lists")
        flat = list(chain.from_iterable(rows))
        shape.append(lengths.pop())
    return Numbers([_number(item, i, shape, path) for i, item in enumerate(flat)], tuple(shape))


def _number(value: object, i: int, shape: list[int], path: str) -> Number:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    place = ", ".join(str(int(k)) for k in np.unravel_index(i, shape))
    raise RecordError(f"{path}[{place}]", f"{shown(value)} is not a number")


def as_float32(numbers: Numbers) -> Packed:
    """Numbers as float32, rounded once from float64; what is too large becomes infinite."""
    flat = numbers.flat
    if isinstance(flat, np.ndarray):
        with np.errstate(over="ignore"):
            # An int is rounded to a float64 first, as in a list.
            wide = flat.astype(np.float64) if flat.dtype.kind in "iu" else flat
            return Packed(len(flat), wide.astype(np.float32).tobytes())
    return _packed(flat, "f", _float)


def as_int64(numbers: Numbers) -> Packed:
    """Numbers as int64, with the index of the first that had to be changed."""
    flat = numbers.flat
    if isinstance(flat, np.ndarray):
        if np.can_cast(flat.dtype, np.int64):
            return Packed(len(flat), flat.astype(np.int64).tobytes())
        flat = flat.tolist()
    try:
        return _packed(flat, "q", None)
    except (struct.error, TypeError):
        pass
    packed = _packed(flat, "q", _clamped)
    inexact = next((i for i, v in enumerate(flat) if v is not None and not _whole(v)), None)
    clamped = next((i for i, v in enumerate(flat) if v is not None and _out_of_range(v)), None)
    return Packed(packed.count, packed.data, packed.valid, inexact, clamped)


def first_unlike_int64(numbers: Numbers) -> int | None:
    """Index of the first finite number that int64 cannot hold. NaN and infinity are reported as such."""
    flat = numbers.flat
    if isinstance(flat, np.ndarray):
        if np.can_cast(flat.dtype, np.int64):
            return None
        flat = flat.tolist()
    finite = ((i, v) for i, v in enumerate(flat) if v is not None and math.isfinite(_float(v)))
    return next((i for i, v in finite if not _whole(v) or _out_of_range(v)), None)


@lru_cache(maxsize=1024)
def _struct(form: str, count: int) -> struct.Struct:
    return struct.Struct(f"{count}{form}")


def pack(form: str, values: Sequence[float]) -> bytes:
    """Numbers as bytes; raises ``struct.error`` for a fraction or a size that the form does not take.

    Three times faster than numpy and twice as fast as ``array`` for a list, and strict about ints.
    """
    return _struct(form, len(values)).pack(*values)


def _packed(flat: Sequence[Number], form: str, convert: Callable[[float], int | float] | None) -> Packed:
    """Pack the numbers, those that ``struct`` refuses after conversion."""
    try:
        return Packed(len(flat), pack(form, flat))  # type: ignore[arg-type]
    except struct.error:
        if None in flat:
            valid = bytes(value is not None for value in flat)
            packed = _packed([0 if value is None else value for value in flat], form, convert)
            return Packed(packed.count, packed.data, valid)
        if convert is None:
            raise
        return Packed(len(flat), pack(form, [convert(value) for value in flat if value is not None]))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _clamped(value: float) -> int:
    # math.isnan cannot be asked about a huge int.
    return 0 if value != value else int(max(INT64_MIN, min(INT64_MAX, value)))


def _whole(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _out_of_range(value: float) -> bool:
    return not INT64_MIN <= value <= INT64_MAX  # True for NaN
