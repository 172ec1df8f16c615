"""The lanes of a datum as the rows of a table, whose columns are positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from provenance.columns import TARGETS
from provenance.reports._fields import INPUT, SPANS
from provenance.reports._lanes import Lane, Slot, Stretch
from provenance.reports.html._spans import NO_SPANS, Spans
from provenance.reports.text import count

_TITLES: Final = {SPANS[INPUT]: "input spans", SPANS[TARGETS]: "target spans"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell, or several that are merged because they say the same."""

    text: str = ""
    style: str = ""
    """Its classes."""
    width: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its header."""

    title: str
    kind: str
    cells: Sequence[Cell]


def head_of(slots: Sequence[Slot]) -> Row:
    """Positions, and how many are left out between them."""
    cells = [Cell(str(a)) if b == a + 1 else Cell(f"+{b - a:,}", "gap") for a, b in slots]
    return Row("position", "position", cells)


def row_of(lane: Lane, slots: Sequence[Slot], spans: Mapping[str, Spans]) -> Row:
    """A lane as a row."""
    notes = [stretch for stretch in lane.stretches if stretch.shape == "note"]
    if notes:
        cells = [Cell(notes[0].text, f"note {notes[0].role or ''}", len(slots))]
    elif lane.kind == "spans":
        cells = list(_spans(slots, spans[lane.field]))
    elif lane.kind == "chunks":
        cells = list(_merged(Cell(_chunk(lane.stretches, slot), "chunk") for slot in slots))
    elif lane.kind == "faults":
        style = f"fault {lane.role or 'error'}"
        marked = (_is_marked(lane, slot, slots[-1][1]) for slot in slots)
        cells = list(_merged(Cell("\u25b2", style) if here else Cell() for here in marked))
    else:
        own = SPANS[INPUT if lane.field == INPUT else TARGETS]
        cells = list(_values(lane, slots, spans.get(own, NO_SPANS)))
    return Row(_TITLES.get(lane.field, lane.label) if lane.kind == "spans" else lane.label, lane.kind, cells)


def _values(lane: Lane, slots: Sequence[Slot], spans: Spans) -> Iterator[Cell]:
    there = {stretch.start: stretch for stretch in lane.stretches}
    for start, stop in slots:
        stretch = there.get(start) if stop == start + 1 else None
        if stretch is None:
            yield Cell("", "gap" if stop > start + 1 else "")
            continue
        style = spans.at(start).style if lane.kind == "values" else ""
        yield Cell(stretch.text, f"{style} {stretch.role}" if stretch.role in ("error", "warning") else style)


def _spans(slots: Sequence[Slot], spans: Spans) -> Iterator[Cell]:
    """A cell for each span, and one for each stretch of positions that has several and is not shown."""

    def under(slot: Slot) -> tuple[int, int]:
        first = int(spans.stops.searchsorted(slot[0], "right"))
        last = int(spans.starts.searchsorted(slot[1], "left"))
        return first, max(first, last)

    for (first, last), group in groupby(slots, key=under):
        width = len(list(group))
        if last == first + 1:
            yield Cell(spans.spans[first].label, f"span {spans.spans[first].style}", width)
        else:
            yield Cell(count(last - first, "span") if last > first else "", "gap", width)


def _chunk(chunks: Sequence[Stretch], slot: Slot) -> str:
    """Number and kind of the last chunk to begin before a slot ends, if it reaches into the slot."""
    number = bisect_right(chunks, slot[1] - 1, key=attrgetter("start")) - 1
    if number < 0 or chunks[number].stop <= slot[0]:
        return ""
    return f"{number} {chunks[number].text}"


def _is_marked(lane: Lane, slot: Slot, extent: int) -> bool:
    """A fault lies in a slot, or right before it where it covers no position; the last has what is behind."""

    def start_of(mark: Stretch) -> int:
        return min(mark.start, extent - 1)

    number = bisect_left(lane.stretches, slot[1], key=start_of) - 1
    if number < 0:
        return False
    last = lane.stretches[number]
    return last.stop > slot[0] or start_of(last) >= slot[0]


def _merged(cells: Iterator[Cell]) -> Iterator[Cell]:
    for cell, group in groupby(cells):
        yield Cell(cell.text, cell.style, len(list(group)))
