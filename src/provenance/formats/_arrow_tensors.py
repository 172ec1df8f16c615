"""A list column of an Arrow batch as a loss input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from provenance.columns import FLOAT32, INT64, TARGETS, Ints, Mask, Tensor, any_in_rows
from provenance.formats._arrow_arrays import Lists, as_float32, as_int64, is_list, lists_of, numbers, validity
from provenance.formats._arrow_limits import bound_elements


def tensor_of(name: str, column: Any, readable: Mask) -> Tensor:
    """Read the loss input ``name`` of the readable datums: (N,), or (N, K) where the elements are lists."""
    lists = lists_of(column, readable)
    n = len(lists.present)
    nested = is_list(lists.elements.type)
    if nested:
        width, sound, offsets, elements, exists = matrices(lists)
    else:
        width, sound, offsets = np.ones(n, np.int64), np.ones(n, np.bool_), lists.offsets
        elements, exists = lists.elements, None
    raw, valid = numbers(elements)
    if exists is not None:
        valid = exists if valid is None else valid & exists
        raw = np.where(valid, raw, raw.dtype.type(0))
    # An integer is rounded to a float64 first, as in JSON.
    wide = raw.astype(np.float64) if raw.dtype.kind in "iu" and name != TARGETS else raw
    values = as_int64(raw) if name == TARGETS else as_float32(wide)
    return Tensor(
        present=lists.present,
        declared=np.full(n, declared(name, elements.type), np.uint8),
        # A datum without the input has nothing of two dimensions.
        rank=np.where(lists.present, 2, 1) if nested else np.ones(n, np.int64),
        rows=lists.lengths,
        width=np.where(lists.present, width, 1),
        sound=sound,
        offsets=offsets,
        values=values,
        valid=valid,
    )


def declared(name: str, kind: Any) -> int:
    """The dtype that a column of this type declares."""
    if pa.types.is_null(kind):  # nothing in it, so nothing of the wrong dtype
        return INT64 if name == TARGETS else FLOAT32
    return INT64 if pa.types.is_integer(kind) else FLOAT32


def matrices(lists: Lists) -> tuple[Ints, Mask, Ints, Any, Mask | None]:
    """Width, soundness and value offsets of each datum, all values, and which lie in no null row."""
    inner = lists.elements
    n = len(lists.present)
    if pa.types.is_fixed_size_list(inner.type):
        width = inner.type.list_size
        bound_elements(len(inner) * width, inner.nbytes, "a column of lists of one length")
        # A null row keeps its places, so that the other rows keep theirs.
        elements = inner.values.slice(inner.offset * width, len(inner) * width)
        rows = validity(inner)
        exists = None if rows is None else np.repeat(rows, width)
        return np.full(n, width, np.int64), np.ones(n, np.bool_), lists.offsets * width, elements, exists
    rows_of = lists_of(inner)
    lengths = rows_of.lengths
    usual = int(lengths[0]) if len(lengths) else 1
    width = np.full(n, usual, np.int64)
    filled = np.flatnonzero(lists.lengths)
    width[filled] = lengths[lists.offsets[filled]]
    ragged = ~rows_of.present | (lengths != np.repeat(width, lists.lengths))
    sound = ~any_in_rows(ragged, lists.offsets)
    return width, sound, rows_of.offsets[lists.offsets], rows_of.elements, None
