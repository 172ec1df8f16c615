"""One loss input: numbers, their declared dtype and their shape.

Source: `tinker.types.TensorData` of the official SDK, which casts what it is given. This one refuses what a
cast would change, and names the rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, cast

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from provenance.errors import MissingDependencyError
from provenance.models._arrays import (
    FLOAT32,
    INDICES,
    INT64,
    Array,
    ArrayLike,
    Indices,
    Vector,
    as_array,
    to_list,
    to_numpy,
)
from provenance.models._base import Model, absent, refuse, schema_error, shorten, within

if TYPE_CHECKING:
    import torch

__all__ = ["TensorData", "TensorDtype"]

TensorDtype: TypeAlias = Literal["int64", "float32"]

_KINDS = MappingProxyType({"int64": INT64, "float32": FLOAT32})
# 512 MiB of float32, more than a datum can mean; without a bound, a few bytes of CSR could ask for any size.
_MAX_DENSE = 2**27


def _as_shape(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        raise refuse("INP004", f"{shorten(value)} is not a list of dimensions")
    for i, size in enumerate(value):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 0 <= size < 2**63:
            raise refuse("INP004", f"{shorten(size)} is not a dimension, an integer >= 0", index=(i,))
    return tuple(int(size) for size in value)


_Shape: TypeAlias = Annotated[
    tuple[int, ...],
    PlainValidator(_as_shape),
    PlainSerializer(
        lambda shape: None if shape is None else list(shape), return_type=list[int] | None, when_used="json"
    ),
    WithJsonSchema(
        {"anyOf": [{"type": "array", "items": {"type": "integer", "minimum": 0}}, {"type": "null"}]}
    ),
]
# What `data` must be depends on the fields after it, so it is converted when all of them are known.
_Data: TypeAlias = Annotated[
    Any,
    PlainSerializer(to_list, when_used="json"),
    WithJsonSchema({"type": "array", "items": {"type": "number"}}),
]
_CsrIndices: TypeAlias = Annotated[Indices, Vector(INDICES)]


class TensorData(Model, frozen=True):
    """Numbers of dtype int64 or float32, dense or CSR.

    Floats are narrowed or widened to float32; integers are exact, above 2^53 too. Dense data come flat with a
    shape, or nested without one.

    Raises:
        SchemaError: VAL001 for null, NaN, infinity and what overflows float32; INP003 for another dtype, and
            for fractions or out-of-range values declared int64; INP004 for ragged data, a shape that the data
            do not have, and inconsistent CSR indices; FMT004 for what is no number.
    """

    _rules = MappingProxyType({"dtype": "INP003"})

    if TYPE_CHECKING:
        data: Array
    else:
        data: _Data
    """The values, read-only, of the declared dtype: shape `shape` if dense, (nnz,) if CSR. Flat in JSON."""

    dtype: TensorDtype
    """The declared dtype; the protocol knows no other."""

    shape: _Shape = Field(default=cast("tuple[int, ...]", None))
    """Dimensions of the dense tensor; inferred for dense data, required for CSR."""

    sparse_crow_indices: _CsrIndices | None = Field(default=None, exclude_if=absent)
    """CSR: where each row starts in `data`, shape (rows + 1,), int64."""

    sparse_col_indices: _CsrIndices | None = Field(default=None, exclude_if=absent)
    """CSR: the column of each value, shape (nnz,), int64, increasing within a row."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            data: ArrayLike,
            dtype: TensorDtype,
            shape: Sequence[int] | None = None,
            sparse_crow_indices: ArrayLike | None = None,
            sparse_col_indices: ArrayLike | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _convert(self) -> Self:
        try:
            values = as_array(self.data, _KINDS[self.dtype])
        except PydanticCustomError as error:
            raise within("data", error) from None
        crow, col = self.sparse_crow_indices, self.sparse_col_indices
        if crow is not None or col is not None:
            _check_csr(values, self.shape, crow, col)
        elif self.__dict__["shape"] is None:  # never so once this has run, which is what the type says
            self.__dict__["shape"] = values.shape
            self.__pydantic_fields_set__.add("shape")
        elif self.shape != values.shape:
            values = _reshaped(values, self.shape)
        self.__dict__["data"] = values
        return self

    @classmethod
    def from_numpy(cls, array: Array) -> Self:
        """Return a tensor of the array's shape: int64 for integers, float32 for floats, of any width."""
        return cls._from_array(array)

    @classmethod
    def from_torch(cls, tensor: torch.Tensor) -> Self:
        """Return a tensor from torch's, on any device; dtypes as in `from_numpy`, bfloat16 widens."""
        return cls._from_array(tensor)

    @classmethod
    def _from_array(cls, given: Any) -> Self:
        array = given if isinstance(given, np.ndarray) else to_numpy(given)
        if array is None:
            raise schema_error("FMT004", f"{shorten(given)} is not an array", path="data")
        return cls(data=given, dtype="int64" if array.dtype.kind in "iu" else "float32")

    @property
    def rows(self) -> int | None:
        """The first dimension, None for a scalar."""
        return self.shape[0] if self.shape else None

    def to_numpy(self) -> Array:
        """Return the dense values, shape `shape`, read-only; what CSR does not list is 0.

        Raises:
            SchemaError: INP004 where CSR would need more than 2^27 values.
        """
        crow, col = self.sparse_crow_indices, self.sparse_col_indices
        if crow is None or col is None:
            return self.data
        if math.prod(self.shape) > _MAX_DENSE:
            raise schema_error("INP004", f"{list(self.shape)} is too large to make dense", path="shape")
        dense = np.zeros(self.shape, self.data.dtype)
        dense[np.repeat(np.arange(self.shape[0]), np.diff(crow)), col] = self.data
        dense.flags.writeable = False
        return dense

    def to_torch(self) -> torch.Tensor:
        """Return a dense torch tensor with memory of its own, so that writing to it leaves this one alone."""
        try:
            import torch
        except ImportError:
            raise MissingDependencyError("torch", "losses") from None
        return torch.from_numpy(self.to_numpy().copy())

    def tolist(self) -> list[Any]:
        """Return the dense values as nested lists."""
        values: list[Any] = self.to_numpy().tolist()
        return values


