"""What was found, rule by rule, in words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from provenance.engine.evaluate import GLOBAL_LEVELS
from provenance.report import Report, Violation, broken_codes, reasons_of
from provenance.reports.text import RUNS, clip, count, inspect_words, naming_sequence
from provenance.rules import registry

#: A datum's file and row.
Key = tuple[str | None, int | None]
#: Files that are listed.
_FILES: Final = 50
#: Why a rule was not checked that no reason kept from it.
_IDLE: Final = "there is nothing here that these rules judge"
#: A rule's page ends with it.
_EVIDENCE: Final = "Evidence: "


@dataclass(frozen=True, slots=True)
class Example:
    """One violation."""

    place: str
    """File and line or row; empty for what has none."""
    element: str
    """The field and its elements, empty where the violation is of no field."""
    message: str
    file: int | None
    """Number of its file."""
    anchor: str | None
    """Where the page shows its datum."""
    command: str | None
    """What shows its datum in a terminal, where the page does not."""


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that was broken."""

    code: str
    name: str
    severity: str
    violations: int
    datums: int
    size: str
    """Of what was found, in words."""
    summary: str
    why: str
    evidence: str
    examples: list[Example]

    @property
    def more(self) -> int:
        """Violations that are only counted."""
        return self.violations - len(self.examples)


@dataclass(frozen=True, slots=True)
class NotChecked:
    """What could not be judged for one reason."""

    reason: str
    codes: list[str]


@dataclass(frozen=True, slots=True)
class FileTable:
    """Files with the number of their datums, of those with errors, and of violations in them."""

    rows: list[tuple[str, int, int, int]]
    more: int
    """Files that are not listed."""


def key_of(violation: Violation) -> Key:
    """The datum that a violation is in."""
    return violation.location.file, violation.location.row


def files_of(report: Report) -> dict[str, int]:
    """The files of the violations that are kept, numbered."""
    names = sorted({at for violation in report if (at := violation.location.file) is not None})
    return {name: number for number, name in enumerate(names)}


def found_of(report: Report, files: Mapping[str, int], anchors: Mapping[Key, str]) -> list[Found]:
    """The rules that were broken: errors first, then by code."""
    shown: dict[str, list[Violation]] = {}
    for violation in report:
        shown.setdefault(violation.code, []).append(violation)
    return [_found(report, code, shown.get(code, []), files, anchors) for code in broken_codes(report)]


def not_checked_of(report: Report) -> list[NotChecked]:
    """The rules that could not be judged, by reason, and those that had nothing to judge."""
    reasons = reasons_of(report.not_checked)
    known = {entry.code for entry in report.not_checked} | report.codes()
    if idle := sorted(code for code in report.severities.keys() - known if not report.checked.get(code)):
        reasons[_IDLE] = idle
    return [NotChecked(clip(reason), codes) for reason, codes in reasons.items()]


def by_file(report: Report) -> FileTable:
    """What was found in which file, the worst first."""
    rows = [
        (clip(name), found.datums, found.bad_datums, sum(c.violations for c in found.counts.values()))
        for name, found in report.files.items()
    ]
    rows.sort(key=lambda row: row[2:], reverse=True)
    return FileTable(rows[:_FILES], max(len(rows) - _FILES, 0))


def _found(
    report: Report, code: str, shown: list[Violation], files: Mapping[str, int], anchors: Mapping[Key, str]
) -> Found:
    rule, found = registry()[code], report.counts[code]
    size = [count(found.violations, "violation")]
    size += [f"in {count(found.datums, 'datum')}"] if found.datums else []
    size += [f"{count(found.elements, rule.at)} in all"] if rule.at in RUNS else []
    why, _, evidence = " ".join(rule.doc.partition("\n")[2].split()).rpartition(_EVIDENCE)
    return Found(
        code=code,
        name=rule.name,
        severity=report.severities[code].value,
        violations=found.violations,
        datums=found.datums,
        size=", ".join(size).replace(", in ", " in "),
        summary=rule.summary,
        why=why,
        evidence=evidence,
        examples=[_example(violation, files, anchors) for violation in shown],
    )


def _example(violation: Violation, files: Mapping[str, int], anchors: Mapping[Key, str]) -> Example:
    at = violation.location
    anchor = anchors.get(key_of(violation))
    in_datum = registry()[violation.code].at not in GLOBAL_LEVELS
    words = inspect_words(violation) if anchor is None else None
    return Example(
        place=clip(str(replace(at, field=None, index=None))),
        element=clip(str(replace(at, file=None, row=None, line=None))),
        message=clip(naming_sequence(violation.message, violation)),
        file=None if at.file is None else files[at.file],
        anchor=anchor if in_datum else None,
        command=clip(shlex.join(words)) if words else None,
    )
