"""Arrow arrays as numpy: values, validity, offsets, whatever the array's type, slice or hidden values.

Buffers are read as they are. ``to_numpy`` turns integers with nulls into floats, 2^53 + 1 into 2^53, and like
``pa.array`` and ``to_pandas_dtype`` it imports pandas where that is installed, for half a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import Array, Floats, Ints, Mask, offsets_of
from provenance.formats._arrow_limits import bound_elements

_INT64_MAX: Final = 2**63 - 1
_DTYPES: Final = {
    getattr(pa, name)().id: np.dtype(name)
    for name in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
}
#: Codes of ``Texts.codes`` for a null.
NULL_TEXT: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A list array of n rows, without what lies outside of its rows."""

    present: Mask
    """(n,): the list is not null."""
    lengths: Ints
    """(n,): 0 where it is null."""
    offsets: Ints
    """(n + 1,): where each row's elements start in ``elements``; starts at 0."""
    elements: Any
    """A ``pyarrow.Array`` of the elements of all rows, a view where they lie one after the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A string array of n elements by its distinct values."""

    codes: Ints
    """(n,): index into ``values``, NULL_TEXT for a null."""
    values: list[str]
    """The distinct values that occur."""

    def word(self, i: int) -> str | None:
        """Element ``i``, None for a null."""
        code = int(self.codes[i])
        return None if code == NULL_TEXT else self.values[code]


def is_list(kind: Any) -> bool:
    """Tell whether the type is one of the five that hold a list per row."""
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
        or types.is_fixed_size_list(kind)
    )


def joined(column: Any) -> Any:
    """Return a column, chunked or not, as one array; a single chunk is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def field_of(struct: Any, name: str) -> Any:
    """Return a field of a struct array as an array of its length, nulls where the struct has no such field.

    A null struct hides values in its fields: combine with `validity` of the struct.
    """
    if pa.types.is_null(struct.type) or struct.type.get_field_index(name) < 0:
        return pa.nulls(len(struct))
    return struct.field(name)


def validity(array: Any) -> Mask | None:
    """(n,): the element is not null; None where no element is null."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    return _bits(array, 0)


def flags(array: Any) -> Mask:
    """Return a bool array, False for a null."""
    if pa.types.is_null(array.type) or len(array) == 0:
        return np.zeros(len(array), np.bool_)
    valid = validity(array)
    return _bits(array, 1) if valid is None else _bits(array, 1) & valid


def _bits(array: Any, buffer: int) -> Mask:
    first, last = array.offset // 8, (array.offset + len(array) + 7) // 8
    packed = np.frombuffer(array.buffers()[buffer], np.uint8)[first:last]
    start = array.offset - 8 * first
    return np.unpackbits(packed, bitorder="little")[start : start + len(array)].view(np.bool_)


def lists_of(array: Any, keep: Mask | None = None) -> Lists:
    """Take a list array apart; rows that are not kept become null. A null array is a list array of nulls."""
    present = validity(array)
    if present is None:
        present = np.ones(len(array), np.bool_)
    if keep is not None:
        present = present & keep
    if pa.types.is_null(array.type):
        return Lists(present, np.zeros(len(array), np.int64), np.zeros(len(array) + 1, np.int64), pa.nulls(0))
    starts, lengths = _bounds(array)
    lengths = np.where(present, lengths, 0)
    offsets = offsets_of(lengths)
    # Views may share their elements, and elements without bytes may be any number.
    bound_elements(int(offsets[-1]), array.nbytes, "a list column")
    return Lists(present, lengths, offsets, _elements(array.values, starts, lengths, int(offsets[-1])))


