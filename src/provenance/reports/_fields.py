"""What stands at the positions of one datum, as text: elements of fields, spans and chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from provenance.columns import (
    CHUNK_KINDS,
    NO_SEQUENCE,
    PROMPT,
    SAMPLED,
    TARGETS,
    UNKNOWN_LENGTH,
    Columns,
    Tensor,
)
from provenance.reports._lanes import Stretch
from provenance.reports.text import Role, count, escape

INPUT: Final = "model_input"
#: The span list that tiles a field.
SPANS: Final = {INPUT: "model_input_spans", TARGETS: "loss_fn_input_spans"}
_KINDS: Final[dict[int, tuple[str, Role]]] = {PROMPT: ("prompt", "prompt"), SAMPLED: ("sampled", "sampled")}
#: Characters kept of either end of a long id.
_ID_END: Final = 7


@dataclass(frozen=True, slots=True)
class Field:
    """A field with a value for each of some positions."""

    name: str
    first: int
    """Position of its first element."""
    size: int
    cell: Callable[[int], str]
    """The text of an element."""


def chunks_of(columns: Columns) -> list[tuple[str, int]]:
    """Kind and length of each chunk."""
    chunks = columns.chunks
    return [(CHUNK_KINDS[k], n) for k, n in zip(chunks.kind.tolist(), chunks.length.tolist(), strict=True)]


def chunk_bands(columns: Columns) -> Iterator[Stretch]:
    start = 0
    room = columns.positions - int(columns.chunks.length.clip(0).sum())  # of the first of unknown length
    for kind, length in chunks_of(columns):
        stop = start + length
        if length == UNKNOWN_LENGTH:
            stop, room = start + room, 0
        yield Stretch(start, stop, kind.removeprefix("encoded_"), None, "band")
        start = stop


def span_bands(columns: Columns, name: str) -> Iterator[Stretch]:
    spans = columns.spans(name)
    start = 0 if name == SPANS[INPUT] else 1
    for i in range(len(spans.kind)):
        kind, offset, length = int(spans.kind[i]), int(spans.start[i]), int(spans.length[i])
        word, role = _KINDS.get(kind, ("unknown kind", None))
        stop = start + max(length, 0)
        sequence = int(spans.sequence[i])
        named = "no id" if sequence == NO_SEQUENCE else _short(columns.ids[sequence])
        yield Stretch(start, stop, f"{word}[{offset}:{offset + length}] {named}", role, "band")
        start = stop


def _short(sequence_id: str) -> str:
    text = ascii(sequence_id)
    if len(text) <= 2 * _ID_END + 2:
        return text
    return f"{text[:_ID_END]}..{text[-_ID_END:]}"


def input_field(columns: Columns) -> Field:
    def cell(i: int) -> str:
        if columns.null_tokens is not None and columns.null_tokens[i]:
            return "null"
        return "." if columns.text is not None and not columns.text[i] else str(columns.tokens[i])

    return Field(INPUT, 0, columns.positions, cell)


def tensor_field(name: str, tensor: Tensor) -> Field:
    """Its rows, or its values where the shape makes no sense or is a single number."""
    rows, width = int(tensor.rows[0]), int(tensor.width[0])
    if not tensor.sound[0] or tensor.rank[0] == 0 or (tensor.rank[0] == 1 and tensor.coordinates is None):
        return Field(name, 1, len(tensor.values), lambda i: _value(tensor, i))
    if tensor.coordinates is None:
        more = f" +{width - 1}" if width > 1 else ""
        return Field(name, 1, rows, lambda i: _value(tensor, i * width) + more if width else "-")

    places = tensor.coordinates

    def stored(i: int) -> str:
        first, last = np.searchsorted(places, [i * width, (i + 1) * width]).tolist()
        more = f" +{last - first - 1}" if last - first > 1 else ""
        return _value(tensor, first) + more if last > first else "-"

    return Field(name, 1, rows, stored)


def _value(tensor: Tensor, i: int) -> str:
    if tensor.valid is not None and not tensor.valid[i]:
        return "null"
    value = tensor.values[i]
    return str(value) if tensor.values.dtype.kind == "i" else f"{value:.4g}"


def tensor_notes(field: Field, tensor: Tensor) -> Iterator[str]:
    name = escape(field.name)
    rank, rows, width = int(tensor.rank[0]), int(tensor.rows[0]), int(tensor.width[0])
    if not tensor.sound[0]:
        values = count(len(tensor.values), "value")
        yield f"{name}: its shape does not fit its {values}, which are shown in order"
    elif rank > 1:
        what = "stored value" if tensor.coordinates is not None else "value"
        yield f"{name}: {count(rows, 'row')} of {count(width, 'value')}; shown is the first {what}, +n more"
    elif rank == 0:
        yield f"{name}: a single number"
