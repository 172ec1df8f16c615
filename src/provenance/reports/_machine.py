"""What the formats for machines have in common: numbers in words, reasons by rule, places of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from provenance._text import count, escape
from provenance.report import Count, Report
from provenance.reports.text import RUNS
from provenance.rules import registry

__all__ = ["PLACELESS", "counted", "explained", "place_of", "reasons"]

#: What stands for a file in the location of data that are in none.
PLACELESS = (None, "<stdin>", "ledger")


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
    path = Path(os.path.abspath(file))  # noqa: PTH100 - a link keeps its own name, as resolve() would not
    folder = Path(root)
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()
