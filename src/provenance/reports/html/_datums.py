"""The span map: bad datums, position by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from provenance.columns import TARGETS, Columns
from provenance.engine.observe import LONGEST, OF_RULE
from provenance.observations import BadDatum, Places
from provenance.report import Report, Severity, Violation
from provenance.reports._fields import INPUT, SPANS
from provenance.reports.html._found import Key, key_of
from provenance.reports.html._overview import Overview, overview_of
from provenance.reports.html._spans import NO_SPANS, Names, Spans, spans_of
from provenance.reports.html._table import Row, head_of, row_of
from provenance.reports.strip import Strip, strip_of
from provenance.reports.text import clip, count
from provenance.rules import registry

#: Rows of a table, faults named beside it, sequences of its legend, and datums that are open at first.
_ROWS, _FAULTS, _SEQUENCES, _OPEN = 24, 12, 12, 5


@dataclass(frozen=True, slots=True)
class Fault:
    """A violation in a datum."""

    code: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Datum:
    """A bad datum as the page shows it."""

    key: Key
    anchor: str
    title: str
    severity: str
    file: int | None
    is_open: bool
    faults: list[Fault]
    notes: list[str]
    sequences: list[tuple[str, str, str]]
    """Name, class of its colour, and id of each."""
    overview: Overview | None
    head: Row | None
    rows: list[Row]

    @property
    def columns(self) -> int:
        """Columns of the table, without headers of rows."""
        return 0 if self.head is None else len(self.head.cells)


def datums_of(report: Report, files: Mapping[str, int]) -> list[Datum]:
    """The bad datums that a check kept, in the order of the dataset."""
    kept = () if report.observations is None else report.observations.datums
    return [_datum(bad, number, files) for number, bad in enumerate(kept, 1)]


def shown_of(report: Report) -> str:
    """How many of the bad datums are shown and which, where that is not all of them."""
    seen = report.observations
    if seen is None or len(seen.datums) == seen.bad_datums:
        return ""
    shown, bad = len(seen.datums), count(seen.bad_datums, "datum")
    words = f"{shown:,} of {bad} with violations {'is' if shown == 1 else 'are'} shown: "
    words += f"of each rule the first {OF_RULE} that could be read"
    if seen.omitted:
        words += f"; {seen.omitted:,} passed over: longer than {LONGEST:,} positions, or no room on this page"
    return words


def _datum(bad: BadDatum, number: int, files: Mapping[str, int]) -> Datum:
    strip = strip_of(bad.columns, _marks(bad))
    names = Names(bad.columns)
    spans = {lane.field: spans_of(lane, names) for lane in strip.lanes if lane.kind == "spans"}
    lanes = [lane for lane in strip.lanes if lane.kind != "position"]
    marks = [lane for lane in lanes if lane.kind == "faults"]
    bars = [spans.get(SPANS[field], NO_SPANS) for field in (INPUT, TARGETS)]
    violations = sorted(bad.violations, key=lambda violation: violation.severity != Severity.ERROR)
    file = bad.columns.file
    return Datum(
        key=key_of(violations[0]),
        anchor=f"datum-{number}",
        title=clip(strip.title),
        severity=violations[0].severity.value,
        file=None if file is None else files.get(file),
        is_open=number <= _OPEN,
        faults=[_fault(violation) for violation in violations[:_FAULTS]],
        notes=list(_notes(strip, spans, bad, rows=len(lanes), names=names)),
        sequences=[(short, style, clip(name)) for short, style, name in islice(names.items(), _SEQUENCES)],
        overview=overview_of(strip.extent, bars, marks) if strip.slots else None,
        head=head_of(strip.slots) if strip.slots else None,
        rows=[row_of(lane, strip.slots, spans) for lane in lanes[:_ROWS]],
    )


def _marks(bad: BadDatum) -> Iterator[Violation]:
    """What to mark: the violations of whole fields, and one for each place that was kept."""
    yield from (violation for violation in bad.violations if violation.location.index is None)
    first = {violation.code: violation for violation in reversed(bad.violations)}
    for places in bad.places:
        like = first[places.code]
        width = _width(places, bad.columns)
        for start, length in zip(places.start.tolist(), places.length.tolist(), strict=True):
            index = divmod(start, width) if width else start
            at = replace(like.location, field=places.field, index=index, length=length)
            yield replace(like, location=at)


def _width(places: Places, columns: Columns) -> int:
    """Columns of the field that elements are in; 0 where it has no rows and columns."""
    tensor = columns.inputs.get(places.field)
    if tensor is None or registry()[places.code].at != "element" or tensor.rank[0] < 2:
        return 0
    return max(int(tensor.width[0]), 1)


def _fault(violation: Violation) -> Fault:
    element = str(replace(violation.location, file=None, row=None, line=None))
    text = f"{element}: {violation.message}" if element else violation.message
    return Fault(violation.code, violation.severity.value, clip(text))


def _notes(
    strip: Strip, spans: Mapping[str, Spans], bad: BadDatum, *, rows: int, names: Names
) -> Iterator[str]:
    """What the table does not show."""
    yield from strip.notes
    if strip.hidden:
        yield f"{strip.hidden:,} of {count(strip.extent, 'position')} are only counted in the table"
    for field, row in spans.items():
        if empty := int((row.starts == row.stops).sum()):
            yield f"{count(empty, 'span')} of {field} without a position"
    marked: Counter[str] = Counter()
    for places in bad.places:
        marked[places.code] += len(places.start)
    for code, number in marked.items():
        if number < bad.counts[code]:
            yield f"of {code} the first {number:,} of {bad.counts[code]:,} places are marked"
    for kind, number, most in (
        ("violation", sum(bad.counts.values()), _FAULTS),
        ("row", rows, _ROWS),
        ("sequence", len(names.numbers), _SEQUENCES),
    ):
        if number > most:
            yield f"{count(number - most, f'more {kind}')}, not listed"
