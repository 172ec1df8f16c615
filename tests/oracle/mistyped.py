"""FMT004: fields that are missing, unknown, or of a wrong type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oracle.world import SPAN_LISTS, is_integer, is_number

#: Lengths of chunks are int32.
MOST_POSITIONS = 2**31 - 1
DATUM_FIELDS = (
    "model_input",
    "loss_fn_inputs",
    *SPAN_LISTS,
    "datum_id",
    "group_id",
    "metadata",
    "provenance",
)
CHUNK_FIELDS = {
    "encoded_text": ("type", "tokens"),
    "image": ("type", "data", "format", "expected_tokens"),
    "image_asset_pointer": ("type", "location", "format", "expected_tokens"),
}
TENSOR_FIELDS = ("data", "dtype", "shape", "sparse_crow_indices", "sparse_col_indices")
SPAN_FIELDS = ("type", "sequence_id", "offset", "length")


def is_there(tensor: Any) -> bool:
    """A null list is a missing input, also where it stands as the data of a tensor."""
    return tensor is not None and not (
        isinstance(tensor, dict) and "data" in tensor and tensor["data"] is None
    )


def mistyped(datum: Any) -> Iterator[str | None]:
    """The paths of fields that are missing, unknown or of a wrong type."""
    if not isinstance(datum, dict):
        yield None
        return
    if any(key not in DATUM_FIELDS for key in datum):
        yield None
    for key in ("datum_id", "group_id"):
        if datum.get(key) is not None and not isinstance(datum[key], str):
            yield key
    yield from _mistyped_input(datum.get("model_input"))
    inputs = datum.get("loss_fn_inputs")
    if not isinstance(inputs, dict):
        yield "loss_fn_inputs"
    else:
        for name, tensor in inputs.items():
            if is_there(tensor):
                yield from _mistyped_tensor(f"loss_fn_inputs.{name}", tensor)
    for name in SPAN_LISTS:
        spans = datum.get(name)
        if spans is None:
            continue
        if not isinstance(spans, list):
            yield name
            continue
        for i, span in enumerate(spans):
            if span is not None and (
                not isinstance(span, dict) or any(key not in SPAN_FIELDS for key in span)
            ):
                yield f"{name}[{i}]"


def _mistyped_input(model_input: Any) -> Iterator[str]:
    if not isinstance(model_input, dict):
        yield "model_input"
        return
    if any(key != "chunks" for key in model_input):
        yield "model_input"
    if not isinstance(model_input.get("chunks"), list):
        yield "model_input.chunks"
        return
    for i, chunk in enumerate(model_input["chunks"]):
        path = f"model_input.chunks[{i}]"
        if not isinstance(chunk, dict):
            yield path
            continue
        kind = chunk.get("type")
        if not isinstance(kind, str) or kind not in CHUNK_FIELDS:
            yield f"{path}.type"
            continue
        if any(key not in CHUNK_FIELDS[kind] for key in chunk):
            yield path
        if kind == "encoded_text":
            if not isinstance(chunk.get("tokens"), list):
                yield f"{path}.tokens"
                continue
            for j, token in enumerate(chunk["tokens"]):
                # A whole number written as a float is that integer, for the official client too.
                if token is not None and not (
                    is_integer(token) or (isinstance(token, float) and token.is_integer())
                ):
                    yield f"{path}.tokens[{j}]"
            continue
        held = "data" if kind == "image" else "location"
        if not isinstance(chunk.get(held), str):
            yield f"{path}.{held}"
        if chunk.get("format") not in ("png", "jpeg"):
            yield f"{path}.format"
        expected = chunk.get("expected_tokens")
        if expected is not None and not (is_integer(expected) and 0 <= expected <= MOST_POSITIONS):
            yield f"{path}.expected_tokens"


def _mistyped_tensor(path: str, tensor: Any) -> Iterator[str]:
    if not isinstance(tensor, dict):
        yield path
        return
    if any(key not in TENSOR_FIELDS for key in tensor):
        yield path
    if not isinstance(tensor.get("dtype"), str):
        yield f"{path}.dtype"
    if not isinstance(tensor.get("data"), list):
        yield f"{path}.data"
    else:
        for i, value in enumerate(tensor["data"]):
            if value is not None and not is_number(value):
                yield f"{path}.data[{i}]"
    for key in TENSOR_FIELDS[2:]:
        numbers = tensor.get(key)
        if numbers is None:
            continue
        if not isinstance(numbers, list):
            yield f"{path}.{key}"
        else:
            yield from (f"{path}.{key}[{i}]" for i, n in enumerate(numbers) if not is_integer(n))
