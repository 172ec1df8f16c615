"""JSON-shaped datums as they lie in Arrow files, one at a time; what Arrow cannot hold is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from provenance.columns import DMEL, INT64, TARGETS, TEXT, UNKNOWN_LENGTH, Array, Mask
from provenance.formats._arrow_schema import INPUT_SPANS, TARGET_SPANS
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.formats._datums import LABELS, SPAN_KINDS, bytes_of, row_of
from provenance.formats._json import dumps
from provenance.formats._numbers import INT64_MAX, INT64_MIN, Numbers, as_int64, numbers_of
from provenance.formats._plain import plain_dict
from provenance.formats._problem import RecordError, RowError, object_of, shown, text_of

#: Values of a sparse tensor that are still stored densely.
_MOST_DENSE: Final = 2**20


class Span(NamedTuple):
    """A span, with null where the datum has null."""

    type: str | None
    sequence_id: str | None
    offset: int
    length: int | None


class Chunk(NamedTuple):
    """A chunk without its tokens."""

    kind: int
    tokens: int
    """Number of tokens, for text."""
    length: int | None
    data: bytes | None
    format: str | None
    location: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """A loss input of one datum, dense."""

    integer: bool
    width: int | None
    """K of (N, K), None for (N,)."""
    rows: int
    values: Array
    """(rows * K,): int64 where integer; else float32, and float64 for target_tokens."""
    valid: Mask | None


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """One datum. Its size counts numbers, which is what memory goes into."""

    number: int
    tokens: Array
    null_tokens: Mask | None
    chunks: list[Chunk]
    inputs: dict[str, Values]
    spans: dict[str, list[Span | None] | None]
    labels: dict[str, str | int]
    """The fields of `LABELS` that the datum has; metadata and what a check wrote as JSON text."""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the numbers."""
        size = len(self.tokens) + sum(len(tensor.values) for tensor in self.inputs.values())
        object.__setattr__(self, "size", size)

    @property
    def text_only(self) -> bool:
        """One text chunk, which ``model_input_tokens`` can stand for."""
        return len(self.chunks) == 1 and self.chunks[0].kind == TEXT


def encoded(datum: Mapping[str, Any], number: int) -> Encoded:
    """Return row ``number`` in the shape of Arrow files.

    Raises:
        RowError: The datum is malformed, or says what an Arrow file cannot.
    """
    row = (plain_dict(datum) if type(datum) is dict else None) or row_of(datum)
    if not isinstance(row, Row):
        raise RowError(number, row[0].field, row[0].message, row[0].code)
    fields = object_of(datum, "")
    try:
        tokens = np.frombuffer(row.tokens, np.int64)
        null = None if row.null_tokens is None else np.frombuffer(row.null_tokens, np.bool_)
        if row.text is not None:
            text = np.frombuffer(row.text, np.bool_)
            tokens, null = tokens[text], None if null is None else null[text]
        return Encoded(
            number=number,
            tokens=tokens,
            null_tokens=null,
            chunks=_chunks(fields["model_input"], row),
            inputs={
                name: _values(name, tensor, object_of(fields["loss_fn_inputs"], "")[name])
                for name, tensor in row.inputs.items()
            },
            spans={
                INPUT_SPANS: _spans(fields, INPUT_SPANS, row.input_spans),
                TARGET_SPANS: _spans(fields, TARGET_SPANS, row.target_spans),
            },
            labels=_labels(fields),
        )
    except RecordError as error:
        raise RowError(number, error.field, error.message) from None


def _labels(fields: Mapping[str, Any]) -> dict[str, str | int]:
    labels: dict[str, str | int] = {}
    for name in LABELS:
        value = fields.get(name)
        if value is None:
            continue
        if name not in ("datum_id", "group_id"):
            labels[name] = _json_text(name, value)
        elif isinstance(value, str):
            labels[name] = text_of(value, name)
        elif INT64_MIN <= value <= INT64_MAX:
            labels[name] = int(value)
        else:
            raise RecordError(name, f"{shown(value)} is beyond int64")
    return labels