def _bounds(array: Any) -> tuple[Ints, Ints]:
    """Where each row starts in ``array.values``, and how many elements it has, nulls included."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        starts = (np.arange(len(array), dtype=np.int64) + array.offset) * kind.list_size
        return starts, np.full(len(array), kind.list_size, np.int64)
    starts, _ = integers(array.offsets)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return starts[:-1], np.diff(starts)
    return starts, integers(array.sizes)[0]


def _elements(values: Any, starts: Ints, lengths: Ints, total: int) -> Any:
    """Concatenate the rows' elements: one slice, unless nulls hide values or views are out of order."""
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return values.slice(0, 0)
    starts, ends = starts[filled], (starts + lengths)[filled]
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    if not len(breaks):
        return values.slice(int(starts[0]), total)
    first = np.concatenate(([0], breaks))
    last = np.concatenate((breaks - 1, [len(filled) - 1]))
    runs = zip(starts[first].tolist(), ends[last].tolist(), strict=True)
    return pa.concat_arrays([values.slice(start, end - start) for start, end in runs])


def numbers(array: Any) -> tuple[Array, Mask | None]:
    """Return values of the array's dtype, a view where there is no null, and the validity; a null is 0."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int32), np.zeros(len(array), np.bool_) if len(array) else None
    dtype = _DTYPES[array.type.id]
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros(len(array), dtype), validity(array)
    values: Array = np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)
    valid = validity(array)
    return (values if valid is None else np.where(valid, values, dtype.type(0))), valid


def as_int64(values: Array) -> Ints:
    """Numbers as int64: fractions are cut, what lies outside of int64 becomes its nearest end, and NaN 0."""
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_INT64_MAX))
    elif values.dtype.kind == "f":
        # float64 first: float16 cannot hold the limits. 2^63 is a float, 2^63 - 1 is none.
        wide = np.nan_to_num(values.astype(np.float64), nan=0.0)
        low, high = wide <= -(2.0**63), wide >= 2.0**63
        exact = np.where(low | high, 0.0, wide).astype(np.int64)
        values = np.where(high, _INT64_MAX, np.where(low, -(2**63), exact))
    return values.astype(np.int64, copy=False)


def as_float32(values: Array) -> Floats:
    """Numbers as float32; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def integers(array: Any) -> tuple[Ints, Mask | None]:
    """Return an integer array as int64, and its validity; a null is 0."""
    values, valid = numbers(array)
    return as_int64(values), valid


def texts(array: Any, exists: Mask | None = None) -> Texts:
    """Return a string array by its distinct values; what does not exist, (n,), becomes null."""
    if pa.types.is_null(array.type):
        return Texts(np.full(len(array), NULL_TEXT), [])
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes, valid = integers(encoded.indices)
    if valid is not None:
        codes = np.where(valid, codes, NULL_TEXT)
    if exists is not None:
        codes = np.where(exists, codes, NULL_TEXT)
    elif encoded is not array:
        return Texts(codes, _words(encoded.dictionary))
    # A slice keeps the dictionary of the whole, and a dictionary may name a value twice or hold a null.
    used = np.unique(codes[codes >= 0])
    words = _dictionary(encoded.dictionary, used)
    distinct = {word: code for code, word in enumerate(dict.fromkeys(w for w in words if w is not None))}
    renumbered = np.full(len(encoded.dictionary) + 1, NULL_TEXT)
    renumbered[used] = [NULL_TEXT if word is None else distinct[word] for word in words]
    return Texts(renumbered[codes], list(distinct))


def _dictionary(dictionary: Any, used: Ints) -> list[str | None]:
    if len(used) == len(dictionary):
        return _words(dictionary)
    if pa.types.is_string_view(dictionary.type):  # no kernel takes elements of these
        words = _words(dictionary)
        return [words[i] for i in used.tolist()]
    index = pa.Array.from_buffers(pa.int64(), len(used), [None, pa.py_buffer(used)])
    return _words(dictionary.take(index))


def _words(array: Any) -> list[Any]:
    """Elements of a string array."""
    if pa.types.is_string_view(array.type):
        return list(array.to_pylist())
    words: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return words


def objects(found: Texts) -> Array:
    """Return texts as an object array of str, and None for a null."""
    words = np.empty(len(found.values) + 1, np.object_)
    words[:-1] = found.values
    return words[found.codes]  # NULL_TEXT is the last, which is None
