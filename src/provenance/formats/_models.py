"""Datums that are models: construction has checked them, so that their arrays are taken as they are.

A batch of plain ones (text, and dense tensors of the usual types, the same in each) becomes columns at once;
in any other batch each plain one becomes a row. What is taken here must mean the same in ``_datums``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Final

import numpy as np

from provenance.columns import (
    FLOAT32,
    INT64,
    PROMPT,
    SAMPLED,
    TARGETS,
    TEXT,
    Array,
    Chunks,
    Columns,
    Ints,
    Mask,
    Spans,
    Tensor,
    offsets_of,
)
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.models import (
    Datum,
    EncodedTextChunk,
    SampledProvenanceSpan,
    TensorData,
)
from provenance.models.spans import ProvenanceSpan

_DECLARED: Final = {"int64": INT64, "float32": FLOAT32}


def plain_columns(datums: Sequence[Datum]) -> Columns | None:
    """The datums, at least one, as one batch; None where they are not all plain."""
    names = datums[0].loss_fn_inputs.keys()
    if not all(datum.loss_fn_inputs.keys() == names and _is_plain(datum) for datum in datums):
        return None
    all_there = np.ones(len(datums), np.bool_)
    texts = [tokens for datum in datums for tokens in _texts(datum)]
    ids: dict[str, int] = {}
    lengths = _sizes(texts)
    of_datum = offsets_of(_sizes([datum.model_input.chunks for datum in datums]))
    return Columns(
        offsets=offsets_of(lengths)[of_datum],
        tokens=_joined(texts) if texts else np.zeros(0, np.int32),
        text=None,
        null_tokens=None,
        chunks=Chunks(offsets=of_datum, kind=np.zeros(len(texts), np.uint8), length=lengths),
        inputs={name: _tensor([datum.loss_fn_inputs[name] for datum in datums], all_there) for name in names},
        input_spans=_spans([datum.model_input_spans for datum in datums], ids),
        target_spans=_spans([datum.loss_fn_input_spans for datum in datums], ids),
        ids=tuple(ids),
        readable=all_there,
        row=np.arange(len(datums)),
    )


def plain_row(datum: Datum) -> Row | None:
    """A plain datum; None where it is not."""
    if not _is_plain(datum):
        return None
    texts = _texts(datum)
    return Row(
        positions=sum(map(len, texts)),
        tokens=b"".join(ids.astype(np.int64).tobytes() for ids in texts),
        chunks=[(TEXT, len(ids)) for ids in texts],
        inputs={name: _row_tensor(tensor) for name, tensor in datum.loss_fn_inputs.items()},
        input_spans=_row_spans(datum.model_input_spans),
        target_spans=_row_spans(datum.loss_fn_input_spans),
    )


def _is_plain(datum: Datum) -> bool:
    for chunk in datum.model_input.chunks:
        if type(chunk) is not EncodedTextChunk:
            return False
    for name, tensor in datum.loss_fn_inputs.items():
        if tensor.sparse_crow_indices is not None or not tensor.shape:
            return False
        if (tensor.dtype == "int64") != (name == TARGETS):
            return False
    return True


def _texts(datum: Datum) -> list[Array]:
    return [chunk.tokens for chunk in datum.model_input.chunks if isinstance(chunk, EncodedTextChunk)]


def _row_tensor(tensor: TensorData) -> RowTensor:
    values, shape = tensor.data, tensor.shape
    declared = _DECLARED[tensor.dtype]
    return RowTensor(declared, len(shape), shape[0], prod(shape[1:]), True, values.size, values.tobytes())


def _row_spans(spans: tuple[ProvenanceSpan, ...] | None) -> list[RowSpan] | None:
    if spans is None:
        return None
    return [RowSpan(_kind(span), span.sequence_id, span.offset, span.length) for span in spans]


def _kind(span: ProvenanceSpan) -> int:
    return SAMPLED if isinstance(span, SampledProvenanceSpan) else PROMPT


def _tensor(tensors: Sequence[TensorData], all_there: Mask) -> Tensor:
    shapes = [tensor.shape for tensor in tensors]
    values = [tensor.data for tensor in tensors]
    rows = np.array([shape[0] for shape in shapes], np.int64)
    flat = all(len(shape) == 1 for shape in shapes)
    width = np.ones_like(rows) if flat else np.array([prod(shape[1:]) for shape in shapes], np.int64)
    return Tensor(
        present=all_there,
        declared=np.array([_DECLARED[tensor.dtype] for tensor in tensors], np.uint8),
        rank=width if flat else _sizes(shapes),
        rows=rows,
        width=width,
        sound=all_there,
        offsets=offsets_of(rows * width),
        values=_joined(values if flat else [array.ravel() for array in values]),
    )


def _spans(lists: Sequence[tuple[ProvenanceSpan, ...] | None], ids: dict[str, int]) -> Spans:
    """A span list of every datum; ``ids`` grows by the ids that are new."""
    spans = list(chain.from_iterable(found for found in lists if found))
    return Spans(
        present=np.array([found is not None for found in lists], np.bool_),
        offsets=offsets_of(np.array([len(found) if found else 0 for found in lists], np.int64)),
        kind=np.array([_kind(span) for span in spans], np.uint8),
        sequence=np.array([ids.setdefault(span.sequence_id, len(ids)) for span in spans], np.int64),
        start=np.array([span.offset for span in spans], np.int64),
        length=np.array([span.length for span in spans], np.int64),
    )


def _sizes(lists: Sequence[Sequence[object] | Array]) -> Ints:
    return np.array([len(items) for items in lists], np.int64)


def _joined(arrays: Sequence[Array]) -> Array:
    """The arrays one after the other; a single one as it is, since models' arrays are read-only."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
