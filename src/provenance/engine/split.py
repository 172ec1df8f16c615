"""What a run finds about the datums of files, kept until these are copied to a good and a bad file."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from provenance.engine.evaluate import GLOBAL_LEVELS, Finding
from provenance.engine.locate import violations
from provenance.engine.sources import paths_of
from provenance.engine.step import Step
from provenance.errors import ReadError, SchemaError, WriteError
from provenance.formats import FileNotes, Note, is_arrow, split
from provenance.report import Location, Severity, Violation
from provenance.rules import registry

#: Messages that are kept of a bad datum, and characters of each.
_MESSAGES: Final = 5
_LENGTH: Final = 300
_ONCE: Final = "can be read once only, and sorting reads twice: save it to a file first"


class Split:
    """The files of a check, sorted datum by datum: ``add`` takes what a step found, ``write`` copies them."""

    def __init__(
        self, data: Any, good: str | os.PathLike[str] | None, bad: str | os.PathLike[str] | None, ledger: Any
    ) -> None:
        """Refuse what cannot be sorted before anything is read.

        Raises:
            SchemaError: ``data`` are no files.
            ReadError: A file cannot be read twice, or one holds lines and another is Arrow.
            WriteError: A target is one of the files that are read, or of the other family.
        """
        paths = paths_of(data)
        if paths is None:
            raise SchemaError(
                f"cannot sort a {type(data).__name__} into good and bad: write_good and write_bad need files"
            )
        self.paths = paths
        self._good = None if good is None else os.fspath(good)
        self._bad = None if bad is None else os.fspath(bad)
        self._before = [_fingerprint(path) for path in paths]
        self._files = {path: FileNotes() for path in paths}
        _refuse_mixture(paths)
        targets = [target for target in (self._good, self._bad) if target is not None]
        for target in targets:
            _refuse_target(target, paths)
        _refuse_overlap(targets, [*paths, *(paths_of(ledger) or ())])

    def add(self, step: Step, severity: Callable[[str], Severity]) -> None:
        """Keep the errors about datums that a step found."""
        if step.judged is None:
            return
        note(step, severity, self._files[str(step.judged.columns.file)])

    def write(self, max_line: int) -> None:
        """Copy the files; errors as for `formats.split`."""
        split(self._files, good=self._good, bad=self._bad, max_line=max_line, confirm=self._confirm)

    def _confirm(self) -> None:
        for path, before in zip(self.paths, self._before, strict=True):
            if _fingerprint(path) != before:
                raise ReadError(path, "changed since it was checked: check it again")


def note(step: Step, severity: Callable[[str], Severity], notes: FileNotes) -> None:
    """Add the errors about datums that a step found to the notes of their file."""
    for _, base, fault in step.faults:
        if severity(fault.code) == Severity.ERROR:
            if fault.row is None:
                noted = notes.whole = notes.whole or Note()
            else:
                noted = notes.bad.setdefault(base + fault.row, Note())
            noted.codes.add(fault.code)
            if len(noted.violations) < _MESSAGES:
                place = f"{fault.field}: " if fault.field else ""
                rule = f"{fault.code} {registry()[fault.code].name}"
                noted.violations.append(_clipped(f"{place}{rule}: {fault.message}"))
    for finding in step.findings:
        if severity(finding.rule.code) == Severity.ERROR and finding.rule.at not in GLOBAL_LEVELS:
            _keep(finding, notes)
    for finding in step.records:
        if severity(finding.rule.code) == Severity.ERROR:
            _keep_naming(finding, notes)


def _keep(finding: Finding, notes: FileNotes) -> None:
    """Keep which datums fail, and the messages that there is room for."""
    for row in finding.datums().tolist():
        notes.bad.setdefault(row, Note()).codes.add(finding.rule.code)
    rows = finding.batch.columns.row[finding.rows()[finding.first_of_runs()]].tolist()
    room = {row: _MESSAGES - len(notes.bad[row].violations) for row in set(rows)}
    chosen = []
    for run, row in enumerate(rows):
        if room[row] > 0:
            room[row] -= 1
            chosen.append(run)
    for violation in violations(finding, Severity.ERROR, runs=chosen):
        row = violation.location.row
        if row is not None:
            notes.bad[row].violations.append(_message(violation))


def _keep_naming(finding: Finding, notes: FileNotes) -> None:
    """Keep which datums name a failing record, and which record that is."""
    rule, ids = finding.rule, finding.batch.columns.ids
    for row, record in zip(*(numbers.tolist() for numbers in finding.naming()), strict=True):
        noted = notes.bad.setdefault(row, Note())
        noted.codes.add(rule.code)
        if len(noted.violations) < _MESSAGES:
            noted.violations.append(_clipped(f"{rule.code} {rule.name}: the record of {ids[record]!r}"))


def _message(violation: Violation) -> str:
    """The violation without file and row, which stand beside it."""
    at = violation.location
    place = Location(field=at.field, index=at.index, length=at.length)
    return _clipped(str(replace(violation, location=place)))


def _clipped(text: str) -> str:
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3] + "..."


def _fingerprint(path: str) -> tuple[int, ...] | None:
    """What changes when somebody writes to the file; None where there is none, which reading it will say."""
    if path == "-":
        raise ReadError("<stdin>", _ONCE)
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise ReadError(path, _ONCE)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _refuse_mixture(paths: list[str]) -> None:
    for path in paths:
        if is_arrow(path) != is_arrow(paths[0]):
            raise ReadError(
                path,
                f"is {_family(path)}, and {paths[0]} is {_family(paths[0])}: sort them one by one, or use "
                "provenance convert on one of them first",
            )


def _refuse_target(target: str, paths: list[str]) -> None:
    if target == "-":
        raise WriteError("<stdout>", "is where the report goes, expected the name of a file")
    if is_arrow(target, WriteError) != is_arrow(paths[0]):
        raise WriteError(
            target,
            f"would be {_family(target)}, and {paths[0]} is {_family(paths[0])}: rows are copied as they "
            "are, use provenance convert before or after",
        )


def _family(path: str) -> str:
    return "Arrow" if is_arrow(path) else "lines of JSON"


def _refuse_overlap(targets: list[str], read: list[str]) -> None:
    taken = {os.path.realpath(path) for path in read}
    for target in targets:
        place = os.path.realpath(target)
        if place in taken:
            raise WriteError(target, "is read or written as something else too, expected a file of its own")
        taken.add(place)
