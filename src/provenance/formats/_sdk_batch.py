"""A batch of plain SDK datums becomes columns at once, field by field: no object a datum, a tensor or a span.

Plain: text, and dense one-dimensional tensors of the usual types, the same in each datum. Any other batch is
read datum by datum; what is taken here must mean the same there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np

from provenance.columns import (
    PROMPT,
    SAMPLED,
    TARGETS,
    Chunks,
    Columns,
    Ints,
    Spans,
    Tensor,
    offsets_of,
    view,
)
from provenance.formats._numbers import pack
from provenance.formats._problem import is_unicode
from provenance.formats._tensors import DTYPES

_KINDS: Final[Mapping[str, int]] = {"PromptProvenanceSpan": PROMPT, "SampledProvenanceSpan": SAMPLED}
_NOT_PLAIN: Final = (AttributeError, KeyError, OverflowError, TypeError, ValueError, struct.error)


# Any: the SDK checks no field of a Datum, so each may be anything; an attribute that is missing is not plain.


def plain_columns(datums: Sequence[Any]) -> Columns | None:
    """The datums as one batch; None where they are not all plain."""
    try:
        return _columns(datums)
    except _NOT_PLAIN:
        return None


def _columns(datums: Sequence[Any]) -> Columns:
    n = len(datums)
    chunks = [datum.model_input.chunks for datum in datums]
    texts = [_tokens(chunk) for chunk in chain.from_iterable(chunks)]
    lengths, of_datum = _lengths(texts), offsets_of(_lengths(chunks))
    names = list(datums[0].loss_fn_inputs)
    if not all(map(_is_text, names)) or not all(names):
        raise ValueError(names)
    if any(len(datum.loss_fn_inputs) != len(names) for datum in datums):
        raise KeyError(names)
    ids: dict[str, int] = {}
    input_spans = _spans([datum.model_input_spans for datum in datums], ids)
    target_spans = _spans([datum.loss_fn_input_spans for datum in datums], ids)
    if not all(map(_is_text, ids)):
        raise ValueError(ids)
    return Columns(
        offsets=offsets_of(lengths)[of_datum],
        tokens=view(bytearray().join([pack("q", tokens) for tokens in texts]), np.int64),
        text=None,
        null_tokens=None,
        chunks=Chunks(offsets=of_datum, kind=np.zeros(len(texts), np.uint8), length=lengths),
        inputs={name: _tensor(name, [datum.loss_fn_inputs[name] for datum in datums]) for name in names},
        input_spans=input_spans,
        target_spans=target_spans,
        ids=tuple(ids),
        readable=np.ones(n, np.bool_),
        row=np.arange(n),
    )


def _is_text(name: object) -> bool:
    return type(name) is str and is_unicode(name)


def _tokens(chunk: Any) -> Any:
    # A subclass may have fields of its own, or other tokens.
    if type(chunk).__name__ != "EncodedTextChunk" or chunk.type != "encoded_text":
        raise ValueError(chunk)
    return chunk.tokens


def _lengths(lists: Sequence[Sequence[Any]]) -> Ints:
    return np.array([len(items) for items in lists], np.int64)


def _tensor(name: str, tensors: Sequence[Any]) -> Tensor:
    arrays = [tensor._numpy for tensor in tensors]
    dtype = np.dtype(np.int64 if name == TARGETS else np.float32)
    for tensor, array in zip(tensors, arrays, strict=True):
        dense = tensor.sparse_crow_indices is None and tensor.sparse_col_indices is None
        flat = array.ndim == 1 and (tensor.shape is None or tensor.shape == [len(array)])
        if not dense or not flat or array.dtype != dtype:
            raise ValueError(name)
    n, rows = len(tensors), _lengths(arrays)
    return Tensor(
        present=np.ones(n, np.bool_),
        declared=np.array([DTYPES[tensor.dtype] for tensor in tensors], np.uint8),
        rank=np.ones(n, np.int64),
        rows=rows,
        width=np.ones(n, np.int64),
        sound=np.ones(n, np.bool_),
        offsets=offsets_of(rows),
        values=np.concatenate(arrays),
    )


def _spans(lists: Sequence[Any], ids: dict[str, int]) -> Spans:
    """A span list of every datum; ``ids`` grows by the ids that are new."""
    spans = list(chain.from_iterable(found for found in lists if found is not None))
    starts, lengths = [span.offset for span in spans], [span.length for span in spans]
    if not all(type(number) is int for number in chain(starts, lengths)):
        raise TypeError(starts)
    return Spans(
        present=np.array([found is not None for found in lists], np.bool_),
        offsets=offsets_of(np.array([len(found) if found else 0 for found in lists], np.int64)),
        kind=np.array([_KINDS[type(span).__name__] for span in spans], np.uint8),
        sequence=np.array([ids.setdefault(span.sequence_id, len(ids)) for span in spans], np.int64),
        start=np.array(starts, np.int64),
        length=np.array(lengths, np.int64),
    )
