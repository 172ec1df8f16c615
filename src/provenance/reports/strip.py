"""One datum as a strip of text: tokens in columns, under the spans that claim them, faults marked below.

A column is a position of the full sequence: input i stands at position i, target i and everything that
belongs to it at position i + 1. So in a sound datum equal tokens stand above each other. Broken data are
shown as far as they go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import attrgetter
from typing import Final

from provenance.columns import CHUNK_KINDS, TARGETS, TEXT, UNKNOWN_LENGTH, Columns
from provenance.engine.evaluate import GLOBAL_LEVELS
from provenance.errors import SchemaError
from provenance.report import Severity, Violation
from provenance.reports._fields import (
    INPUT,
    SPANS,
    Field,
    chunk_bands,
    chunks_of,
    input_field,
    span_bands,
    tensor_field,
    tensor_notes,
)
from provenance.reports._lanes import Lane, Slot, Stretch, cells, layout, slots_near, slots_of
from provenance.reports.text import Paint, Role, count, escape, plain, wrap
from provenance.rules import registry
from provenance.rules._sides import side_of

__all__ = ["Strip", "datum_to_text", "line_to_text", "strip_of"]

_LABELS: Final = {INPUT: "input", TARGETS: "target"}
_FIRST: Final = (TARGETS, "logprobs", "advantages", "weights")
_NARROWEST, _WIDEST = 40, 200
#: Characters of a label.
_LABEL: Final = 20
#: Characters shown of either end of a line that could not be read: it may be cut, or end in a comma.
_HEAD, _TAIL = 240, 120
#: Positions shown of a span list that goes on where its field has ended.
_OVERHANG: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One datum in lanes over its positions, before any layout. All its text is escaped."""

    title: str
    """Where the datum is, and its size."""
    notes: tuple[str, ...]
    """What lanes cannot show, a sentence each."""
    extent: int
    """Positions of the datum, so that 0 to ``extent - 1`` are all; 0 where it could not be read."""
    slots: tuple[Slot, ...]
    """The columns: positions that are shown, and stretches of those that are only counted."""
    lanes: tuple[Lane, ...]
    """From top to bottom. Lanes of values have the shown positions only, the others all they know."""

    @property
    def hidden(self) -> int:
        """Positions that are only counted."""
        return sum(stop - start for start, stop in self.slots if stop > start + 1)


def strip_of(
    columns: Columns,
    violations: Iterable[Violation] = (),
    *,
    positions: slice | None = None,
    whole: bool = False,
) -> Strip:
    """The strip of one datum.

    Args:
        columns: the datum, a batch of one, such as ``find_datum`` gives.
        violations: what to mark in it; those of other datums are left out.
        positions: the positions to show. By default a long datum is shown at its faults and at the edges of
            its spans.
        whole: show every position.

    Raises:
        SchemaError: ``columns`` holds no datum, or several; or the datum has none of the positions.
    """
    if len(columns) != 1:
        raise SchemaError(f"{len(columns)} datums, expected one")
    if not columns.readable[0]:
        return Strip(title=_title(columns), notes=(), extent=0, slots=(), lanes=())
    known = _Known(columns, violations)
    slots = known.slots(positions, whole)
    return Strip(
        title=_title(columns),
        notes=tuple(known.notes()),
        extent=known.extent,
        slots=tuple(slots),
        lanes=tuple(known.lanes(slots)),
    )


def datum_to_text(
    columns: Columns,
    violations: Iterable[Violation] = (),
    *,
    width: int = 80,
    paint: Paint = plain,
    positions: slice | None = None,
    whole: bool = False,
) -> str:
    """The strip of one datum as text, without a last newline.

    The other arguments, and the errors, are those of ``strip_of``.

    Args:
        columns: the datum, a batch of one.
        violations: what to mark in it.
        width: columns of the terminal, held to 40..200.
        paint: colours a piece of text.
        positions: the positions to show.
        whole: show every position.
    """
    strip = strip_of(columns, violations, positions=positions, whole=whole)
    width = min(max(width, _NARROWEST), _WIDEST)
    title = [paint(line, "title") for line in wrap(strip.title, width, hang=0)]
    if not strip.slots:
        return "\n".join(title)
    notes = list(strip.notes)
    if strip.hidden:
        extent = count(strip.extent, "column")
        notes.append(f"{strip.hidden:,} of {extent} are not shown (--positions, --all)")
    lines = [line for note in notes for line in wrap(note, width, indent=2)]
    return "\n".join([*title, *lines, "", *layout(strip.lanes, strip.slots, width, paint)])