def _json_text(name: str, value: object) -> str:
    try:
        return dumps(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(name, f"cannot be written as JSON, {error}") from None


# Chunks


def _chunks(model_input: object, row: Row) -> list[Chunk]:
    given = object_of(model_input, "")["chunks"]
    return [_chunk(kind, length, chunk) for (kind, length), chunk in zip(row.chunks, given, strict=True)]


def _chunk(kind: int, length: int, chunk: object) -> Chunk:
    if kind == TEXT:
        return Chunk(kind, length, None, None, None, None)
    fields = object_of(chunk, "")
    data = fields.get("dmel" if kind == DMEL else "data")
    return Chunk(
        kind=kind,
        tokens=0,
        length=None if length == UNKNOWN_LENGTH else length,
        data=None if data is None else bytes_of(data, ""),
        format=fields.get("format"),
        location=fields.get("location"),
    )


# Loss inputs


def _values(name: str, tensor: RowTensor, given: object) -> Values:
    path = f"loss_fn_inputs.{name}"
    if tensor.note is not None:
        raise RecordError(path, f"{tensor.note}, an Arrow file holds int64 and float32")
    if not tensor.sound:
        raise RecordError(path, "shape and number of values do not agree")
    if tensor.rank not in (1, 2) or tensor.width < 1:
        raise RecordError(
            path, f"{tensor.rank} dimensions, rows of {tensor.width}: an Arrow file holds (N,) and (N, K)"
        )
    integer = tensor.declared == INT64
    values = np.frombuffer(tensor.values, np.int64 if name == TARGETS else np.float32)
    if integer != (name == TARGETS):
        # The row has rounded what it holds to the dtype that rules look at.
        numbers = numbers_of(object_of(given, path)["data"], path)
        values = _int64(numbers, path) if integer else _float64(numbers)
    valid = None if tensor.valid is None else np.frombuffer(tensor.valid, np.bool_)
    if tensor.coordinates is not None:
        size = tensor.rows * tensor.width
        if size > _MOST_DENSE:
            raise RecordError(path, f"sparse, and dense it would have {size} values, more than {_MOST_DENSE}")
        at = np.frombuffer(tensor.coordinates, np.int64)
        values = _dense(values, at, size)
        if valid is not None:
            valid = ~_dense(~valid, at, size)
    return Values(integer, tensor.width if tensor.rank == 2 else None, tensor.rows, values, valid)


def _int64(numbers: Numbers, path: str) -> Array:
    packed = as_int64(numbers)
    i = packed.changed
    if i is not None:  # NaN or an infinity, which the row holds as what it is
        raise RecordError(path, f"data[{i}] is {numbers.flat[i]}, an Arrow file holds int64 and float32")
    return np.frombuffer(packed.data, np.int64)


def _float64(numbers: Numbers) -> Array:
    if isinstance(numbers.flat, np.ndarray):
        return numbers.flat.astype(np.float64)
    try:
        return np.array([0.0 if value is None else value for value in numbers.flat], np.float64)
    except OverflowError:
        raise RecordError(f"loss_fn_inputs.{TARGETS}", "an integer beyond float64") from None


def _dense(values: Array, at: Array, size: int) -> Array:
    dense = np.zeros(size, values.dtype)
    dense[at] = values
    return dense


# Spans


def _spans(fields: Mapping[str, Any], name: str, spans: list[RowSpan] | None) -> list[Span | None] | None:
    if spans is None:
        return None
    return [
        _span(span, given, f"{name}[{i}]")
        for i, (span, given) in enumerate(zip(spans, fields[name], strict=True))
    ]


def _span(span: RowSpan, given: object, path: str) -> Span | None:
    if given is None:
        return None
    fields = object_of(given, path)
    kind, length = fields.get("type"), fields.get("length")
    written = Span(
        type=kind if isinstance(kind, str) else None,
        sequence_id=span.sequence_id,
        offset=span.start,
        length=None if length is None else span.length,
    )
    # Nulls and unknown types survive; what would be read as something else than it was does not.
    if span.note != _note_when_read(written):
        raise RecordError(path, f"{span.note}, which an Arrow file cannot hold")
    return written


def _note_when_read(span: Span) -> str | None:
    notes = []
    if span.type not in SPAN_KINDS:
        notes.append(f"type is {shown(span.type)}")
    if span.sequence_id is None:
        notes.append("sequence_id is null")
    if span.length is None:
        notes.append("length is null")
    return ", ".join(notes) or None
