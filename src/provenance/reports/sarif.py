"""Reports as SARIF 2.1.0, which code scanning and editors read: a result for each violation that is kept.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from provenance._text import clip, escape
from provenance.report import Location, NotChecked, Report, Severity, Violation
from provenance.reports._machine import PLACELESS, place_of
from provenance.reports.json import dumps
from provenance.reports.text import violation_to_text
from provenance.rules import registry

__all__ = ["report_to_sarif"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
#: Has a result for each violation that is kept, and notifications for what was not checked.
_ELSEWHERE: Final = ("violations", "not_checked", "version")


def report_to_sarif(report: Report, *, root: str | None = None, fail_on: Severity = Severity.ERROR) -> str:
    """The report as a SARIF log of one run, in ASCII, without a last newline.

    Exact counts, and what was checked, are properties of the run, and those of files, of its artifacts.

    Args:
        report: what a check found.
        root: the folder that files are named from; None leaves relative names as they are.
        fail_on: the least severity that made the exit code 1.
    """
    codes = sorted(report.severities)
    files = {file: index for index, file in enumerate(_files(report))}
    failed = report.errors or (report.warnings and fail_on == Severity.WARNING)
    run = {
        "tool": {
            "driver": {
                "name": "provenance",
                "fullName": f"provenance {report.version}",
                "version": report.version,
                "semanticVersion": report.version,
                "shortDescription": {"text": "Checks RL training data against the contract of a loss."},
                "rules": [_rule(code, report.severities[code]) for code in codes],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": int(bool(failed)),
                "toolConfigurationNotifications": [
                    _notification(entry, codes) for entry in report.not_checked
                ],
            }
        ],
        "artifacts": [_artifact(report, file, root) for file in files],
        "results": [_result(violation, codes, files, root) for violation in report],
        "properties": {name: value for name, value in report.to_dict().items() if name not in _ELSEWHERE},
    }
    return dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _files(report: Report) -> Iterator[str]:
    named = (violation.location.file for violation in report)
    return (file for file in dict.fromkeys([*report.files, *named]) if file not in PLACELESS)


def _rule(code: str, severity: Severity) -> dict[str, Any]:
    rule = registry()[code]
    why = rule.doc.partition("\n")[2].strip()
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": _text(rule.summary)},
        "fullDescription": {"text": _text(" ".join(why.split("\n\n")[0].split()))},
        "help": {"text": _text(f"{why}\n\nprovenance explain {code}")},
        "defaultConfiguration": {"level": severity.value},
        "properties": {"evidence": rule.evidence, "level": rule.at},
    }


def _notification(entry: NotChecked, codes: list[str]) -> dict[str, Any]:
    message = _text(f"{entry.code} not checked: {escape(entry.reason)}")
    notification: dict[str, Any] = {"level": "note", "message": {"text": message}}
    if entry.code in codes:  # of a rule that is off it tells what it kept others from
        notification["associatedRule"] = {"id": entry.code, "index": codes.index(entry.code)}
    return notification


def _artifact(report: Report, file: str, root: str | None) -> dict[str, Any]:
    artifact: dict[str, Any] = {"location": {"uri": _uri(file, root)}}
    if found := report.files.get(file):
        artifact["properties"] = {
            "datums": found.datums,
            "bad_datums": found.bad_datums,
            "counts": {code: count.to_dict() for code, count in sorted(found.counts.items())},
        }
    return artifact


def _result(
    violation: Violation, codes: list[str], files: Mapping[str, int], root: str | None
) -> dict[str, Any]:
    at = violation.location
    location: dict[str, Any] = {}
    uri = None
    if at.file is not None and at.file in files:
        uri = _uri(at.file, root)
        location["physicalLocation"] = {"artifactLocation": {"uri": uri, "index": files[at.file]}}
        if at.line is not None:
            location["physicalLocation"]["region"] = {"startLine": at.line}
    if at.row is not None or at.field:
        location["logicalLocations"] = [_logical(at)]
    return {
        "ruleId": violation.code,
        "ruleIndex": codes.index(violation.code),
        "level": violation.severity.value,
        "message": {"text": _text(violation_to_text(violation))},
        "locations": [location] if location else [],
        "partialFingerprints": {"place/v1": _fingerprint(violation, uri)},
        "properties": _properties(at),
    }


def _logical(at: Location) -> dict[str, Any]:
    name = str(replace(at, file=None, row=None, line=None))
    datum = "" if at.row is None else f"rows[{at.row}]"
    kind = "object" if not name else "property" if at.index is None else "value"
    full = ".".join(filter(None, (datum, name)))
    return {"name": _shown(name or datum), "fullyQualifiedName": _shown(full), "kind": kind}


def _properties(at: Location) -> dict[str, Any]:
    values = {"row": at.row, "field": at.field, "index": at.index, "length": at.length}
    values["sequence_id"] = at.sequence_id
    return {k: _shown(v) if isinstance(v, str) else v for k, v in values.items() if v is not None}


def _fingerprint(violation: Violation, uri: str | None) -> str:
    """The same for the same fault at the same place, whatever the message says."""
    at = violation.location
    place = dumps([violation.code, uri, at.row, at.field, at.index, at.sequence_id])
    return hashlib.sha256(place.encode("ascii")).hexdigest()[:32]


def _uri(file: str, root: str | None) -> str:
    path = place_of(file, root)
    encoded = quote(os.fsencode(path.lstrip("/")))
    return f"file:///{encoded}" if Path(path).is_absolute() else encoded


def _shown(text: str) -> str:
    """Text from data."""
    return escape(clip(text))


def _text(text: str) -> str:
    """A message string: braces would be placeholders, and a bracket before a parenthesis a link."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "] (")
