"""The matrix for people: what was broken, what should find it, and what did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from provenance.fuzz._report import FuzzReport, Trial, Verdict, summary
from provenance.reports.text import Paint, Role, clip, count, escape, plain, wrap

_ROLES: Final[Mapping[Verdict, Role]] = {
    Verdict.CAUGHT: "good",
    Verdict.WARNED: "warning",
    Verdict.PASSED: "good",
    Verdict.LET_THROUGH: "error",
    Verdict.CRIED_WOLF: "error",
    Verdict.NO_VERDICT: "error",
}
_HEADINGS: Final = ("", "mutation", "expected", "found by", "where")
#: Cells are padded to no more than this; what is longer pushes its row to the right.
_WIDEST: Final = 40
_INDENT: Final = 2


def report_to_text(report: FuzzReport, *, width: int | None = None, paint: Paint = plain) -> str:
    """A table of all mutations by what they change, and the outcome; without a last newline.

    Args:
        report: what was found.
        width: columns of the terminal: where there is no room for all columns, the last are left out. None
            shows all.
        paint: colours a piece of text.
    """
    return "\n".join(_lines(report, width, paint))


def where(trial: Trial) -> str:
    """The place of a trial on one line; empty where the dataset was changed as a whole."""
    if trial.place is None:
        return ""
    sequence = trial.place.sequence_id
    parts = [str(trial.place)] if str(trial.place) else []
    if sequence is not None and trial.place.index is None:
        parts.append(f"sequence {sequence!r}")
    return ": ".join(parts)


def _lines(report: FuzzReport, width: int | None, paint: Paint) -> Iterator[str]:
    shown = [trial for trial in report.trials if trial.verdict != Verdict.NOT_APPLICABLE]
    first = "the first " if report.more else ""
    title = f"{first}{count(report.datums, 'datum')}, seed {report.seed}, judged by: {report.judge}"
    for line in wrap(escape(clip(title)), width, hang=0):
        yield paint(line, "title")
    rows = {trial.mutation: _cells(trial) for trial in shown}
    columns = _columns([_HEADINGS, *rows.values()], width)
    if shown:
        yield ""
        yield paint(_row(_HEADINGS, columns), "title")
    for family in dict.fromkeys(trial.family for trial in shown):
        yield paint(family, "title")
        for trial in shown:
            if trial.family == family:
                line = _row(rows[trial.mutation], columns)
                yield line.replace(trial.verdict, paint(trial.verdict, _ROLES[trial.verdict]), 1)
                yield from _details(trial, width, placed=len(columns) == len(_HEADINGS))
    yield ""
    yield from _not_applicable(report, width, paint)
    for line in wrap(summary(report), width, hang=0):
        yield paint(line, "good" if report.ok else "error")


def _cells(trial: Trial) -> tuple[str, ...]:
    expected = " ".join(trial.expected) or "valid"
    return trial.verdict, trial.mutation, expected, " ".join(trial.by) or "-", escape(clip(where(trial)))


def _columns(rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Widths of as many columns as there is room for; of two, whatever the width."""
    columns = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
    while width is not None and len(columns) > 2 and any(len(_row(row, columns)) > width for row in rows):
        columns.pop()
    return columns


def _row(cells: Sequence[str], columns: Sequence[int]) -> str:
    padded = [f"{cell:<{size}}" for cell, size in zip(cells, columns, strict=False)]
    return (" " * _INDENT + "  ".join(padded)).rstrip()


def _details(trial: Trial, width: int | None, *, placed: bool) -> Iterator[str]:
    """What a person needs to know of a mutation about which the check is wrong."""
    if trial.verdict in (Verdict.CAUGHT, Verdict.WARNED, Verdict.PASSED):
        return
    place = "" if placed else where(trial)
    for text in (trial.summary, trial.note, place and f"at {place}"):
        if text:
            yield from wrap(escape(clip(text)), width, indent=3 * _INDENT, hang=_INDENT)


def _not_applicable(report: FuzzReport, width: int | None, paint: Paint) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for trial in report.trials:
        if trial.verdict == Verdict.NOT_APPLICABLE:
            names.setdefault(trial.note, []).append(trial.mutation)
    if not names:
        return
    yield paint("not applicable", "title")
    for note, found in names.items():
        yield from wrap(escape(f"{note}: {', '.join(found)}"), width, indent=_INDENT, hang=_INDENT)
    yield ""
