"""A JSON-shaped datum, as a dict or as a model, becomes a row: the meaning of a datum is defined here.

The fast path in ``_plain`` takes what is plain; whatever it does not take comes here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from provenance.columns import (
    DMEL,
    IMAGE,
    IMAGE_POINTER,
    OTHER_KIND,
    PROMPT,
    SAMPLED,
    TEXT,
    UNKNOWN_LENGTH,
)
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.formats._numbers import INT64_MAX, INT64_MIN, as_int64, numbers_of
from provenance.formats._problem import (
    RecordError,
    is_unicode,
    join,
    object_of,
    refuse_unknown,
    required,
    shown,
    text_of,
)
from provenance.formats._tensors import tensor_of
from provenance.models.chunks import tensor_length

#: Fields that are not trained on: the caller's own, and what a check wrote beside a bad datum.
LABELS: Final = ("datum_id", "group_id", "metadata", "provenance")
#: The fields of a datum.
FIELDS: Final = (
    "model_input",
    "loss_fn_inputs",
    "model_input_spans",
    "loss_fn_input_spans",
    *LABELS,
)
SPAN_KINDS: Final[Mapping[str, int]] = {"prompt": PROMPT, "sampled": SAMPLED}
#: Positions of one datum that no token stands behind. A few bytes can state any number of them.
MAX_UNWRITTEN: Final = 1 << 22
_INT32_MAX: Final = 2**31 - 1
_SHOWN: Final = 5
_SPAN_FIELDS: Final = ("type", "sequence_id", "offset", "length")


def row_of(datum: object) -> Row | list[RecordError]:
    """Read a datum; what is wrong with it instead where it cannot be read, at most five errors."""
    try:
        fields = object_of(datum, "")
    except RecordError:
        return [RecordError("", f"{shown(datum)} is not a datum")]
    errors: list[RecordError] = []

    def attempt(read: Callable[..., Any], *arguments: object) -> Any:
        try:
            return read(*arguments)
        except RecordError as error:
            errors.append(error)
            return None

    if "prompt_tokens" in fields and "model_input" not in fields:
        return [RecordError("", "a sampled sequence, expected a datum: is this the ledger's file?")]
    attempt(refuse_unknown, fields, FIELDS, "")
    attempt(_check_labels, fields)
    row: Row | None = attempt(_model_input, fields)
    inputs: dict[str, RowTensor] = {}
    for name, value in (attempt(_loss_inputs, fields) or {}).items():
        tensor = attempt(_named_tensor, name, value)
        if tensor is not None:
            inputs[name] = tensor
    input_spans = attempt(_spans, fields, "model_input_spans")
    target_spans = attempt(_spans, fields, "loss_fn_input_spans")
    if errors or row is None:
        return errors[:_SHOWN]
    row.inputs, row.input_spans, row.target_spans = inputs, input_spans, target_spans
    return row


def _check_labels(fields: Mapping[str, Any]) -> None:
    name, group = fields.get("datum_id"), fields.get("group_id")
    if name is not None and not isinstance(name, str):
        raise RecordError("datum_id", f"{shown(name)} is not a string")
    if isinstance(group, bool) or not isinstance(group, (str, int, np.integer, type(None))):
        raise RecordError("group_id", f"{shown(group)} is neither a string nor an integer")


def _loss_inputs(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(required(fields, "loss_fn_inputs", ""), "loss_fn_inputs")


def _named_tensor(name: object, value: object) -> RowTensor | None:
    if not isinstance(name, str) or not name or not is_unicode(name):
        raise RecordError("loss_fn_inputs", f"{shown(name)} is not the name of a loss input")
    return tensor_of(name, value, f"loss_fn_inputs.{name}")


# The model input


def _model_input(fields: Mapping[str, Any]) -> Row:
    model_input = object_of(required(fields, "model_input", ""), "model_input")
    refuse_unknown(model_input, ("chunks",), "model_input")
    chunks = required(model_input, "chunks", "model_input")
    if not isinstance(chunks, (list, tuple)):
        raise RecordError("model_input.chunks", f"{shown(chunks)} is not a list")
    row = Row(0, b"", [], {}, None, None)
    text, null = bytearray(), bytearray()
    tokens = bytearray()
    unwritten = 0
    for i, chunk in enumerate(chunks):
        path = f"model_input.chunks[{i}]"
        kind, length, written, nulls = _chunk(object_of(chunk, path), path)
        if kind != TEXT:
            unwritten += max(length, 0)
            if unwritten > MAX_UNWRITTEN:
                raise RecordError(path, f"{shown(length)} positions without tokens, at most {MAX_UNWRITTEN}")
            written = b"\xff" * (8 * max(length, 0))  # -1, eight bytes each
        count = len(written) // 8
        row.chunks.append((kind, length))
        tokens += written
        text += bytes([kind == TEXT]) * count
        null += nulls if nulls is not None else bytes(count)
    row.tokens, row.positions = bytes(tokens), len(text)
    row.text = bytes(text) if unwritten else None
    row.null_tokens = bytes(null) if any(null) else None
    return row


def _chunk(fields: Mapping[str, Any], path: str) -> tuple[int, int, bytes, bytes | None]:
    """Kind, length, and for text the ids as int64 and which of them are null."""
    kind = required(fields, "type", path)
    if not isinstance(kind, str):
        raise RecordError(join(path, "type"), f"{shown(kind)} is not a type of chunk")
    if kind == "encoded_text":
        refuse_unknown(fields, ("type", "tokens"), path)
        data, null = _tokens(required(fields, "tokens", path), join(path, "tokens"))
        return TEXT, len(data) // 8, data, null
    if kind == "image":
        refuse_unknown(fields, ("type", "data", "format", "expected_tokens"), path)
        bytes_of(required(fields, "data", path), join(path, "data"))
        return IMAGE, _image_length(fields, path), b"", None
    if kind == "image_asset_pointer":
        refuse_unknown(fields, ("type", "location", "format", "expected_tokens"), path)
        text_of(required(fields, "location", path), join(path, "location"))
        return IMAGE_POINTER, _image_length(fields, path), b"", None
    if kind == "dmel":
        refuse_unknown(fields, ("type", "dmel"), path)
        length = tensor_length(bytes_of(required(fields, "dmel", path), join(path, "dmel")))
        if length is None:
            raise RecordError(join(path, "dmel"), "no tensor header, so the length is unknown")
        return DMEL, length, b"", None
    raise RecordError(join(path, "type"), f"{shown(kind)} is not a type of chunk")


def _tokens(value: object, path: str) -> tuple[bytes, bytes | None]:
    numbers = numbers_of(value, path)
    if numbers.shape is None or len(numbers.shape) != 1:
        raise RecordError(path, "nested lists, expected a list of integers")
    packed = as_int64(numbers)
    if packed.inexact is not None:
        value = numbers.flat[packed.inexact]
        raise RecordError(f"{path}[{packed.inexact}]", f"{shown(value)} is not an integer")
    if packed.valid is None:
        return packed.data, None
    ids, valid = np.frombuffer(packed.data, np.int64), np.frombuffer(packed.valid, np.bool_)
    return np.where(valid, ids, -1).tobytes(), (~valid).tobytes()


def _image_length(fields: Mapping[str, Any], path: str) -> int:
    form = required(fields, "format", path)
    if not isinstance(form, str) or form not in ("png", "jpeg"):
        raise RecordError(join(path, "format"), f"{shown(form)} is neither 'png' nor 'jpeg'")
    expected = fields.get("expected_tokens")
    if expected is None:
        return UNKNOWN_LENGTH
    whole = isinstance(expected, (int, np.integer)) and not isinstance(expected, bool)
    if not whole or not 0 <= expected <= _INT32_MAX:
        raise RecordError(join(path, "expected_tokens"), f"{shown(expected)} is not an integer in [0, 2^31)")
    return int(expected)


def bytes_of(value: object, path: str) -> bytes:
    """The bytes, or those that base64 text stands for."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise RecordError(path, f"{shown(value)} is not base64 text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise RecordError(path, f"{shown(value)} is not base64") from None


