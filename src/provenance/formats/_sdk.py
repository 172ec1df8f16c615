"""Datums of the official SDK in the shape of JSON. It is not imported: whoever holds one has done that.

Source: `tinker.types.Datum` and what it holds, the same in 0.27 to 0.38. A tensor is what its public fields
say, data flat beside a shape, since that is what the SDK sends.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_SPANS: Final = {"PromptProvenanceSpan": "prompt", "SampledProvenanceSpan": "sampled"}


def is_sdk_datum(datum: object) -> bool:
    """Whether the object is a `tinker.Datum`."""
    types = sys.modules.get("tinker.types")
    return types is not None and isinstance(datum, types.Datum)


# Any: the SDK checks no field of a Datum, so each may be anything. What it is then is told by who reads it.


def fields_of(datum: Any) -> dict[str, Any]:
    """The datum in the shape of JSON, with its arrays as they are."""
    return {
        "model_input": chunk_fields(datum.model_input),
        "loss_fn_inputs": {name: tensor_fields(tensor) for name, tensor in datum.loss_fn_inputs.items()},
        "model_input_spans": _spans(datum.model_input_spans),
        "loss_fn_input_spans": _spans(datum.loss_fn_input_spans),
    }


def chunk_fields(model_input: Any) -> Any:
    """A `tinker.ModelInput` in the shape of JSON; what is none, as it is."""
    chunks = getattr(model_input, "chunks", None)
    if not isinstance(chunks, (list, tuple)):
        return model_input
    return {"chunks": [getattr(chunk, "__dict__", chunk) for chunk in chunks]}


def tensor_fields(tensor: Any) -> Any:
    """A `tinker.TensorData` in the shape of JSON; what is none, as it is."""
    values = getattr(tensor, "_numpy", None)
    if values is None:
        return tensor
    return {
        "data": values.ravel(),  # the SDK's own `data` is this as a list
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "sparse_crow_indices": tensor.sparse_crow_indices,
        "sparse_col_indices": tensor.sparse_col_indices,
    }


def span_fields(span: Any) -> Any:
    """An SDK span in the shape of JSON; what is none, as it is."""
    kind = next((_SPANS[base.__name__] for base in type(span).__mro__ if base.__name__ in _SPANS), None)
    return span if kind is None else {"type": kind, **vars(span)}


def _spans(spans: Any) -> Any:
    return [span_fields(span) for span in spans] if isinstance(spans, (list, tuple)) else spans
