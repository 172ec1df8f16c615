"""Plain datums in the shape of JSON whose numbers are arrays: taken as they are, without a look at each.

What is not plain is left to the exact reading of ``_datums``; what is taken here must mean the same there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import TARGETS, TEXT
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.formats._datums import SPAN_KINDS, row_of
from provenance.formats._numbers import INT64_MAX, INT64_MIN, pack
from provenance.formats._problem import RecordError, is_unicode
from provenance.formats._tensors import DTYPES, dense_shape

_Fields = Mapping[str, Any]


class _NotPlain(Exception):  # noqa: N818 - never an error: the datum is read in another way
    pass


def row_of_arrays(fields: _Fields) -> Row | list[RecordError]:
    """Read a datum; what is wrong with it instead where it cannot be read."""
    try:
        return _row(fields)
    except (_NotPlain, AttributeError, KeyError, TypeError, struct.error):
        return row_of(fields)


def _row(fields: _Fields) -> Row:
    texts = [_ids(chunk) for chunk in fields["model_input"]["chunks"]]
    tokens = b"".join(texts)
    return Row(
        positions=len(tokens) // 8,
        tokens=tokens,
        chunks=[(TEXT, len(ids) // 8) for ids in texts],
        inputs={name: _tensor(name, tensor) for name, tensor in fields["loss_fn_inputs"].items()},
        input_spans=_spans(fields.get("model_input_spans")),
        target_spans=_spans(fields.get("loss_fn_input_spans")),
    )


def _ids(chunk: _Fields) -> bytes:
    """Ids as int64."""
    if chunk["type"] != "encoded_text" or len(chunk) != 2:
        raise _NotPlain
    tokens = chunk["tokens"]
    if isinstance(tokens, np.ndarray):
        if tokens.dtype != np.int32 or tokens.ndim != 1:
            raise _NotPlain
        return tokens.astype(np.int64).tobytes()
    return pack("q", tokens)


def _tensor(name: str, tensor: _Fields) -> RowTensor:
    values, shape = tensor["data"], tensor["shape"]
    sparse = tensor.get("sparse_crow_indices") is not None or tensor.get("sparse_col_indices") is not None
    if sparse or not name or type(name) is not str or not is_unicode(name) or values.ndim != 1:
        raise _NotPlain
    if values.dtype != (np.int64 if name == TARGETS else np.float32):
        raise _NotPlain
    count, declared = len(values), DTYPES[tensor["dtype"]]
    if shape is None or shape == [count]:
        return RowTensor(declared, 1, count, 1, True, count, values.tobytes())
    if not all(type(size) is int for size in shape):
        raise _NotPlain
    return RowTensor(declared, *dense_shape(tuple(shape), (count,), count), count, values.tobytes())


def _spans(spans: Any) -> list[RowSpan] | None:
    return None if spans is None else [_span(span) for span in spans]


def _span(span: _Fields) -> RowSpan:
    name, start, length = span["sequence_id"], span["offset"], span["length"]
    if type(start) is not int or type(length) is not int or type(name) is not str or not is_unicode(name):
        raise _NotPlain
    if not INT64_MIN <= start <= INT64_MAX or not INT64_MIN <= length <= INT64_MAX:
        raise _NotPlain
    return RowSpan(SPAN_KINDS[span["type"]], name, start, length)