# Spans


def _spans(fields: Mapping[str, Any], name: str) -> list[RowSpan] | None:
    spans = fields.get(name)
    if spans is None:
        return None
    if not isinstance(spans, (list, tuple)):
        raise RecordError(name, f"{shown(spans)} is not a list")
    return [_span(span, f"{name}[{i}]") for i, span in enumerate(spans)]


def _span(value: object, path: str) -> RowSpan:
    """Read a span; what makes no sense in it is a note, because SPN005 reports it."""
    if value is None:
        return RowSpan(OTHER_KIND, None, 0, 0, "the span is null")
    fields = object_of(value, path)
    refuse_unknown(fields, _SPAN_FIELDS, path)
    notes: list[str] = []
    given = fields.get("type")
    kind = SPAN_KINDS.get(given, OTHER_KIND) if isinstance(given, str) else OTHER_KIND
    if kind == OTHER_KIND:
        notes.append(_absent(fields, "type") or f"type is {shown(given)}")
    name = fields.get("sequence_id")
    if not isinstance(name, str) or not is_unicode(name):
        notes.append(_absent(fields, "sequence_id") or f"sequence_id is {shown(name)}")
        name = None
    start = 0 if fields.get("offset") is None else _count(fields, "offset", notes)
    length = _count(fields, "length", notes)
    return RowSpan(kind, name, start, length, ", ".join(notes) or None)


def _absent(fields: Mapping[str, Any], name: str) -> str | None:
    if fields.get(name) is not None:
        return None
    return f"{name} is null" if name in fields else f"{name} is missing"


def _count(fields: Mapping[str, Any], name: str, notes: list[str]) -> int:
    value = fields.get(name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and INT64_MIN <= value <= INT64_MAX:  # type: ignore[operator]
        return int(value)  # type: ignore[arg-type]
    notes.append(_absent(fields, name) or f"{name} is {shown(value)}")
    return 0
