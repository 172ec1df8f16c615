"""Lanes: what stands at which position, one below the other, cut into blocks as wide as the terminal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final, Literal

from provenance.reports.text import Paint, Role

#: A strip of no more positions than this is shown whole.
_FEW: Final = 48
#: About how many positions of a longer one are shown.
_MOST: Final = 120
#: Positions shown on either side of a point of interest.
_AROUND: Final = 2
#: Positions that are shown rather than counted, since the count takes as much room.
_GAP: Final = 2
#: A band gets as much room for its text, also where it covers a single narrow position.
_BAND: Final = 30

Slot = tuple[int, int]
"""Positions [start, stop) that share a column: one that is shown, or several that are only counted."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a lane shows over the positions [start, stop), which may be none."""

    start: int
    stop: int
    text: str = ""
    role: Role | None = None
    shape: Literal["cell", "band", "mark", "note"] = "cell"
    """A cell stands right-aligned in its column, a note starts there and runs on; a band and a mark fill
    their columns."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A label and the stretches beside it, ascending and without overlap."""

    kind: Literal["position", "index", "chunks", "values", "spans", "faults"]
    """``position`` numbers the columns, ``index`` the elements of the loss inputs."""
    label: str
    """What it is called; of faults the code of their rule."""
    stretches: Sequence[Stretch]
    """Of spans or chunks a band for each, in the order of their list; a note where there are none."""
    field: str = ""
    """What it is of: ``model_input``, a loss input or a span list, by the name that the data have."""
    role: Role | None = None
    """Of faults how much they weigh."""


def slots_near(points: Iterable[int], extent: int) -> list[Slot]:
    """All positions below ``extent`` where they are few, else those near points, the first of them first."""
    if extent <= _FEW:
        return slots_of(range(extent))
    shown: set[int] = set()
    for point in points:
        if len(shown) >= _MOST:
            break
        shown.update(range(max(point - _AROUND, 0), min(point + _AROUND, extent)))
    slots: list[Slot] = []
    end = 0
    for position in (*sorted(shown), extent):
        if position - end > _GAP:
            slots.append((end, position))
        else:
            slots += slots_of(range(end, position))
        if position < extent:
            slots.append((position, position + 1))
        end = position + 1
    return slots


def slots_of(positions: Iterable[int]) -> list[Slot]:
    """A slot for each position."""
    return [(position, position + 1) for position in positions]


def cells(slots: Iterable[Slot]) -> Iterator[int]:
    """The positions that are shown."""
    return (start for start, stop in slots if stop == start + 1)


def layout(lanes: Sequence[Lane], slots: Sequence[Slot], width: int, paint: Paint) -> Iterator[str]:
    """Lines no wider than ``width``: every lane of a block, an empty line, the next block."""
    titles = [_title(lane) for lane in lanes]
    labels = max(len(label) for label, _ in titles) + 1
    room = max(width - labels - 2, 10)
    widths = _widths(lanes, slots, room)
    begins = {stretch.start for lane in lanes for stretch in lane.stretches if stretch.shape == "band"}
    first = 0
    while first < len(slots):
        last = _end_of_block(slots, widths, first, room, begins)
        edges = list(accumulate(widths[first:last], initial=1))
        if first:
            yield ""
        for lane, (label, role) in zip(lanes, titles, strict=True):
            seen = list(_within(lane.stretches, slots[first][0], slots[last - 1][1], last == len(slots)))
            if seen:
                body = _body(seen, slots[first:last], edges, room, paint)
                yield paint(label, role) + " " * (labels - len(label)) + body
        first = last


def _title(lane: Lane) -> tuple[str, Role]:
    if lane.kind == "faults":
        return f"  {lane.label}", lane.role or "error"
    return lane.label, "hint" if lane.kind in ("position", "index") else "title"


