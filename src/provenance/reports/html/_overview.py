"""A whole datum as two thin bars and a line of ticks: where its spans and its faults are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from provenance.columns import Ints
from provenance.reports._lanes import Lane
from provenance.reports.html._spans import Spans
from provenance.reports.text import count

#: Steps that a bar is drawn in, at most: narrower than that nothing is seen.
_STEPS: Final = 480
#: Heights and places, in the units of the picture.
_BAR, _HALF, _TICK = 10, 5, 8
_ROWS: Final = (0, 12, 24)
HEIGHT: Final = 36


@dataclass(frozen=True, slots=True)
class Path:
    """A shape of one colour."""

    style: str
    outline: str
    """In SVG's words."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What to draw, ``width`` by ``HEIGHT`` units."""

    width: int
    paths: list[Path]
    words: str
    """The same in words."""


def overview_of(extent: int, spans: Iterable[Spans], faults: Iterable[Lane]) -> Overview:
    """The bars of the input's and the target's spans, and a tick for each fault of a place."""
    steps = min(extent, _STEPS)
    paths: list[Path] = []
    words = [count(extent, "position")]
    for name, top, row in zip(("input", "target"), _ROWS, spans, strict=False):
        paths += _bar(row, top, (np.arange(steps) * extent + extent // 2) // steps)
        words.append(f"{name}: {_shares(row)}")
    for role in ("warning", "error"):
        ticks = np.zeros(steps, np.bool_)
        for mark in (m for lane in faults if lane.role == role for m in lane.stretches if m.shape == "mark"):
            first = min(mark.start * steps // extent, steps - 1)
            ticks[first : max(-(-mark.stop * steps // extent), first + 1)] = True
        if ticks.any():
            outline = "".join(f"M{i} {_ROWS[2]}h1v{_TICK}h-1z" for i in ticks.nonzero()[0].tolist())
            paths.append(Path(role, outline))
            words.append(f"{role}s are marked")
    return Overview(steps, paths, "; ".join(words))


def _shares(spans: Spans) -> str:
    kinds = np.array([span.kind for span in spans.spans])
    lengths = spans.stops - spans.starts
    shares = [f"{lengths[kinds == kind].sum():,} {kind}" for kind in ("prompt", "sampled", "unknown")]
    return ", ".join(share for share in shares if not share.startswith("0 ")) or "no spans"


def _bar(spans: Spans, top: int, positions: Ints) -> Iterator[Path]:
    """The spans over the middles of all steps: sampled ones high, prompts half as high."""
    outlines: dict[str, list[str]] = {}
    first = 0
    found = [spans.at(position) for position in positions.tolist()]
    for step in range(1, len(found) + 1):
        if step < len(found) and found[step] is found[first]:
            continue
        high = _BAR if found[first].kind == "sampled" else _HALF
        outline = f"M{first} {top + _BAR - high}h{step - first}v{high}h-{step - first}z"
        outlines.setdefault(found[first].style, []).append(outline)
        first = step
    for style, drawn in outlines.items():
        yield Path(style, "".join(drawn))
