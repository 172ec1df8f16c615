"""JSON-shaped datums as objects of the official SDK, where it takes them without changing them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from provenance import SchemaError


@functools.cache
def sdk() -> Any:
    """The SDK takes seconds to import."""
    from tinker import types

    return types


def sdk_datum(datum: Mapping[str, Any], labels: tuple[str, ...]) -> Any:
    """The datum as the SDK holds it.

    Raises:
        SchemaError: the SDK refuses it, or would hold something else.
    """
    fields = {name: value for name, value in datum.items() if name not in labels and value is not None}
    try:
        chunks = [sdk_chunk(chunk) for chunk in fields.pop("model_input")["chunks"]]
        inputs = {name: sdk_tensor(tensor) for name, tensor in fields.pop("loss_fn_inputs").items() if tensor}
        spans = {side: [sdk_span(span) for span in value] for side, value in fields.items()}
        return sdk().Datum(model_input=sdk().ModelInput(chunks=chunks), loss_fn_inputs=inputs, **spans)
    except (AssertionError, AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SchemaError(f"refused by the SDK: {error}") from error


def sdk_chunk(chunk: Mapping[str, Any]) -> Any:
    kinds = {
        "encoded_text": sdk().EncodedTextChunk,
        "image": sdk().ImageChunk,
        "image_asset_pointer": sdk().ImageAssetPointerChunk,
        "dmel": sdk().DmelChunk,
    }
    if "tokens" in chunk and any(isinstance(token, bool) for token in chunk["tokens"]):
        raise ValueError("True becomes 1")
    return kinds[chunk["type"]](**chunk)


def sdk_tensor(tensor: Mapping[str, Any]) -> Any:
    flat = tensor["data"]
    nested = bool(flat) and isinstance(flat[0], list)
    if nested and tensor.get("shape") is None:
        raise ValueError("the shape of nested lists is lost")
    while flat and isinstance(flat[0], list):
        flat = list(chain.from_iterable(flat))
    with np.errstate(over="ignore"):
        made = sdk().TensorData(**tensor)
    if not all(map(same, flat, made.data)):
        raise ValueError(f"{flat} becomes {made.data}")
    return made


def same(given: Any, kept: float) -> bool:
    if given is None or isinstance(given, (bool, str)):
        return False
    with np.errstate(over="ignore"):
        return given == kept or np.float32(given) == kept or (math.isnan(given) and math.isnan(kept))


def sdk_span(span: Mapping[str, Any]) -> Any:
    kinds = {"prompt": sdk().PromptProvenanceSpan, "sampled": sdk().SampledProvenanceSpan}
    fields = dict(span)
    kind = kinds[fields.pop("type")]
    if any(isinstance(value, bool) for value in fields.values()):
        raise ValueError("True is an int")
    return kind(**{name: value for name, value in fields.items() if value is not None})
