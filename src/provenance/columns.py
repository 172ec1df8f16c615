"""A batch of datums as flat numpy arrays with row offsets: what every rule looks at.

A row is a datum. Lists of lists are kept as one flat array and ``offsets`` of shape (rows + 1,), as in
Arrow, so that a reader hands over views of its buffers and a rule is a handful of array operations.
Nothing is judged here: broken data (a null, a wrong length, an unknown dtype) must fit in as it is,
because the rules report on it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

#: The loss input that holds token ids. Its values are kept as int64, those of every other input as float32.
TARGETS: Final = "target_tokens"

#: Codes of ``Tensor.declared``.
INT64, FLOAT32, OTHER_DTYPE = 0, 1, 2
#: Codes of ``Chunks.kind``.
TEXT, IMAGE, IMAGE_POINTER, DMEL = 0, 1, 2, 3
CHUNK_KINDS: Final = ("encoded_text", "image", "image_asset_pointer", "dmel")
#: Codes of ``Spans.kind``.
PROMPT, SAMPLED, OTHER_KIND = 0, 1, 2
#: ``Chunks.length`` of an image that does not say how many tokens it stands for.
UNKNOWN_LENGTH: Final = -1
#: ``Spans.sequence`` of a span without an id.
NO_SEQUENCE: Final = -1


def view(buffer: bytes | bytearray | array[Any], dtype: npt.DTypeLike) -> Array:
    """The elements of a buffer, without a copy."""
    return np.frombuffer(buffer, dtype) if len(buffer) else np.zeros(0, dtype)


def offsets_of(lengths: Ints) -> Ints:
    """Row offsets, shape (n + 1,), of lists of the given lengths, shape (n,)."""
    offsets = np.empty(len(lengths) + 1, np.int64)
    offsets[0] = 0
    np.add.accumulate(lengths, out=offsets[1:])
    return offsets


def lengths_of(offsets: Ints) -> Ints:
    """Lengths, shape (n,), of the lists that lie between offsets, shape (n + 1,)."""
    lengths: Ints = offsets[1:] - offsets[:-1]
    return lengths


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """The integers of all [start, start + length), one range after the other."""
    total = int(lengths.sum())
    if total == 0:
        return np.zeros(0, np.int64)
    before = offsets_of(lengths)[:-1]
    integers: Ints = np.arange(total, dtype=np.int64) + (starts - before).repeat(lengths)
    return integers


def distinct(values: Ints) -> Ints:
    """The distinct values, ascending."""
    # np.unique hashes integers, which for arrays of this size takes longer than sorting them.
    ordered = values.copy()
    ordered.sort()
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def any_in_rows(elements: Mask, offsets: Ints) -> Mask:
    """(n,): some element of the row is True; rows are laid out by ``offsets``."""
    found = np.zeros(len(offsets) - 1, np.bool_)
    chosen = elements.nonzero()[0]
    if len(chosen):
        found[offsets.searchsorted(chosen, "right") - 1] = True
    return found


def sums_of_rows(elements: Ints, offsets: Ints) -> Ints:
    """(n,): sum over each row; rows are laid out by ``offsets``."""
    before = offsets_of(elements)
    sums: Ints = before[offsets[1:]] - before[offsets[:-1]]
    return sums


@dataclass(frozen=True, slots=True)
class Fault:
    """A FMT finding of a reader: ``row`` counts within the batch, None stands for the file as a whole."""

    code: str
    row: int | None
    field: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One loss input of every datum. ``n`` is the number of datums, ``m`` that of stored values."""

    present: Mask
    """(n,): the datum has this input."""
    declared: npt.NDArray[np.uint8]
    """(n,): INT64, FLOAT32 or OTHER_DTYPE."""
    rank: Ints
    """(n,): number of dimensions."""
    rows: Ints
    """(n,): size of the first dimension."""
    width: Ints
    """(n,): product of the other dimensions, 1 for a one-dimensional tensor."""
    sound: Mask
    """(n,): shape and number of values agree."""
    offsets: Ints
    """(n + 1,): where each datum's values start."""
    values: Array
    """(m,): int64 for target_tokens, else float32; whatever a null had is replaced by 0."""
    valid: Mask | None = None
    """(m,): False where the value is null; None when there is no null."""
    coordinates: Ints | None = None
    """(m,): row-major index of each value within its datum's tensor, for sparse tensors; None when dense."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """datum -> why its values are not of the declared dtype (these have failed INP003)."""

    def take(self, rows: Ints) -> Tensor:
        """The given datums' tensors, in the given order."""
        starts, lengths = self.offsets[rows], lengths_of(self.offsets)[rows]
        index = ranges(starts, lengths)
        return Tensor(
            present=self.present[rows],
            declared=self.declared[rows],
            rank=self.rank[rows],
            rows=self.rows[rows],
            width=self.width[rows],
            sound=self.sound[rows],
            offsets=offsets_of(lengths),
            values=self.values[index],
            valid=None if self.valid is None else self.valid[index],
            coordinates=None if self.coordinates is None else self.coordinates[index],
            notes=_renumber(self.notes, rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The chunks of every datum's model input, c in all."""

    offsets: Ints
    """(n + 1,): where each datum's chunks start."""
    kind: npt.NDArray[np.uint8]
    """(c,): TEXT, IMAGE, IMAGE_POINTER or DMEL."""
    length: Ints
    """(c,): positions the chunk takes, UNKNOWN_LENGTH where an image does not say."""

    def take(self, rows: Ints) -> Chunks:
        """The given datums' chunks, in the given order."""
        lengths = lengths_of(self.offsets)[rows]
        index = ranges(self.offsets[rows], lengths)
        return Chunks(offsets_of(lengths), self.kind[index], self.length[index])


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """One span list of every datum, s spans in all."""

    present: Mask
    """(n,): the datum has this list (an empty list is a list)."""
    offsets: Ints
    """(n + 1,): where each datum's spans start."""
    kind: npt.NDArray[np.uint8]
    """(s,): PROMPT, SAMPLED or OTHER_KIND."""
    sequence: Ints
    """(s,): index into ``Columns.ids``, NO_SEQUENCE without an id."""
    start: Ints
    """(s,): the span's ``offset``: a position of the named sequence's prompt or sampled tokens."""
    length: Ints
    """(s,): number of positions."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """span -> why it has no sound value in these arrays (these fail SPN005)."""

    def take(self, rows: Ints) -> Spans:
        """The given datums' spans, in the given order."""
        lengths = lengths_of(self.offsets)[rows]
        index = ranges(self.offsets[rows], lengths)
        return Spans(
            self.present[rows],
            offsets_of(lengths),
            self.kind[index],
            self.sequence[index],
            self.start[index],
            self.length[index],
            _renumber(self.notes, index),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A batch of ``n`` datums with ``p`` positions in all."""

    offsets: Ints
    """(n + 1,): where each datum's positions start. A chunk of unknown length takes none,
    until `engine.room` gives it some."""
    tokens: Array
    """(p,), any integer dtype: token ids, -1 where the position is no text or the id is null."""
    text: Mask | None
    """(p,): the position is text; None when all are."""
    null_tokens: Mask | None
    """(p,): the id is null; None when none is."""
    chunks: Chunks
    inputs: Mapping[str, Tensor]
    input_spans: Spans
    target_spans: Spans
    ids: tuple[str, ...]
    """The distinct sequence ids that the spans name."""
    readable: Mask
    """(n,): the record could be read; what a datum that could not holds in the other arrays is empty."""
    row: Ints
    """(n,): each datum's number in its file or list, from 0."""
    line: Ints | None = None
    """(n,): physical line number, from 1, for files that have lines."""
    file: str | None = None
    faults: tuple[Fault, ...] = ()

    def __len__(self) -> int:
        return len(self.row)

    @property
    def positions(self) -> int:
        """Number of positions, p."""
        return len(self.tokens)

    def spans(self, field: str) -> Spans:
        """The span list named ``model_input_spans`` or ``loss_fn_input_spans``."""
        return self.input_spans if field == "model_input_spans" else self.target_spans

    def take(self, rows: Ints) -> Columns:
        """The given rows, in the given order; faults stay behind."""
        lengths = lengths_of(self.offsets)[rows]
        index = ranges(self.offsets[rows], lengths)
        return replace(
            self,
            offsets=offsets_of(lengths),
            tokens=self.tokens[index],
            text=None if self.text is None else self.text[index],
            null_tokens=None if self.null_tokens is None else self.null_tokens[index],
            chunks=self.chunks.take(rows),
            inputs={name: tensor.take(rows) for name, tensor in self.inputs.items()},
            input_spans=self.input_spans.take(rows),
            target_spans=self.target_spans.take(rows),
            readable=self.readable[rows],
            row=self.row[rows],
            line=None if self.line is None else self.line[rows],
            faults=(),
        )


def _renumber(notes: Mapping[int, str], kept: Ints) -> dict[int, str]:
    if not notes:
        return {}
    return {new: notes[old] for new, old in enumerate(kept.tolist()) if old in notes}
