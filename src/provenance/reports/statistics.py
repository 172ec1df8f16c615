"""How often each rule was broken: a line a rule, the most frequent first."""

from __future__ import annotations

from typing import Any

from provenance.report import Report, Severity
from provenance.reports.text import Paint, Role, plain, verdict, wrap
from provenance.rules import registry

__all__ = ["statistics", "statistics_to_text"]


def statistics(report: Report) -> list[dict[str, Any]]:
    """The rules that found something, by falling number of violations, as JSON-shaped data."""
    ordered = sorted(report.counts.items(), key=lambda item: (-item[1].violations, item[0]))
    return [
        {
            "code": code,
            "name": registry()[code].name,
            "severity": report.severities[code].value,
            **found.to_dict(),
        }
        for code, found in ordered
    ]


def statistics_to_text(report: Report, *, width: int | None = None, paint: Paint = plain) -> str:
    """A table of the rules that found something, and the verdict; without a last newline.

    Args:
        report: what a check found.
        width: columns of the terminal, for the verdict.
        paint: colours a piece of text.
    """
    rows = [
        (f"{row['violations']:,}", f"{row['datums']:,}" if row["datums"] else "-", row)
        for row in statistics(report)
    ]
    lines = []
    if rows:
        datums = max(len("datums"), *(len(number) for _, number, _ in rows))
        lines.append(paint(f"violations  {'datums':>{datums}}  severity  rule", "title"))
        for number, of_datums, row in rows:
            counts = f"{number:>10}  {of_datums:>{datums}}  {row['severity']:<8}  "
            # Where there is no room for the name, the code says which rule it is.
            fits = width is None or len(f"{counts}{row['code']} {row['name']}") <= width
            role: Role = "error" if row["severity"] == Severity.ERROR else "warning"
            lines.append(counts + paint(row["code"], role) + (f" {row['name']}" if fits else ""))
        lines.append("")
    role = "good" if report.valid else "error"
    return "\n".join([*lines, *(paint(line, role) for line in wrap(verdict(report), width, hang=0))])
