"""Distributions, drawn as pictures and put into words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from provenance.errors import MissingDependencyError
from provenance.observations import Histogram
from provenance.report import Report
from provenance.rules import Parameters

#: Size of a picture, and what its axes take of it, in pixels.
_WIDTH, _HEIGHT = 440, 150
_PADDING: Final = {"left": 58, "right": 34, "top": 18, "bottom": 42}
#: Parts of an axis between labels at equal distances.
_PARTS: Final = 8
#: A bin that is narrower than this is there for zeros alone.
_NARROW: Final = 1e-30
_HOUR: Final = 3600.0


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _hours(value: float) -> str:
    return f"{value / _HOUR:.10g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What a histogram is about."""

    title: str
    of: str
    """What is counted."""
    unit: str
    absent: str
    """Why there may be nothing to draw."""
    ticks: tuple[float, ...]
    """Edges that have a label on the axis; where none is given, some at equal distances."""
    words: Callable[[float], str] = _plain


_SUBJECTS: Final = {
    "logprobs": _Subject(
        title="Logprobs",
        of="given logprobs of sampled targets",
        unit="nats",
        absent="no datum that could be judged has logprobs of sampled targets",
        ticks=(-20, -5, -2, -1, -0.5, -0.1, -0.01, -0.001, 0),
    ),
    "log_ratios": _Subject(
        title="Given against recorded logprobs",
        of="given minus recorded logprob of sampled targets",
        unit="nats",
        absent="no ledger was given, or no logprob could be compared with its record",
        ticks=(-10, -1, -0.1, -0.01, -0.001, 0, 0.001, 0.01, 0.1, 1, 10),
    ),
    "advantages": _Subject(
        title="Advantages",
        of="advantages of sampled targets",
        unit="",
        absent="no datum that could be judged has advantages of sampled targets",
        ticks=(-100, -10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10, 100),
    ),
    "lengths": _Subject(
        title="Lengths",
        of="datums",
        unit="positions of a datum",
        absent="no datum could be judged",
        ticks=(1, 16, 256, 4096, 65536, 1048576),
    ),
    "ages": _Subject(
        title="Ages of sequences",
        of="pairs of a datum and a sequence that it names",
        unit="hours since last use",
        absent="no ledger was given, or it has none of the sequences",
        ticks=(),
        words=_hours,
    ),
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A distribution."""

    title: str
    caption: str
    """What it shows, in words."""
    svg: str
    unit: str
    bins: list[tuple[str, int]]
    """From where to where, and how many: what the picture draws."""
    absent: str
    """Why there is none; empty where there is."""


def charts_of(report: Report) -> list[Chart]:
    """A chart for each distribution that a check observes; none where it was not asked to.

    Raises:
        MissingDependencyError: vl-convert-python is not installed.
    """
    if report.observations is None:
        return []
    seen = report.observations.histograms
    window = report.contract["parameters"].get("window", Parameters().window)
    return [
        _chart(subject, seen.get(name), window if name == "ages" else None)
        for name, subject in _SUBJECTS.items()
    ]


def _chart(subject: _Subject, seen: Histogram | None, window: float | None) -> Chart:
    if seen is None:
        return Chart(subject.title, "", "", subject.unit, [], subject.absent)
    bins = [(_bin(subject, seen, i), int(seen.counts[i])) for i in seen.counts.nonzero()[0].tolist()]
    caption = "; ".join(_words(subject, seen, window))
    return Chart(subject.title, caption, _svg(_spec(subject, seen, window)), subject.unit, bins, "")


def _bin(subject: _Subject, seen: Histogram, number: int) -> str:
    low, high = seen.edges[number : number + 2].tolist()
    if _is_zero(low, high):
        return "exactly 0"
    return f"{subject.words(low)} to {subject.words(high)}"


def _is_zero(low: float, high: float) -> bool:
    return low == 0 and high - low < _NARROW


def _words(subject: _Subject, seen: Histogram, window: float | None) -> Iterator[str]:
    inside = int(seen.counts.sum())
    total = seen.below + inside + seen.above
    first, last = subject.words(seen.edges[0]), subject.words(seen.edges[-1])
    beyond = "above 0" if _is_zero(*seen.edges[-2:].tolist()) else f"{last} or more"
    yield f"{total:,} {subject.of}"
    if total:
        place = int(np.searchsorted(np.cumsum([seen.below, *seen.counts]), total / 2))
        if place == 0:
            median = f"below {first}"
        elif place > len(seen.counts):
            median = beyond
        else:
            median = _bin(subject, seen, place - 1)
        yield f"median {median} {subject.unit}".rstrip()
    if seen.below:
        yield f"{seen.below:,} below {first}, not drawn"
    if seen.above:
        yield f"{seen.above:,} {beyond}, not drawn"
    if seen.unusable:
        yield f"{seen.unusable:,} NaN or infinite, not drawn"
    if window is not None:
        yield f"the dashed line is the contract's window, {subject.words(window)} hours"


def _spec(subject: _Subject, seen: Histogram, window: float | None) -> dict[str, Any]:
    """Vega-Lite: bars of one width for bins of any, so that fine bins can be seen."""
    edges = seen.edges.tolist()
    labels = _labels(subject, edges)
    most = max(int(seen.counts.max(initial=0)), 1)
    powers = [10**power for power in range(len(str(most)))]
    x_axis = {
        "title": subject.unit or None,
        "values": list(labels),
        "labelExpr": f"{_literal(labels)}[datum.value]",
        "grid": False,
    }
    y_axis = {"title": "number", "values": [0, *powers], "labelExpr": "format(datum.value, ',')"}
    values = [{"bin": i, "end": i + 1, "n": n} for i, n in enumerate(seen.counts.tolist()) if n]
    bars: dict[str, Any] = {
        "name": "bars",
        "data": {"values": values},
        "mark": {"type": "bar", "color": "currentColor"},
        "encoding": {
            "x": {"field": "bin", "type": "quantitative", "scale": _scale(len(edges) - 1), "axis": x_axis},
            "x2": {"field": "end"},
            "y": {
                "field": "n",
                "type": "quantitative",
                "scale": _scale(most) | {"type": "symlog"},
                "axis": y_axis,
            },
            "y2": {"datum": 0},
        },
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": _WIDTH,
        "height": _HEIGHT,
        "autosize": "none",
        "padding": _PADDING,
        "config": _CONFIG,
        "layer": [bars, *_line(window, edges)],
    }


def _line(window: float | None, edges: list[float]) -> Iterator[dict[str, Any]]:
    if window is None or not edges[0] <= window <= edges[-1]:
        return
    place = float(np.interp(window, edges, range(len(edges))))
    yield {
        "name": "window",
        "data": {"values": [{"place": place}]},
        "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 2, "color": "currentColor"},
        "encoding": {"x": {"field": "place", "type": "quantitative"}},
    }


def _scale(most: int) -> dict[str, Any]:
    return {"domain": [0, most], "nice": False, "zero": True}


def _labels(subject: _Subject, edges: list[float]) -> dict[float, str]:
    """What stands at which places of the axis."""
    chosen = [i for i, edge in enumerate(edges) if edge in subject.ticks]
    if not chosen:
        chosen = [*range(0, len(edges), max((len(edges) - 1) // _PARTS, 1))]
    # The label of a bin for zeros stands below its middle.
    zeros = {i for i in chosen if i + 1 < len(edges) and _is_zero(edges[i], edges[i + 1])}
    return {i + 0.5 if i in zeros else i: subject.words(edges[i]) for i in chosen}


def _literal(labels: Mapping[float, str]) -> str:
    return "{" + ", ".join(f"'{place}': '{text}'" for place, text in labels.items()) + "}"


#: Colours are the page's, see style.css. No place depends on the size of a text, so fonts change nothing.
_CONFIG: Final = {
    "aria": False,
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "tickColor": "currentColor",
        "domainColor": "currentColor",
        "gridColor": "currentColor",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelBound": False,
        "labelFlush": False,
        "labelOverlap": False,
    },
    "axisY": {"minExtent": 44, "maxExtent": 44},
    "mark": {"aria": False},
}


def _svg(spec: Mapping[str, Any]) -> str:
    try:
        import vl_convert
    except ImportError:
        raise MissingDependencyError("vl_convert", "html") from None
    return vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[])
