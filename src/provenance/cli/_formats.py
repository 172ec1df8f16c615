"""What ``--format`` names beside text and jsonl: documents that a report becomes as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from provenance.cli._common import say

if TYPE_CHECKING:
    from provenance.report import Report, Severity

__all__ = ["DOCUMENTS", "add_job_summary", "refuse_without_libraries"]


def _json(report: Report, fail_on: Severity) -> str:  # noqa: ARG001 - the signature of all
    from provenance.reports.json import report_to_json

    return report_to_json(report)


def _junit(report: Report, fail_on: Severity) -> str:
    from provenance.reports.junit import report_to_junit

    return report_to_junit(report, fail_on=fail_on)


def _github(report: Report, fail_on: Severity) -> str:
    from provenance.reports.github import report_to_annotations

    return report_to_annotations(report, root=_root(), fail_on=fail_on)


def _sarif(report: Report, fail_on: Severity) -> str:
    from provenance.reports.sarif import report_to_sarif

    return report_to_sarif(report, root=_root(), fail_on=fail_on)


def _html(report: Report, fail_on: Severity) -> str:
    from provenance.reports.html import report_to_html

    return report_to_html(report, fail_on=fail_on)


DOCUMENTS: Final[Mapping[str, Callable[[Report, Severity], str]]] = {
    "json": _json,
    "junit": _junit,
    "github": _github,
    "sarif": _sarif,
    "html": _html,
}
"""Name of a format -> the report in it, and the least severity that makes the exit code 1."""


def refuse_without_libraries(format_: str) -> None:
    """Refuse a format that cannot be written here: before the check, which may take long."""
    if format_ != "html":
        return
    from importlib.util import find_spec

    from provenance.errors import MissingDependencyError

    for module in ("jinja2", "vl_convert"):
        if find_spec(module) is None:
            raise MissingDependencyError(module, "html")


def add_job_summary(report: Report, fail_on: Severity) -> None:
    """Append to the summary of the job's step, where GitHub has named a file for it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from provenance.reports.github import SUMMARY_LIMIT, report_to_summary

    try:
        written = Path(path).stat().st_size if Path(path).exists() else 0
        # GitHub drops a summary that is too long as a whole, with what others wrote.
        room = SUMMARY_LIMIT - written - 1
        summary = report_to_summary(report, limit=room, fail_on=fail_on)
        if len(summary.encode()) > room:
            say("note", f"{path}: no room left for the report in the summary of this step")
            return
        with Path(path).open("a", encoding="utf-8") as stream:
            # What stands before it may be a paragraph.
            stream.write(("\n" if written else "") + summary)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        say("note", f"{path}: the summary of this step is not written: {reason}")


def _root() -> str:
    """The folder that code hosts name files from."""
    return os.environ.get("GITHUB_WORKSPACE") or os.getcwd()  # noqa: PTH109 - as text
