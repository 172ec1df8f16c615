"""What a check found: violations with their place, exact counts, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from provenance._text import count

if TYPE_CHECKING:
    from provenance.observations import Observations


class Severity(StrEnum):
    """How much a violation weighs. ``off`` rules are not run."""

    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a violation is. What does not apply is None."""

    file: str | None = None
    row: int | None = None
    """Number of the datum (or sequence record) in its file or list, from 0."""
    line: int | None = None
    """Physical line, from 1, where the file has lines."""
    field: str | None = None
    index: int | tuple[int, int] | None = None
    """First failing element of the field, from 0; (i, k) in an (N, K) tensor."""
    length: int | None = None
    """Number of failing elements from there."""
    sequence_id: str | None = None

    def __str__(self) -> str:
        parts = [self.file] if self.file else []
        if self.line is not None:
            parts.append(f"line {self.line}")
        elif self.row is not None:
            parts.append(f"row {self.row}")
        if self.field:
            parts.append(self.field + self._subscript())
        return ": ".join(parts)

    def _subscript(self) -> str:
        if self.index is None:
            return ""
        if isinstance(self.index, tuple):
            return f"[{self.index[0]}, {self.index[1]}]"
        if self.length is None or self.length == 1:
            return f"[{self.index}]"
        return f"[{self.index}:{self.index + self.length}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule broken at one place: an element, or a contiguous run of positions."""

    code: str
    name: str
    severity: Severity
    location: Location
    message: str

    def __str__(self) -> str:
        where = str(self.location)
        text = f"{self.code} {self.name}: {self.message}"
        return f"{where}: {text}" if where else text

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: one flat object."""
        at = self.location
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.value,
            "file": at.file,
            "row": at.row,
            "line": at.line,
            "field": at.field,
            "index": list(at.index) if isinstance(at.index, tuple) else at.index,
            "length": at.length,
            "sequence_id": at.sequence_id,
            "message": self.message,
        }


@dataclass(slots=True)
class Count:
    """How often a rule was broken. Violations of records, config and dataset count no datums."""

    datums: int = 0
    violations: int = 0
    elements: int = 0

    def add(self, other: Count) -> None:
        """Add another count to this one."""
        self.datums += other.datums
        self.violations += other.violations
        self.elements += other.elements

    def to_dict(self) -> dict[str, int]:
        """The JSON form."""
        return {"datums": self.datums, "violations": self.violations, "elements": self.elements}


@dataclass(slots=True)
class FileCount:
    """What was found in the datums of one file."""

    datums: int = 0
    bad_datums: int = 0
    """Datums with at least one error."""
    counts: dict[str, Count] = field(default_factory=dict)
    """Rules that its datums break, by code."""
    judged: frozenset[str] = frozenset()
    """Codes of the rules that judged something of it."""

    def add(self, other: FileCount) -> None:
        """Add what was found in more datums of the file."""
        self.datums += other.datums
        self.bad_datums += other.bad_datums
        for code, found in other.counts.items():
            self.counts.setdefault(code, Count()).add(found)
        self.judged |= other.judged


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule, or a part of one, that could not be judged, and why."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """The verdict on a dataset. Counts are exact; ``violations`` holds the first few of each rule."""

    datums: int
    positions: int
    bad_datums: int
    """Datums with at least one error, or that name a record with one, so that nothing vouches for them."""
    counts: Mapping[str, Count]
    """Rules that were broken, by code."""
    checked: Mapping[str, int]
    """How many elements each rule judged, by code."""
    violations: tuple[Violation, ...]
    not_checked: tuple[NotChecked, ...]
    severities: Mapping[str, Severity]
    """Severity of every rule of the contract that is not off, by code."""
    contract: Mapping[str, Any]
    session: str | None
    now: str
    version: str
    ruleset: int
    files: Mapping[str, FileCount] = field(default_factory=dict)
    """What was found in each file of datums, in their order; no part of the JSON form.
    Records, and the dataset as a whole, are in none."""
    observations: Observations | None = None
    """What was seen beside violations, where that was asked for; no part of the JSON form."""

    @property
    def valid(self) -> bool:
        """No error was found."""
        return self.errors == 0

    @property
    def errors(self) -> int:
        """Number of violations that are errors."""
        return self._total(Severity.ERROR)

    @property
    def warnings(self) -> int:
        """Number of violations that are warnings."""
        return self._total(Severity.WARNING)

    @property
    def good_datums(self) -> int:
        """Datums without an error."""
        return self.datums - self.bad_datums

    def _total(self, severity: Severity) -> int:
        return sum(c.violations for code, c in self.counts.items() if self.severities[code] == severity)

    def codes(self, severity: Severity | None = None) -> set[str]:
        """Codes of the rules that were broken, of one severity or of all."""
        return {c for c in self.counts if severity is None or self.severities[c] == severity}

    def by_datum(self) -> dict[tuple[str | None, int], list[Violation]]:
        """The violations that are kept, by (file, row) of their datum; those of the ledger have none."""
        grouped: dict[tuple[str | None, int], list[Violation]] = {}
        for violation in self.violations:
            file, row = violation.location.file, violation.location.row
            if row is not None and (file is None or file in self.files):
                grouped.setdefault((file, row), []).append(violation)
        return grouped

    def __repr__(self) -> str:
        verdict = "valid" if self.valid else "invalid"
        return (
            f"<Report: {verdict}, {self.bad_datums} of {self.datums} datums bad, "
            f"{count(self.errors, 'error')}, {count(self.warnings, 'warning')}>"
        )

    def _repr_html_(self) -> str:
        from provenance._report_html import report_to_html

        return report_to_html(self)

    def __iter__(self) -> Iterator[Violation]:
        return iter(self.violations)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``--format json`` prints it."""
        return {
            "valid": self.valid,
            "datums": self.datums,
            "positions": self.positions,
            "bad_datums": self.bad_datums,
            "counts": {code: count.to_dict() for code, count in sorted(self.counts.items())},
            "checked": dict(sorted(self.checked.items())),
            "violations": [v.to_dict() for v in self.violations],
            "not_checked": [{"code": n.code, "reason": n.reason} for n in self.not_checked],
            "contract": dict(self.contract),
            "session": self.session,
            "now": self.now,
            "version": self.version,
            "ruleset": self.ruleset,
        }

    def to_html(self, *, fail_on: Severity = Severity.ERROR) -> str:
        """The report as one HTML page, as ``--format html`` prints it. Needs the extra ``html``.

        Span maps and distributions are on it where ``check`` was asked to ``observe``.

        Args:
            fail_on: the least severity that data do not pass with.

        Raises:
            MissingDependencyError: jinja2 or vl-convert-python is not installed.
        """
        from provenance.reports.html import report_to_html

        return report_to_html(self, fail_on=fail_on)


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
        where = [f"{errors} outside the datums", count(report.datums, "datum")]
    else:
        have = "has" if report.bad_datums == 1 else "have"
        where = [f"{report.bad_datums:,} of {count(report.datums, 'datum')} {have} errors", errors]
    return "invalid: " + ", ".join(where + warnings + rules)


def broken_codes(report: Report) -> list[str]:
    """Codes of the rules that were broken: those of errors first, then by code."""
    return sorted(report.codes(), key=lambda code: (report.severities[code] != Severity.ERROR, code))


def reasons_of(entries: Iterable[NotChecked]) -> dict[str, list[str]]:
    """Why rules were not checked, in the order of the entries -> the codes of these rules, sorted."""
    codes: dict[str, set[str]] = {}
    for entry in entries:
        codes.setdefault(entry.reason, set()).add(entry.code)
    return {reason: sorted(of_reason) for reason, of_reason in codes.items()}
