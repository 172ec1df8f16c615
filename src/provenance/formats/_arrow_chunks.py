"""The model input of an Arrow batch: lists of tokens, or lists of chunks, as positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from provenance.columns import (
    CHUNK_KINDS,
    DMEL,
    IMAGE,
    IMAGE_POINTER,
    TEXT,
    UNKNOWN_LENGTH,
    Array,
    Chunks,
    Fault,
    Ints,
    Mask,
    offsets_of,
    ranges,
)
from provenance.formats._arrow_arrays import (
    NULL_TEXT,
    Lists,
    field_of,
    integers,
    lists_of,
    numbers,
    texts,
    validity,
)
from provenance.formats._arrow_schema import INPUT, INPUT_TOKENS
from provenance.formats._datums import MAX_UNWRITTEN
from provenance.models.chunks import tensor_length

_FORMATS: Final = ("png", "jpeg")
_UNKNOWN_KIND: Final = 255
_INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The model input of n datums: the fields of that name of `Columns`."""

    offsets: Ints
    tokens: Array
    text: Mask | None
    null_tokens: Mask | None
    chunks: Chunks
    readable: Mask
    faults: tuple[Fault, ...] = ()


def positions_of_tokens(array: Any) -> Positions:
    """Read ``model_input_tokens``: a text chunk a datum."""
    lists = lists_of(array)
    tokens, null = _tokens(lists.elements)
    rows = np.flatnonzero(lists.present)
    return Positions(
        offsets=lists.offsets,
        tokens=tokens,
        text=None,
        null_tokens=null,
        chunks=Chunks(
            offsets_of(lists.present.astype(np.int64)),
            np.full(len(rows), TEXT, np.uint8),
            lists.lengths[rows],
        ),
        readable=lists.present,
        faults=tuple(_null_rows(lists, INPUT_TOKENS)),
    )


def positions_of_chunks(array: Any) -> Positions:
    """Read ``model_input``. A datum with an unreadable chunk is a fault, and empty."""
    lists = lists_of(array)
    raw = _RawChunks(lists)
    faults = list(_null_rows(lists, INPUT))
    problems = raw.problems()
    if problems:
        for datum, (chunk, field, reason) in problems.items():
            path = f"{INPUT}.chunks[{chunk - int(lists.offsets[datum])}]"
            faults.append(Fault("FMT004", datum, f"{path}.{field}" if field else path, reason))
        readable = lists.present.copy()
        readable[list(problems)] = False
        raw = _RawChunks(lists_of(array, readable))
    return _laid_out(raw, tuple(sorted(faults, key=lambda fault: fault.row or 0)))


def _null_rows(lists: Lists, field: str) -> Iterator[Fault]:
    for row in np.flatnonzero(~lists.present).tolist():
        yield Fault("FMT004", row, field, "null")


def _tokens(array: Any) -> tuple[Array, Mask | None]:
    """Token ids, -1 for a null, and where the nulls are."""
    tokens, valid = numbers(array)
    if tokens.dtype.kind == "u":  # has no -1
        tokens, valid = integers(array)
    return (tokens, None) if valid is None else (np.where(valid, tokens, -1), ~valid)


