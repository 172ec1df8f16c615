"""Reports for GitHub Actions: annotations of files, and the summary of a job.

GitHub shows ten annotations of each level for a step, and refuses a summary of more than 1 MiB; both keep
within that, and say what they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape as escape_html
from itertools import chain, zip_longest
from typing import Final

from provenance._text import count, escape
from provenance.report import NotChecked, Report, Severity, Violation, broken_codes, reasons_of
from provenance.reports._machine import PLACELESS, counted, explained, place_of, verdict_under
from provenance.reports.text import violation_to_text
from provenance.rules import registry

__all__ = ["SUMMARY_LIMIT", "report_to_annotations", "report_to_summary"]

SUMMARY_LIMIT: Final = 1 << 20
"""Bytes that the summary of a step may have."""

_SHOWN: Final = 10
_EXAMPLES: Final = 5


def report_to_annotations(
    report: Report, *, root: str | None = None, fail_on: Severity = Severity.ERROR
) -> str:
    """Workflow commands, a line each, and the verdict; without a last newline.

    Args:
        report: what a check found.
        root: the folder that GitHub names files from; None leaves their names as they are.
        fail_on: the least severity that fails, which the verdict tells.
    """
    lines = []
    for severity in (Severity.ERROR, Severity.WARNING):
        shown = list(_of_each_rule(v for v in report if v.severity == severity))[:_SHOWN]
        lines += [_annotation(violation, root) for violation in shown]
    found = report.errors + report.warnings
    if more := found - len(lines):
        words = f"{count(more, 'violation')} beside those that are annotated"
        lines.append(_command("notice", {"title": "provenance"}, words))
    return "\n".join([*lines, verdict_under(report, fail_on)])


def report_to_summary(
    report: Report, *, limit: int = SUMMARY_LIMIT, fail_on: Severity = Severity.ERROR
) -> str:
    """Markdown for ``$GITHUB_STEP_SUMMARY``, with the blank line that ends it.

    It is one block of HTML, in which nothing is read as Markdown.

    Args:
        report: what a check found.
        limit: bytes that it may have; rules for whose examples there is no room are in its table alone.
        fail_on: the least severity that fails, which the verdict tells.
    """
    head = ["<h3>provenance check</h3>", f"<p>{_html(verdict_under(report, fail_on))}</p>", *_table(report)]
    tail = [*_not_checked(report.not_checked), "", ""]
    room = limit + 1 - sum(len(line.encode()) + 1 for line in (*head, *tail))
    details: list[str] = []
    for block in _details(report):
        room -= len(block.encode()) + 1
        if room < 0:
            break
        details.append(block)
    return "\n".join([*head, *details, *tail])


def _of_each_rule(violations: Iterable[Violation]) -> Iterator[Violation]:
    """The first of each rule, then the second of each, and so on: no rule hides another."""
    by_code: dict[str, list[Violation]] = {}
    for violation in violations:
        by_code.setdefault(violation.code, []).append(violation)
    return (v for v in chain.from_iterable(zip_longest(*by_code.values())) if v is not None)


def _annotation(violation: Violation, root: str | None) -> str:
    at = violation.location
    properties = {"title": f"{violation.code} {violation.name}"}
    if at.file is not None and at.file not in PLACELESS:
        properties["file"] = escape(place_of(at.file, root))
        if at.line is not None:
            properties["line"] = str(at.line)
    rule = registry()[violation.code]
    message = f"{violation_to_text(violation)}\n{rule.summary} What to do: provenance explain {rule.code}"
    return _command(violation.severity.value, properties, message)


def _command(name: str, properties: Mapping[str, str], message: str) -> str:
    """A workflow command, as the toolkit's ``issueCommand`` writes it."""
    values = ",".join(
        f"{key}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for key, value in properties.items()
    )
    return f"::{name} {values}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _table(report: Report) -> Iterator[str]:
    broken = broken_codes(report)
    if not broken:
        return
    yield "<table><tr><th>rule</th><th>severity</th><th>violations</th><th>datums</th></tr>"
    for code in broken:
        rule, found = registry()[code], report.counts[code]
        cells = (f"{code} {rule.name}", report.severities[code].value)
        datums = f"{found.datums:,}" if found.datums else ""
        numbers = f'<td align="right">{found.violations:,}</td><td align="right">{datums}</td>'
        yield f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in cells)}{numbers}</tr>"
    yield "</table>"


def _details(report: Report) -> Iterator[str]:
    for code in broken_codes(report):
        rule, found = registry()[code], report.counts[code]
        examples = [v for v in report if v.code == code][:_EXAMPLES]
        lines = [f"<li><code>{_html(violation_to_text(v))}</code></li>" for v in examples]
        more = found.violations - len(examples)
        words = f"{rule.summary} {explained(code)}"
        yield "\n".join(
            [
                f"<details><summary>{code} {_html(rule.name)}: {_html(counted(code, found))}</summary>",
                f"<p>{_html(words)} More: <code>provenance explain {code}</code></p>",
                *(["<ul>", *lines, "</ul>"] if lines else []),
                *([f"<p>... and {more:,} more</p>"] if more else []),
                "</details>",
            ]
        )


def _not_checked(entries: Iterable[NotChecked]) -> Iterator[str]:
    if codes_of := reasons_of(entries):
        yield f"<details><summary>not checked: {count(len(codes_of), 'reason')}</summary>"
        yield "<ul>"
        for reason, codes in codes_of.items():
            yield f"<li>{_html(reason)}: {', '.join(codes)}</li>"
        yield "</ul>"
        yield "</details>"


def _html(text: str) -> str:
    return escape_html(escape(text))