def _reshaped(values: Array, shape: tuple[int, ...]) -> Array:
    if values.ndim != 1:
        text = f"{list(shape)} is declared for data nested as {list(values.shape)}"
        raise refuse("INP004", text, path="shape")
    if math.prod(shape) != values.size:
        raise refuse("INP004", f"{list(shape)} does not hold {values.size} values", path="shape")
    try:
        return values.reshape(shape)
    except ValueError:  # a zero beside dimensions that numpy cannot count
        raise refuse("INP004", f"{list(shape)} is too large", path="shape") from None


def _check_csr(values: Array, shape: tuple[int, ...] | None, crow: Array | None, col: Array | None) -> None:
    if crow is None or col is None:
        missing = "sparse_crow_indices" if crow is None else "sparse_col_indices"
        raise refuse("INP004", "missing, CSR needs both index lists", path=missing)
    if shape is None or len(shape) != 2:
        raise refuse("INP004", f"{shorten(shape)} is not the two dimensions that CSR needs", path="shape")
    if values.ndim != 1:
        raise refuse("INP004", f"nested as {list(values.shape)}, CSR values are flat", path="data")
    if crow.size != shape[0] + 1:
        text = f"{crow.size} row starts, expected {shape[0] + 1}, one more than rows"
        raise refuse("INP004", text, path="sparse_crow_indices")
    if col.size != values.size:
        text = f"{col.size} columns, expected {values.size}, one for each value"
        raise refuse("INP004", text, path="sparse_col_indices")
    starts = np.diff(crow)
    if crow[0] != 0 or crow[-1] != values.size or (starts < 0).any():
        text = f"{shorten(crow)} does not rise from 0 to {values.size}, the number of values"
        raise refuse("INP004", text, path="sparse_crow_indices")
    if col.size and int(col.max()) >= shape[1]:
        at = int((col >= shape[1]).argmax())
        text = f"{int(col[at])} is not a column of {shape[1]}"
        raise refuse("INP004", text, path="sparse_col_indices", index=(at,))
    rising = np.diff(col) > 0
    borders = crow[1:-1]
    rising[borders[(borders > 0) & (borders < col.size)] - 1] = True
    if not rising.all():
        at = int(rising.argmin()) + 1
        text = f"{int(col[at])} after {int(col[at - 1])} in one row, columns must increase"
        raise refuse("INP004", text, path="sparse_col_indices", index=(at,))