def _end_of_block(
    slots: Sequence[Slot], widths: Sequence[int], first: int, room: int, begins: AbstractSet[int]
) -> int:
    """Where a block ends: where a band begins, if that costs a third of the block at most."""
    last, used = first + 1, widths[first]
    while last < len(slots) and used + widths[last] <= room:
        used += widths[last]
        last += 1
    if last == len(slots):
        return last
    nearly = range(last, last - (last - first) // 3 - 1, -1)
    return next((slot for slot in nearly if slots[slot][0] in begins), last)


def _widths(lanes: Iterable[Lane], slots: Sequence[Slot], room: int) -> list[int]:
    """Columns that each slot takes, at most ``room``."""
    starts = [start for start, _ in slots]
    widths = [2] * len(slots)
    bands = []
    for stretch in (stretch for lane in lanes for stretch in lane.stretches):
        if stretch.shape == "cell":
            slot = bisect_right(starts, stretch.start) - 1
            widths[slot] = max(widths[slot], len(stretch.text) + 1)
        elif stretch.shape == "band":
            bands.append(stretch)
    for band in bands:
        first, last = _slots_under(band, starts, slots[-1][1])
        lacking = min(len(band.text), _BAND, room - 1) + 1 - sum(widths[first:last])
        for i in range(lacking if first < last else 0):
            widths[first + i % (last - first)] += 1
    return [min(width, room) for width in widths]


def _slots_under(stretch: Stretch, starts: Sequence[int], end: int) -> tuple[int, int]:
    """The slots [first, last) that a stretch covers, or the one that an empty stretch stands before."""
    if stretch.start == stretch.stop:
        slot = len(starts) if stretch.start >= end else max(bisect_right(starts, stretch.start) - 1, 0)
        return slot, slot
    if stretch.start >= end:
        return len(starts), len(starts)
    return max(bisect_right(starts, stretch.start) - 1, 0), bisect_left(starts, stretch.stop)


def _within(stretches: Sequence[Stretch], start: int, stop: int, is_last: bool) -> Iterator[Stretch]:
    for i in range(bisect_left(stretches, start, key=attrgetter("stop")), len(stretches)):
        stretch = stretches[i]
        empty = stretch.start == stretch.stop
        if stretch.start > stop or (stretch.start == stop and not (empty and is_last)):
            return
        if stretch.stop > start or empty:
            yield stretch


def _body(
    stretches: Iterable[Stretch], slots: Sequence[Slot], edges: Sequence[int], room: int, paint: Paint
) -> str:
    """One line of a lane; ``edges`` are the left edges of the slots, and the right one of the last."""
    starts, end = [start for start, _ in slots], slots[-1][1]
    text: list[str] = [" "] * (room + 2)
    roles: list[Role | None] = [None] * len(text)
    for stretch in stretches:
        first, last = _slots_under(stretch, starts, end)
        left, drawn = _drawn(stretch, edges[first], edges[last], (starts[0], end))
        drawn = drawn[: len(text) - left]
        text[left : left + len(drawn)] = drawn
        roles[left : left + len(drawn)] = [stretch.role] * len(drawn)
    used = len("".join(text).rstrip())
    pieces = groupby(range(used), key=roles.__getitem__)
    return "".join(_painted("".join(text[i] for i in piece), role, paint) for role, piece in pieces)


def _drawn(stretch: Stretch, left: int, right: int, block: Slot) -> tuple[int, str]:
    """Where a stretch starts in its line, and its characters."""
    room = right - left - 1
    if stretch.shape == "note":
        return left + 1, stretch.text
    if stretch.shape == "cell":
        text = _cut(stretch.text, max(room, 1))
        return right - len(text), text
    if stretch.start == stretch.stop:
        return left - 1, "|" if stretch.shape == "band" else "^"
    if stretch.shape == "mark":
        return left + 1, "^" * room
    begins = "|" if stretch.start >= block[0] else "-"
    ends = "|" if stretch.stop <= block[1] else "-"
    return left, begins + _cut(stretch.text, room).ljust(room, "-") + ends


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "~"


def _painted(text: str, role: Role | None, paint: Paint) -> str:
    return text if role is None else paint(text, role)
