"""Rows become Columns: they are collected as they are, and turned into columns once a batch."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from provenance.columns import (
    FLOAT32,
    INT64,
    NO_SEQUENCE,
    TARGETS,
    Array,
    Chunks,
    Columns,
    Fault,
    Ints,
    Mask,
    Spans,
    Tensor,
    offsets_of,
    view,
)
from provenance.formats._problem import RecordError


class RowTensor(NamedTuple):
    """One loss input of one datum; fields as in ``columns.Tensor``. ``size`` counts stored values."""

    declared: int
    rank: int
    rows: int
    width: int
    sound: bool
    size: int
    values: bytes
    """int64 for target_tokens, else float32."""
    valid: bytes | None = None
    coordinates: bytes | None = None
    """int64."""
    note: str | None = None


class RowSpan(NamedTuple):
    """One span; fields as in ``columns.Spans``, but for the id itself."""

    kind: int
    sequence_id: str | None
    start: int
    length: int
    note: str | None = None


@dataclass(slots=True)
class Row:
    """One datum, ready to be appended. Masks have one byte a position."""

    positions: int
    tokens: bytes
    """int64."""
    chunks: list[tuple[int, int]]
    """Kind and length of each."""
    inputs: dict[str, RowTensor]
    input_spans: list[RowSpan] | None
    target_spans: list[RowSpan] | None
    text: bytes | None = None
    """None where all positions are."""
    null_tokens: bytes | None = None
    """None where no id is."""


_UNREADABLE: Final = Row(0, b"", [], {}, None, None)


class ColumnsBuilder:
    """Collects the rows of one batch."""

    def __init__(self, *, file: str | None = None, first_row: int = 0, lines: bool = False) -> None:
        self.positions = 0
        self.stored = 0
        """Number of tokens and values, which is what memory goes into."""
        self.first_row = first_row
        self._file = file
        self._rows: list[Row] = []
        self._lines: list[int | None] | None = [] if lines else None
        self._faults: list[Fault] = []

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return len(self._rows)

    def append(self, row: Row, line: int | None = None) -> None:
        """Add a datum that was read."""
        self._rows.append(row)
        if self._lines is not None:
            self._lines.append(line)
        self.positions += row.positions
        self.stored += row.positions
        for tensor in row.inputs.values():
            self.stored += tensor.size

    def append_unreadable(self, errors: Iterable[RecordError], line: int | None = None) -> None:
        """Add a placeholder for a datum that was not."""
        for error in errors:
            self._faults.append(Fault(error.code, len(self._rows), error.field, error.message, line))
        self.append(_UNREADABLE, line)

    def finish(self) -> Columns:
        """The batch."""
        rows, n = self._rows, len(self._rows)
        offsets = offsets_of(_ints([row.positions for row in rows]))
        kinds = _ints(chain.from_iterable(row.chunks for row in rows), 2)
        ids: dict[str, int] = {}
        return Columns(
            offsets=offsets,
            tokens=_joined((row.tokens for row in rows), np.int64),
            text=_mask(True, offsets, {i: row.text for i, row in enumerate(rows) if row.text}),
            null_tokens=_mask(
                False, offsets, {i: r.null_tokens for i, r in enumerate(rows) if r.null_tokens}
            ),
            chunks=Chunks(
                offsets=offsets_of(_ints([len(row.chunks) for row in rows])),
                kind=kinds[:, 0].astype(np.uint8),
                length=kinds[:, 1].copy(),
            ),
            inputs={name: _tensor(name, found, n) for name, found in _by_name(rows).items()},
            input_spans=_spans([row.input_spans for row in rows], ids),
            target_spans=_spans([row.target_spans for row in rows], ids),
            ids=tuple(ids),
            readable=np.array([row is not _UNREADABLE for row in rows], np.bool_),
            row=np.arange(self.first_row, self.first_row + n),
            line=None if self._lines is None else np.array(self._lines, np.int64),
            file=self._file,
            faults=tuple(self._faults),
        )


def _by_name(rows: list[Row]) -> dict[str, dict[int, RowTensor]]:
    """The loss inputs by name and row."""
    found: dict[str, dict[int, RowTensor]] = {}
    for i, row in enumerate(rows):
        for name, tensor in row.inputs.items():
            if name not in found:
                found[name] = {}
            found[name][i] = tensor
    return found


def _tensor(name: str, tensors: Mapping[int, RowTensor], n: int) -> Tensor:
    dtype, declared = (np.int64, INT64) if name == TARGETS else (np.float32, FLOAT32)
    # A datum without the input: what it would be declared, one-dimensional and empty.
    shape = np.tile(np.array([declared, 1, 0, 1, 1, 0], np.int64), (n, 1))
    present = np.zeros(n, np.bool_)
    if len(tensors) == n:
        present[:] = True
        shape = _ints((tensor[:6] for tensor in tensors.values()), 6)
    else:
        present[list(tensors)] = True
        shape[present] = _ints((tensor[:6] for tensor in tensors.values()), 6)
    offsets = offsets_of(shape[:, 5])
    return Tensor(
        present=present,
        declared=shape[:, 0].astype(np.uint8),
        rank=shape[:, 1].copy(),
        rows=shape[:, 2].copy(),
        width=shape[:, 3].copy(),
        sound=shape[:, 4].astype(np.bool_),
        offsets=offsets,
        values=_joined((tensor.values for tensor in tensors.values()), dtype),
        valid=_mask(True, offsets, {i: t.valid for i, t in tensors.items() if t.valid is not None}),
        coordinates=_coordinates(
            offsets, {i: t.coordinates for i, t in tensors.items() if t.coordinates is not None}
        ),
        notes={i: tensor.note for i, tensor in tensors.items() if tensor.note is not None},
    )


def _spans(lists: Sequence[list[RowSpan] | None], ids: dict[str, int]) -> Spans:
    """A span list of every datum; ``ids`` grows by the ids that are new."""
    spans = list(chain.from_iterable(found for found in lists if found))
    named = (NO_SEQUENCE if s.sequence_id is None else ids.setdefault(s.sequence_id, len(ids)) for s in spans)
    return Spans(
        present=np.array([found is not None for found in lists], np.bool_),
        offsets=offsets_of(_ints([len(found) if found else 0 for found in lists])),
        kind=np.array([span.kind for span in spans], np.uint8),
        sequence=np.array(list(named), np.int64),
        start=np.array([span.start for span in spans], np.int64),
        length=np.array([span.length for span in spans], np.int64),
        notes={i: span.note for i, span in enumerate(spans) if span.note is not None},
    )


def _joined(parts: Iterable[bytes], dtype: Any) -> Array:
    return view(bytearray().join(parts), dtype)


def _ints(values: Iterable[Any], width: int = 1) -> Ints:
    """Integers as an array of shape (n,); tuples of them as one of shape (n, width)."""
    if width == 1:
        return np.array(values, np.int64)
    return view(array("q", chain.from_iterable(values)), np.int64).reshape(-1, width)


def _mask(default: bool, offsets: Ints, rows: Mapping[int, bytes]) -> Mask | None:
    """A mask of the default, but for some rows; None where there are none such."""
    return _overlaid(np.full(int(offsets[-1]), default), offsets, rows) if rows else None


def _coordinates(offsets: Ints, rows: Mapping[int, bytes]) -> Ints | None:
    """The coordinates of sparse rows among those of dense ones; None where there is no sparse row."""
    if not rows:
        return None
    dense = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], np.diff(offsets))
    return _overlaid(dense, offsets, rows)


def _overlaid(values: Array, offsets: Ints, rows: Mapping[int, bytes]) -> Array:
    for row, data in rows.items():
        values[offsets[row] : offsets[row + 1]] = np.frombuffer(data, values.dtype)
    return values
