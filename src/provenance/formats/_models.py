"""Datums that are models: construction has checked them, so that their arrays are taken as they are."""

from __future__ import annotations

from typing import Final

import numpy as np

from provenance.columns import FLOAT32, INT64, PROMPT, SAMPLED, TARGETS, TEXT
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.models import Datum, EncodedTextChunk, PromptProvenanceSpan, TensorData
from provenance.models.spans import ProvenanceSpan

_DECLARED: Final = {"int64": INT64, "float32": FLOAT32}


def plain_row(datum: Datum) -> Row | None:
    """A datum of text and dense tensors; None where it holds anything else."""
    chunks = datum.model_input.chunks
    if not all(type(chunk) is EncodedTextChunk for chunk in chunks):
        return None
    inputs: dict[str, RowTensor] = {}
    for name, tensor in datum.loss_fn_inputs.items():
        found = _plain_tensor(name, tensor)
        if found is None:
            return None
        inputs[name] = found
    tokens = [chunk.tokens for chunk in chunks if isinstance(chunk, EncodedTextChunk)]
    return Row(
        positions=sum(map(len, tokens)),
        tokens=b"".join(ids.astype(np.int64).tobytes() for ids in tokens),
        chunks=[(TEXT, len(ids)) for ids in tokens],
        inputs=inputs,
        input_spans=_spans(datum.model_input_spans),
        target_spans=_spans(datum.loss_fn_input_spans),
    )


def _plain_tensor(name: str, tensor: TensorData) -> RowTensor | None:
    values, shape = tensor.data, tensor.shape
    integers = name == TARGETS
    if tensor.sparse_crow_indices is not None or not shape or integers != (values.dtype == np.int64):
        return None
    width = 1
    for size in shape[1:]:
        width *= size
    return RowTensor(
        _DECLARED[tensor.dtype], len(shape), shape[0], width, True, values.size, values.tobytes()
    )


def _spans(spans: tuple[ProvenanceSpan, ...] | None) -> list[RowSpan] | None:
    if spans is None:
        return None
    return [
        RowSpan(
            PROMPT if type(span) is PromptProvenanceSpan else SAMPLED,
            span.sequence_id,
            span.offset,
            span.length,
        )
        for span in spans
    ]
