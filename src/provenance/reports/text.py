"""Reports as text for people: violations grouped by rule, what was not checked, and a verdict.

Colour is the caller's: `paint` gets a piece of text and what it is. Everything that comes from data is
escaped, so that an id cannot steer the terminal that shows it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

from provenance.report import NotChecked, Report, Severity, Violation

__all__ = ["Paint", "Role", "clip", "count", "escape", "plain", "report_to_text", "verdict", "wrap"]

Role = Literal["error", "warning", "good", "title", "hint", "prompt", "sampled"]
Paint = Callable[[str, Role], str]

#: Rules of these levels report contiguous runs, so one violation may have several elements.
_RUNS: Final = frozenset({"position", "element"})
_LONGEST: Final = 600
_REASONS: Final = 20
_HINTED: Final = 3


def plain(text: str, role: Role) -> str:  # noqa: ARG001 - the signature is Paint's
    """Paint nothing."""
    return text


def escape(text: str) -> str:
    r"""Text with what is unprintable (controls, bidirectional marks, lone surrogates) as \x1b or \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def clip(text: str) -> str:
    """Text cut to a length that a person may read, with its full length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def count(number: int, noun: str) -> str:
    """``1 datum``, ``20,000 datums``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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
    return "\n".join(_lines(report, width, paint, hints))


def verdict(report: Report) -> str:
    """One line: whether the data are valid, and what was looked at."""
    warnings = [count(report.warnings, "warning")] if report.warnings else []
    unchecked = {n.code for n in report.not_checked}
    whole = unchecked - set(report.checked)
    rules = [f"{count(len(report.checked), 'rule')} checked"]
    rules += [f"{len(whole):,} not checked"] if whole else []
    rules += [f"{len(unchecked - whole):,} checked in part"] if unchecked - whole else []
    if report.valid:
        sizes = [count(report.datums, "datum"), count(report.positions, "position")]
        return "valid: " + ", ".join(sizes + rules + warnings)
    broken = count(len(report.codes(Severity.ERROR)), "rule")
    errors = f"{count(report.errors, 'error')} of {broken}"
    if not report.bad_datums:
        where = [f"{errors} in the dataset as a whole", count(report.datums, "datum")]
    else:
        have = "has" if report.bad_datums == 1 else "have"
        where = [f"{report.bad_datums:,} of {count(report.datums, 'datum')} {have} errors", errors]
    return "invalid: " + ", ".join(where + warnings + rules)


def _lines(report: Report, width: int | None, paint: Paint, hints: Iterable[str]) -> Iterator[str]:
    shown: dict[str, list[Violation]] = {}
    for violation in report.violations:
        shown.setdefault(violation.code, []).append(violation)
    broken = sorted(report.codes(), key=lambda c: (report.severities[c] != Severity.ERROR, c))
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
    role: Role = "good" if report.valid else "error"
    yield from (paint(line, role) for line in wrap(verdict(report), width, hang=0))


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
    elements = f", {count(found.elements, noun)}" if level in _RUNS else ""
    title = f"{severity.value} {code} {name}: {count(found.violations, 'violation')}{where}{elements}"
    for line in wrap(title, width, hang=0):
        yield paint(line, role)
    for violation in shown:
        for line in wrap(_violation(violation), width, indent=2, hang=4):
            yield line.replace(code, paint(code, role), 1)
    if more := found.violations - len(shown):
        yield f"  ... and {more:,} more"


def _violation(violation: Violation) -> str:
    text = str(violation)
    sequence = violation.location.sequence_id
    if sequence is not None and sequence not in text and repr(sequence) not in text:
        text += f" (sequence {sequence!r})"
    return escape(clip(text))


def _declared(code: str) -> tuple[str, str]:
    from provenance.rules import registry

    rule = registry()[code]
    return rule.name, rule.at


def _not_checked(entries: Iterable[NotChecked], width: int | None) -> Iterator[str]:
    codes_of: dict[str, list[str]] = {}
    for entry in entries:
        codes = codes_of.setdefault(entry.reason, [])
        if entry.code not in codes:
            codes.append(entry.code)
    for reason, codes in list(codes_of.items())[:_REASONS]:
        text = f"{escape(reason)}: {', '.join(sorted(codes))}"
        yield from wrap(text, width, indent=2, hang=4)
    if (more := len(codes_of) - _REASONS) > 0:
        yield f"  ... and for {count(more, 'more reason')}"
