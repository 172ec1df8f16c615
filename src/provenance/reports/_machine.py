"""What the formats for machines have in common: numbers in words, reasons by rule, places of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from provenance._text import count, escape
from provenance.report import Count, Report, Severity, verdict
from provenance.reports.text import RUNS
from provenance.rules import registry

__all__ = ["PLACELESS", "counted", "explained", "place_of", "reasons", "verdict_under"]

#: What stands for a file in the location of data that are in none.
PLACELESS = (None, "<stdin>", "ledger")


def verdict_under(report: Report, fail_on: Severity) -> str:
    """The verdict, after the warnings where these do not pass."""
    if report.valid and report.warnings and fail_on == Severity.WARNING:
        warnings = count(report.warnings, "warning")
        return f"{warnings}, which fail_on='warning' does not let pass; {verdict(report)}"
    return verdict(report)


def counted(code: str, found: Count) -> str:
    """``14 violations in 3 datums, 17 elements``."""
    level = registry()[code].at
    words = count(found.violations, "violation")
    words += f" in {count(found.datums, 'datum')}" if found.datums else ""
    return words + (f", {count(found.elements, level)}" if level in RUNS else "")


def explained(code: str) -> str:
    """Why a rule matters, what breaks it and what to do, as one paragraph."""
    return " ".join(registry()[code].doc.partition("\n")[2].split())


def reasons(report: Report) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Why rules were not checked at all, and why they were in part only, by code."""
    whole: dict[str, str] = {}
    partly: dict[str, str] = {}
    for entry in report.not_checked:
        of = partly if entry.code in report.checked else whole
        reason = escape(entry.reason)
        of[entry.code] = f"{of[entry.code]}; {reason}" if entry.code in of else reason
    return whole, partly


def place_of(file: str, root: str | None) -> str:
    """The path of a file from ``root``, with slashes; as it is where it lies outside of that.

    Args:
        file: as a report names it.
        root: a folder; None leaves relative paths as they are.
    """
    if root is None:
        return Path(file).as_posix()
    # By its own name first: a link in the folder may lead out of it, and the folder may be one itself.
    named = Path(os.path.abspath(file))  # noqa: PTH100 - resolve() would follow links
    for path, folder in product((named, Path(file).resolve()), (Path(root).absolute(), Path(root).resolve())):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return named.as_posix()
