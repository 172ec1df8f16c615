"""A report as HTML for notebooks: the verdict, a row for each broken rule with its first violations.

Of bounded size, whatever the report holds: ``--format html`` writes the page that has it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from provenance._html import BAD, FAINT, GOOD, cell, element, table, text_of
from provenance.report import Report, Violation, broken_codes, reasons_of, verdict

__all__ = ["report_to_html"]

#: Violations of each rule, and reasons why something was not checked, that are shown.
_EXAMPLES, _REASONS = 3, 10
#: Characters of a violation.
_LONGEST: Final = 300
_HEADS: Final = ("rule", "severity", "violations", "datums", "the first")


def report_to_html(report: Report) -> str:
    """The report as a fragment of HTML."""
    parts = [element("div", element("b", text_of(verdict(report))), GOOD if report.valid else BAD)]
    if report.counts:
        head = [cell(name, head="col") for name in _HEADS]
        parts.append(table([head, *_rules(report)]))
    if report.not_checked:
        parts.append(element("div", f"not checked: {'; '.join(_not_checked(report))}", FAINT))
    session = "no session" if report.session is None else f"session {text_of(repr(report.session))}"
    contract = f"contract {text_of(report.contract['loss'])}, {session}, {text_of(report.now)}"
    parts.append(element("div", contract, FAINT))
    return element("div", "".join(parts))


def _rules(report: Report) -> Iterator[list[str]]:
    shown: dict[str, list[Violation]] = {}
    for violation in report.violations:
        shown.setdefault(violation.code, []).append(violation)
    for code in broken_codes(report):
        found, first = report.counts[code], shown.get(code, [])[:_EXAMPLES]
        examples = [element("div", text_of(violation, _LONGEST)) for violation in first]
        if more := found.violations - len(first):
            examples.append(element("div", f"... and {more:,} more", FAINT))
        name = f" {text_of(first[0].name)}" if first else ""
        yield [
            cell(element("b", code) + name),
            cell(report.severities[code].value),
            cell(f"{found.violations:,}"),
            cell(f"{found.datums:,}"),
            cell("".join(examples)),
        ]


def _not_checked(report: Report) -> Iterator[str]:
    grouped = sorted(reasons_of(report.not_checked).items())
    for reason, codes in grouped[:_REASONS]:
        yield f"{', '.join(codes)} ({text_of(reason)})"
    if (more := len(grouped) - _REASONS) > 0:
        yield f"... and for {more:,} more reasons"
