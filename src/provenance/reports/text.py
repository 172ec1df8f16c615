"""Reports as text for people: violations grouped by rule, what was not checked, and a verdict.

Colour is the caller's: `paint` gets a piece of text and what it is. Everything that comes from data is
escaped, so that an id cannot steer the terminal that shows it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Literal

from provenance._text import clip, count, escape, quoted
from provenance.report import (
    NotChecked,
    Report,
    Severity,
    Violation,
    broken_codes,
    reasons_of,
    verdict,
)

__all__ = [
    "RUNS",
    "Paint",
    "Role",
    "clip",
    "count",
    "escape",
    "findings_to_text",
    "inspect_words",
    "naming_sequence",
    "plain",
    "report_to_text",
    "verdict",
    "violation_to_text",
    "wrap",
]

Role = Literal["error", "warning", "good", "title", "hint", "prompt", "sampled"]
Paint = Callable[[str, Role], str]

#: Rules of these levels report contiguous runs, so one violation may have several elements.
RUNS: Final = frozenset({"position", "element"})
_REASONS: Final = 20
_HINTED: Final = 3


def plain(text: str, role: Role) -> str:  # noqa: ARG001 - the signature is Paint's
    """Paint nothing."""
    return text


def wrap(text: str, width: int | None, *, indent: int = 0, hang: int = 2) -> list[str]:
    """Lines of text no wider than the terminal, broken at spaces only; one line where the width is None.

    A word that is wider than the terminal stays whole: a code or a path must survive being copied.
    """
    lead = " " * indent
    if width is None:
        return [lead + text]
    return textwrap.wrap(
        text,
        max(width, indent + hang + 10),
        initial_indent=lead,
        subsequent_indent=lead + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def report_to_text(
    report: Report, *, width: int | None = None, paint: Paint = plain, hints: Iterable[str] = ()
) -> str:
    """The report, without a last newline.

    Args:
        report: what a check found.
        width: columns of the terminal; None leaves every violation on a line of its own.
        paint: colours a piece of text.
        hints: what to do next, a line each, shown after what was found.
    """
    role: Role = "good" if report.valid else "error"
    last = [paint(line, role) for line in wrap(verdict(report), width, hang=0)]
    return "\n".join([*_lines(report, width, paint, hints), *last])


def findings_to_text(report: Report, *, width: int | None = None) -> str:
    """The report without its verdict, for those who put that first."""
    return "\n".join(_lines(report, width, plain, ())).rstrip()


def _lines(report: Report, width: int | None, paint: Paint, hints: Iterable[str]) -> Iterator[str]:
    shown: dict[str, list[Violation]] = {}
    for violation in report.violations:
        shown.setdefault(violation.code, []).append(violation)
    broken = broken_codes(report)
    for code in broken:
        yield from _rule(report, code, shown.get(code, []), width, paint)
        yield ""
    if broken:
        for hint in (f"what a rule means: provenance explain {' '.join(broken[:_HINTED])}", *hints):
            yield from (paint(line, "hint") for line in _hint(escape(hint), width))
        yield ""
    if report.not_checked:
        yield paint("not checked", "title")
        yield from _not_checked(report.not_checked, width)
        yield ""


def _hint(hint: str, width: int | None) -> list[str]:
    """A command that is copied from the screen must be whole: one that does not fit has its own line."""
    if width is None or len(hint) <= width:
        return [hint]
    what, _, command = hint.partition(": ")
    return [*wrap(f"{what}:", width, hang=0), f"  {command}"]


def _rule(
    report: Report, code: str, shown: list[Violation], width: int | None, paint: Paint
) -> Iterator[str]:
    severity = report.severities[code]
    role: Role = "error" if severity == Severity.ERROR else "warning"
    rule_name, level = _declared(code)
    found = report.counts[code]
    name = shown[0].name if shown else rule_name
    where = f" in {count(found.datums, 'datum')}" if found.datums else ""
    flat = shown and not any(isinstance(v.location.index, tuple) for v in shown)
    noun = "position" if flat else level
    elements = f", {count(found.elements, noun)}" if level in RUNS else ""
    title = f"{severity.value} {code} {name}: {count(found.violations, 'violation')}{where}{elements}"
    for line in wrap(title, width, hang=0):
        yield paint(line, role)
    for violation in shown:
        for line in wrap(violation_to_text(violation), width, indent=2, hang=4):
            yield line.replace(code, paint(code, role), 1)
    if more := found.violations - len(shown):
        yield f"  ... and {more:,} more"


def violation_to_text(violation: Violation) -> str:
    """One violation on one line, with its place."""
    return escape(clip(naming_sequence(str(violation), violation)))


def naming_sequence(text: str, violation: Violation) -> str:
    """Words about a violation, and its sequence where they do not name that."""
    sequence = violation.location.sequence_id
    if sequence is None or sequence in text or quoted(sequence) in text:
        return text
    return f"{text} (sequence {quoted(sequence)})"


def inspect_words(violation: Violation) -> list[str] | None:
    """The command that shows the datum of a violation, less ledger and such; None if it is in no file."""
    from provenance.engine.evaluate import GLOBAL_LEVELS

    at = violation.location
    # FMT findings and records may be of the ledger's files, which inspect does not read.
    in_datum = _declared(violation.code)[1] not in GLOBAL_LEVELS
    if not in_datum or at.row is None or at.file is None or at.file == "<stdin>":
        return None
    place = ("--row", at.row) if at.line is None else ("--line", at.line)
    file = f"./{at.file}" if at.file.startswith("-") else at.file
    return ["provenance", "inspect", file, place[0], str(place[1])]


def _declared(code: str) -> tuple[str, str]:
    from provenance.rules import registry

    rule = registry()[code]
    return rule.name, rule.at


def _not_checked(entries: Iterable[NotChecked], width: int | None) -> Iterator[str]:
    codes_of = reasons_of(entries)
    for reason, codes in islice(codes_of.items(), _REASONS):
        text = f"{escape(reason)}: {', '.join(codes)}"
        yield from wrap(text, width, indent=2, hang=4)
    if (more := len(codes_of) - _REASONS) > 0:
        yield f"  ... and for {count(more, 'more reason')}"