class _RawChunks:
    """The chunks of a batch as its Arrow struct has them, c in all."""

    def __init__(self, lists: Lists) -> None:
        self.lists = lists
        self.struct = struct = lists.elements
        self.exists = validity(struct)
        self.types = texts(field_of(struct, "type"), self.exists)
        kinds = [
            CHUNK_KINDS.index(word) if word in CHUNK_KINDS else _UNKNOWN_KIND for word in self.types.values
        ]
        self.kind = np.array([*kinds, _UNKNOWN_KIND], np.uint8)[self.types.codes]
        self.is_text = self.kind == TEXT
        # What chunks of another kind hold there is no part of the input.
        self.tokens = lists_of(field_of(struct, "tokens"), self.is_text)
        self.stated, stated = integers(field_of(struct, "length"))
        self.states = np.ones(len(struct), np.bool_) if stated is None else stated

    @cached_property
    def length(self) -> Ints:
        """(c,): positions each chunk takes, UNKNOWN_LENGTH where it does not say."""
        if self.is_text.all():
            return self.tokens.lengths
        length = np.where(
            self.is_text, self.tokens.lengths, np.where(self.states, self.stated, UNKNOWN_LENGTH)
        )
        data = field_of(self.struct, "data")
        for chunk in np.flatnonzero((self.kind == DMEL) & ~self.states).tolist():
            stated = tensor_length(data[chunk].as_py() or b"")
            length[chunk] = UNKNOWN_LENGTH if stated is None else min(stated, _INT32_MAX)
        return length

    def problems(self) -> dict[int, tuple[int, str, str]]:
        """Datum -> chunk, field and reason why it cannot be read: of the first chunk the first."""
        found: dict[int, tuple[int, str, str]] = {}
        for field, failing, reason in self._checks():
            chunks = np.flatnonzero(failing)
            datums = np.searchsorted(self.lists.offsets, chunks, "right") - 1
            for datum, chunk in zip(datums.tolist(), chunks.tolist(), strict=True):
                if datum not in found or chunk < found[datum][0]:
                    found[datum] = chunk, field, reason if isinstance(reason, str) else reason(chunk)
        return found

    def _checks(self) -> Iterator[tuple[str, Mask, str | Callable[[int], str]]]:
        kind, length, is_text = self.kind, self.length, self.is_text
        if self.exists is not None:
            yield "", ~self.exists, "null is not an object"
        yield "type", self.types.codes == NULL_TEXT, "null"
        unknown = (kind == _UNKNOWN_KIND) & (self.types.codes != NULL_TEXT)
        yield "type", unknown, lambda chunk: f"{self.types.word(chunk)!r} is not a type of chunk"
        yield "tokens", is_text & ~self.tokens.present, "null"
        contradicted = is_text & self.states & (self.stated != length)
        yield (
            "length",
            contradicted,
            lambda chunk: f"{self.stated[chunk]}, but there are {length[chunk]} tokens",
        )
        if is_text.all():
            return
        data, location = field_of(self.struct, "data"), field_of(self.struct, "location")
        yield "data", ((kind == IMAGE) | (kind == DMEL)) & _nulls(data), "null"
        yield "location", (kind == IMAGE_POINTER) & _nulls(location), "null"
        formats = texts(field_of(self.struct, "format"))
        allowed = np.array([*(word in _FORMATS for word in formats.values), False])
        wrong = ((kind == IMAGE) | (kind == IMAGE_POINTER)) & ~allowed[formats.codes]
        yield "format", wrong, lambda chunk: _wrong_format(formats.word(chunk))
        out_of_range = ~is_text & self.states & ((self.stated < 0) | (self.stated > _INT32_MAX))
        yield "length", out_of_range, lambda chunk: f"{self.stated[chunk]} is not an integer in [0, 2^31)"
        headless = (kind == DMEL) & (length == UNKNOWN_LENGTH)
        yield "data", headless, "no tensor header, so the length is unknown"
        unwritten = np.where(is_text, 0, np.clip(length, 0, _INT32_MAX))
        before = offsets_of(unwritten)
        first = np.repeat(before[self.lists.offsets[:-1]], self.lists.lengths)
        yield (
            "",
            ~is_text & (before[1:] - first > MAX_UNWRITTEN),
            lambda chunk: (
                f"{length[chunk]} positions, "
                f"more than the {MAX_UNWRITTEN} that one datum may have without tokens"
            ),
        )


def _wrong_format(word: str | None) -> str:
    return "null" if word is None else f"{word!r} is neither 'png' nor 'jpeg'"


def _nulls(array: Any) -> Mask:
    valid = validity(array)
    return np.zeros(len(array), np.bool_) if valid is None else ~valid


def _laid_out(raw: _RawChunks, faults: tuple[Fault, ...]) -> Positions:
    """Place the tokens of text chunks among the positions of the others."""
    tokens, null = _tokens(raw.tokens.elements)
    before = offsets_of(np.maximum(raw.length, 0))
    text: Mask | None = None
    if len(tokens) < before[-1]:
        where = ranges(before[:-1], raw.tokens.lengths)
        text = np.zeros(int(before[-1]), np.bool_)
        text[where] = True
        tokens, written = np.full(len(text), -1, tokens.dtype), tokens
        tokens[where] = written
        if null is not None:
            null, written = np.zeros(len(text), np.bool_), null
            null[where] = written
    return Positions(
        offsets=before[raw.lists.offsets],
        tokens=tokens,
        text=text,
        null_tokens=null,
        chunks=Chunks(raw.lists.offsets, raw.kind, raw.length),
        readable=raw.lists.present,
        faults=faults,
    )
