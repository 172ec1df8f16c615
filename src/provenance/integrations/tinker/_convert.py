"""The SDK's objects become ours and ours the SDK's.

Images and audio are shared both ways, and so are tokens and logprobs of a sequence that goes to the SDK.
Tensors are copied once each way: the SDK copies what is read-only, and a frozen model cannot share memory
that others write to. Token ids of text are lists in the SDK, so they are converted one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, overload

from provenance import models
from provenance.errors import SchemaError
from provenance.formats._sdk import chunk_fields, fields_of, span_fields, tensor_fields
from provenance.integrations.tinker._version import VERSION, types
from provenance.models._base import Model, shorten

__all__ = ["from_tinker", "to_tinker"]


@overload
def to_tinker(ours: models.Datum) -> types.Datum: ...
@overload
def to_tinker(ours: models.ModelInput) -> types.ModelInput: ...
@overload
def to_tinker(ours: models.TensorData) -> types.TensorData: ...
@overload
def to_tinker(ours: models.PromptProvenanceSpan) -> types.PromptProvenanceSpan: ...
@overload
def to_tinker(ours: models.SampledProvenanceSpan) -> types.SampledProvenanceSpan: ...
@overload
def to_tinker(ours: models.EncodedTextChunk) -> types.EncodedTextChunk: ...
@overload
def to_tinker(ours: models.ImageChunk) -> types.ImageChunk: ...
@overload
def to_tinker(ours: models.ImageAssetPointerChunk) -> types.ImageAssetPointerChunk: ...
@overload
def to_tinker(ours: models.DmelChunk) -> types.DmelChunk: ...
@overload
def to_tinker(ours: models.SampledSequence) -> types.SampledSequence: ...
def to_tinker(ours: Any) -> Any:
    """Return the SDK's object for one of ours.

    A `SampledSequence` keeps its id, tokens, logprobs and stop reason; the SDK's has no place for the rest.

    Raises:
        SchemaError: the installed SDK refuses it (before 0.35 a span of length 0), or it is nothing of ours.
    """
    known = next((base for base in type(ours).__mro__ if base in _TO), None)
    if known is None:
        raise SchemaError(f"{shorten(ours)} has no counterpart in the SDK, expected a model of provenance")
    kind, fields_to = _TO[known]
    fields = fields_to(ours)
    try:
        return kind(**fields)
    except (AssertionError, TypeError, ValueError) as error:
        raise SchemaError(f"tinker {VERSION} refuses it: {error}") from error


@overload
def from_tinker(theirs: types.Datum) -> models.Datum: ...
@overload
def from_tinker(theirs: types.ModelInput) -> models.ModelInput: ...
@overload
def from_tinker(theirs: types.TensorData) -> models.TensorData: ...
@overload
def from_tinker(theirs: types.PromptProvenanceSpan) -> models.PromptProvenanceSpan: ...
@overload
def from_tinker(theirs: types.SampledProvenanceSpan) -> models.SampledProvenanceSpan: ...
@overload
def from_tinker(theirs: types.EncodedTextChunk) -> models.EncodedTextChunk: ...
@overload
def from_tinker(theirs: types.ImageChunk) -> models.ImageChunk: ...
@overload
def from_tinker(theirs: types.ImageAssetPointerChunk) -> models.ImageAssetPointerChunk: ...
@overload
def from_tinker(theirs: types.DmelChunk) -> models.DmelChunk: ...
@overload
def from_tinker(theirs: types.SampledSequence, **known: Any) -> models.SampledSequence: ...
def from_tinker(theirs: Any, **known: Any) -> Any:
    """Return our model for an object of the SDK, which is checked like any other.

    Args:
        theirs: a Datum, ModelInput, chunk, TensorData, provenance span or SampledSequence.
        known: what a `types.SampledSequence` does not say and a record must: session_id, prompt_tokens,
            sampled_at, record_stability_info, and what else `SampledSequence` has. A `Recorder` knows it all.

    Raises:
        SchemaError: naming field, value and rule; a NaN may be a None that the SDK was given.
    """
    base = next((base for base in type(theirs).__mro__ if base in _FROM), None)
    if base is None:
        raise SchemaError(f"{shorten(theirs)} has no counterpart here, expected one of the SDK's types")
    model, fields_from = _FROM[base]
    return model.model_validate(known | fields_from(theirs))


def _chunks_to(ours: models.ModelInput) -> dict[str, Any]:
    return {"chunks": [to_tinker(chunk) for chunk in ours.chunks]}


def _tensor_to(ours: models.TensorData) -> dict[str, Any]:
    crow, col = ours.sparse_crow_indices, ours.sparse_col_indices
    return {
        "data": ours.data,
        "dtype": ours.dtype,
        "shape": list(ours.shape),
        "sparse_crow_indices": None if crow is None else crow.tolist(),
        "sparse_col_indices": None if col is None else col.tolist(),
    }


def _span_to(ours: models.PromptProvenanceSpan | models.SampledProvenanceSpan) -> dict[str, Any]:
    return {"sequence_id": ours.sequence_id, "offset": ours.offset, "length": ours.length}


def _datum_to(ours: models.Datum) -> dict[str, Any]:
    sides = {name: getattr(ours, name) for name in ("model_input_spans", "loss_fn_input_spans")}
    return {
        "model_input": to_tinker(ours.model_input),
        "loss_fn_inputs": {name: to_tinker(tensor) for name, tensor in ours.loss_fn_inputs.items()},
        **{name: None if side is None else [to_tinker(s) for s in side] for name, side in sides.items()},
    }


def _sequence_to(ours: models.SampledSequence) -> dict[str, Any]:
    if ours.stop_reason not in ("stop", "length"):
        raise SchemaError(f"stop_reason: {ours.stop_reason!r}, where the SDK knows 'stop' and 'length' only")
    return {
        "sequence_id": ours.sequence_id,
        "stop_reason": ours.stop_reason,
        "tokens_np": ours.tokens,
        "logprobs_np": ours.logprobs,
    }


def _text_to(ours: models.EncodedTextChunk) -> dict[str, Any]:
    return {"tokens": ours.tokens.tolist()}


def _sequence_from(theirs: types.SampledSequence) -> dict[str, Any]:
    if theirs.logprobs is None:
        raise SchemaError(
            f"sequence {theirs.sequence_id!r} came back without logprobs, which no training request can do "
            "without: ask the sampler for them"
        )
    return {
        "sequence_id": theirs.sequence_id,
        "stop_reason": theirs.stop_reason,
        "tokens": theirs.tokens if theirs.tokens_np is None else theirs.tokens_np,
        "logprobs": theirs.logprobs if theirs.logprobs_np is None else theirs.logprobs_np,
    }


def _same(either: Any) -> dict[str, Any]:
    return dict(vars(either))


_Fields = Callable[[Any], dict[str, Any]]
#: Our model -> the SDK's class and its arguments.
_TO: Final[Mapping[type, tuple[Callable[..., Any], _Fields]]] = {
    models.Datum: (types.Datum, _datum_to),
    models.ModelInput: (types.ModelInput, _chunks_to),
    models.TensorData: (types.TensorData, _tensor_to),
    models.PromptProvenanceSpan: (types.PromptProvenanceSpan, _span_to),
    models.SampledProvenanceSpan: (types.SampledProvenanceSpan, _span_to),
    models.EncodedTextChunk: (types.EncodedTextChunk, _text_to),
    models.ImageChunk: (types.ImageChunk, _same),
    models.ImageAssetPointerChunk: (types.ImageAssetPointerChunk, _same),
    models.DmelChunk: (types.DmelChunk, _same),
    models.SampledSequence: (types.SampledSequence, _sequence_to),
}
#: The SDK's class -> our model and its fields.
_FROM: Final[Mapping[type, tuple[type[Model], _Fields]]] = {
    types.Datum: (models.Datum, fields_of),
    types.ModelInput: (models.ModelInput, chunk_fields),
    types.TensorData: (models.TensorData, tensor_fields),
    types.PromptProvenanceSpan: (models.PromptProvenanceSpan, span_fields),
    types.SampledProvenanceSpan: (models.SampledProvenanceSpan, span_fields),
    types.EncodedTextChunk: (models.EncodedTextChunk, _same),
    types.ImageChunk: (models.ImageChunk, _same),
    types.ImageAssetPointerChunk: (models.ImageAssetPointerChunk, _same),
    types.DmelChunk: (models.DmelChunk, _same),
    types.SampledSequence: (models.SampledSequence, _sequence_from),
}