def line_to_text(line: bytes, *, width: int = 80) -> str:
    """The start and the end of a line that could not be read, without a last newline."""
    text = line.decode("utf-8", "backslashreplace")
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} ... {len(text) - _HEAD - _TAIL:,} characters more ... {text[-_TAIL:]}"
    text = escape(text)
    room = min(max(width, _NARROWEST), _WIDEST) - 2
    return "\n".join(f"  {text[start : start + room]}".rstrip() for start in range(0, len(text), room))


def _title(columns: Columns) -> str:
    place = [escape(columns.file)] if columns.file else []
    row = f"row {columns.row[0]}"
    place.append(row if columns.line is None else f"line {columns.line[0]} ({row})")
    if not columns.readable[0]:
        return ": ".join([*place, "cannot be read"])
    spans = len(columns.input_spans.kind) + len(columns.target_spans.kind)
    inputs = sum(bool(tensor.present[0]) for tensor in columns.inputs.values())
    sizes = [count(columns.positions, "position"), count(spans, "span"), count(inputs, "loss input")]
    return ": ".join([*place, ", ".join(sizes)])


class _Known:
    """What is known of a datum, by field and position."""

    def __init__(self, columns: Columns, violations: Iterable[Violation]) -> None:
        self._columns = columns
        here = [v for v in violations if _is_of(v, columns)]
        self._chunks = list(chunk_bands(columns))
        self._spans = {name: list(span_bands(columns, name)) for name in SPANS.values()}
        present = {name: tensor for name, tensor in columns.inputs.items() if tensor.present[0]}
        order = [*(name for name in _FIRST if name in present), *(n for n in present if n not in _FIRST)]
        self._fields = [input_field(columns), *(tensor_field(name, present[name]) for name in order)]
        self._missing = sorted(
            {v.location.field or "" for v in here if registry()[v.code].at == "datum"}
            - {field.name for field in self._fields}
            - set(SPANS.values())
        )
        ends = max(field.first + field.size for field in self._fields)
        reach = max((band.stop for bands in self._spans.values() for band in bands), default=0)
        self.extent = max(ends, min(reach, ends + _OVERHANG), 1)
        self._marks: dict[str, dict[str, list[Stretch]]] = {}
        for violation in here:
            of_field = self._marks.setdefault(violation.location.field or "", {})
            of_field.setdefault(violation.code, []).append(self._mark(violation))
        for of_field in self._marks.values():
            for marks in of_field.values():
                marks.sort(key=lambda mark: (mark.start, mark.stop))

    def _mark(self, violation: Violation) -> Stretch:
        """Where a violation is; a note where it is about a whole field."""
        at, level = violation.location, registry()[violation.code].at
        role: Role = "error" if violation.severity == Severity.ERROR else "warning"
        index, field = at.index, at.field or ""
        if index is None:
            return Stretch(0, 0, violation.name, role, "note")
        if isinstance(index, tuple):
            # A run of elements may go on in the rows that follow.
            width = max(int(self._columns.inputs[field].width[0]), 1)
            start, stop = index[0], index[0] + (index[1] + (at.length or 1) - 1) // width + 1
        elif level == "chunk":
            return replace(self._chunks[index], text="", role=role, shape="mark")
        elif level in ("span", "sequence") and field in self._spans:
            return replace(self._spans[field][index], text="", role=role, shape="mark")
        else:
            start, stop = index, index + (at.length or 1)
        first = 0 if side_of(field) == "input" else 1
        return Stretch(first + start, first + stop, "", role, "mark")

    def slots(self, positions: slice | None, whole: bool) -> list[Slot]:
        """The positions to show: the given ones, all, or those near faults and edges of spans."""
        if positions is not None:
            if not (chosen := range(self.extent)[positions]):
                raise SchemaError(f"none of these positions: the datum has 0 to {self.extent - 1}")
            return slots_of(chosen)
        if whole:
            return slots_of(range(self.extent))
        marks = [m for of_field in self._marks.values() for m in of_field.values()]
        faults = [_edges(mark for mark in of_rule if mark.shape == "mark") for of_rule in marks]
        bands = [self._chunks, *self._spans.values()]
        # Of each in turn, so that a rule that is broken everywhere leaves room for the others.
        points = zip_longest(*faults, [0, self.extent], *map(_edges, bands))
        return slots_near((p for turn in points for p in turn if p is not None), self.extent)

    def notes(self) -> Iterator[str]:
        """What lanes cannot show."""
        for number, (kind, length) in enumerate(chunks_of(self._columns)):
            if length == UNKNOWN_LENGTH:
                room = self._chunks[number].stop - self._chunks[number].start
                left = f"the {count(room, 'position')} that the loss inputs leave" if room else "no position"
                yield f"chunk {number} is an {kind} of unknown length: it takes {left} here"
        for field in self._fields[1:]:
            yield from tensor_notes(field, self._columns.inputs[field.name])

    def lanes(self, slots: Sequence[Slot]) -> Iterator[Lane]:
        """All lanes, from top to bottom."""
        shown = list(cells(slots))
        counts = [Stretch(a, b, str(a) if b == a + 1 else f"+{b - a:,} more", "hint") for a, b in slots]
        yield Lane("position", "position", counts)
        if any(kind != CHUNK_KINDS[TEXT] for kind, _ in chunks_of(self._columns)) or len(self._chunks) > 1:
            yield Lane("chunks", "chunks", self._chunks, INPUT)
        for number, field in enumerate(self._fields):
            if number == 1:
                yield Lane("index", "index", [Stretch(p, p + 1, str(p - 1), "hint") for p in shown if p])
            yield from self._lanes_of(field, shown, slots)
        for name in self._missing:
            yield Lane("values", _label(name), [_note("missing", slots)], name)
            yield from self._mark_lanes(name, slots)

    def _lanes_of(self, field: Field, shown: Sequence[int], slots: Sequence[Slot]) -> Iterator[Lane]:
        within = range(field.first, field.first + field.size)
        bands = self._spans[SPANS[INPUT if field.name == INPUT else TARGETS]]
        sources = [*self._marks.get(field.name, {}).values(), bands]

        def cell(position: int) -> Stretch:
            roles = (_role_at(source, position) for source in sources)
            text = field.cell(position - field.first)
            return Stretch(position, position + 1, text, next(filter(None, roles), None))

        stretches = [cell(position) for position in shown if position in within]
        yield Lane("values", _label(field.name), stretches, field.name)
        yield from self._mark_lanes(field.name, slots)
        if field.name in SPANS:
            yield from self._span_lanes(SPANS[field.name], slots)

    def _span_lanes(self, name: str, slots: Sequence[Slot]) -> Iterator[Lane]:
        spans = self._columns.spans(name)
        if self._spans[name]:
            yield Lane("spans", "spans", self._spans[name], name)
        elif spans.present[0] or name in self._marks or any(self._spans.values()):
            missing = _note("an empty list" if spans.present[0] else "missing", slots)
            yield Lane("spans", "spans", [missing], name)
        yield from self._mark_lanes(name, slots)

    def _mark_lanes(self, name: str, slots: Sequence[Slot]) -> Iterator[Lane]:
        for code, marks in self._marks.get(name, {}).items():
            notes = [_note(mark.text, slots, mark.role) for mark in marks if mark.shape == "note"]
            yield Lane("faults", code, notes or marks, name, marks[0].role)


def _is_of(violation: Violation, columns: Columns) -> bool:
    at = violation.location
    same = (at.row, at.file) == (int(columns.row[0]), columns.file)
    return same and registry()[violation.code].at not in GLOBAL_LEVELS


def _edges(stretches: Iterable[Stretch]) -> Iterator[int]:
    return (edge for stretch in stretches for edge in (stretch.start, stretch.stop))


def _note(text: str, slots: Sequence[Slot], role: Role | None = None) -> Stretch:
    return Stretch(*slots[0], text, role, "note")


def _label(name: str) -> str:
    # Only ASCII has a width that every terminal agrees on.
    text = _LABELS.get(name) or ascii(name)[1:-1]
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "~"


def _role_at(stretches: Sequence[Stretch], position: int) -> Role | None:
    """The role of the stretch that covers a position, of some that are in order."""
    number = bisect_right(stretches, position, key=attrgetter("stop"))
    return stretches[number].role if stretches[number:] and stretches[number].start <= position else None
