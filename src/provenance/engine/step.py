"""What one step of a run found, and its violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from provenance.columns import Columns, Fault, Ints
from provenance.engine.evaluate import GLOBAL_LEVELS, Finding
from provenance.engine.judge import Judged
from provenance.engine.locate import failing_in, records_in_order, violations
from provenance.engine.part import NOWHERE, Example
from provenance.report import Location, Severity, Violation
from provenance.rules import registry


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step of a run found: a batch of datums, a ledger's file, the configuration, or the whole."""

    findings: list[Finding]
    faults: list[tuple[str | None, int, Fault]]
    """Faults with their file and the number of its record that the fault's rows count from."""
    judged: Judged | None = None
    checked: Mapping[str, int] = field(default_factory=dict)
    """Code -> elements that the rule judged."""
    records: Sequence[Finding] = ()
    """Those about records, also of records that an earlier batch named: nothing vouches for a datum that
    names a failing one."""

    def codes(self) -> list[str]:
        """Codes of the rules that found something."""
        found = {finding.rule.code for finding in self.findings if len(finding.failing)}
        return sorted(found | {fault.code for _, _, fault in self.faults})

    def bad_datums(self, severity: Callable[[str], Severity]) -> Ints:
        """Datums with an error, or whose record has one, by their numbers in the file, maybe repeated."""
        faults = [
            base + fault.row
            for _, base, fault in self.faults
            if fault.row is not None and severity(fault.code) == Severity.ERROR
        ]
        findings = [
            finding.datums()
            for finding in self.findings
            if len(finding.failing) and severity(finding.rule.code) == Severity.ERROR
        ]
        records = [f.naming()[0] for f in self.records if severity(f.rule.code) == Severity.ERROR]
        return np.concatenate([np.array(faults, np.int64), *findings, *records])

    def of_datum(self, number: int) -> Step:
        """What was found in one datum, by its number in the batch; the records that it names are left out."""
        if self.judged is None:
            return Step([], [])
        row = int(self.judged.columns.row[number])
        findings = [
            replace(finding, failing=failing_in(finding, row))
            for finding in self.findings
            if finding.rule.at not in GLOBAL_LEVELS
        ]
        return Step(
            [finding for finding in findings if len(finding.failing)],
            [fault for fault in self.faults if fault[2].row == number],
            self.judged,
        )

    def violations(self, code: str, severity: Severity, limit: int | None) -> list[Violation]:
        """Violations of one rule in their order, at most ``limit``."""
        return [example.violation for example in self.examples(code, severity, limit)]

    def examples(self, code: str, severity: Severity, limit: int | None, *, before: int = 0) -> list[Example]:
        """Violations of one rule in their order, at most ``limit``; ``before``: datums that were judged."""
        found = [
            Example(
                NOWHERE if fault.row is None or self.judged is None else (before + fault.row, 0),
                _of_fault(severity, file, base, fault),
            )
            for file, base, fault in self.faults
            if fault.code == code
        ]
        for finding in self.findings:
            if finding.rule.code == code:
                found += self._located(finding, severity, limit, before)
        return sorted(found, key=lambda example: example.place)[:limit]

    def _located(
        self, finding: Finding, severity: Severity, limit: int | None, before: int
    ) -> Iterator[Example]:
        if finding.rule.at == "record":
            places, ordered = records_in_order(finding)
            yield from map(Example, places, violations(ordered, severity, limit))
            return
        for violation in violations(finding, severity, limit):
            columns = None if self.judged is None else self.judged.columns
            if finding.rule.at in GLOBAL_LEVELS or columns is None:
                yield Example(NOWHERE, violation)
            elif finding.rule.at == "sequence":
                yield Example(place_of_mention(columns, violation.location, before), violation)
            else:
                yield Example((before + _number_of(columns, violation.location), 0), violation)


def place_of_mention(columns: Columns, location: Location, before: int) -> tuple[int, int]:
    """Where a datum of a batch mentions a sequence, in the order of a dataset; ``before``: datums before."""
    index = location.index if isinstance(location.index, int) else 0
    return before + _number_of(columns, location), index


def _number_of(columns: Columns, location: Location) -> int:
    """The number, in its batch, of the datum at a place."""
    return int(np.searchsorted(columns.row, location.row or 0))


def _of_fault(severity: Severity, file: str | None, base: int, fault: Fault) -> Violation:
    return Violation(
        code=fault.code,
        name=registry()[fault.code].name,
        severity=severity,
        location=Location(
            file=file,
            row=None if fault.row is None else base + fault.row,
            line=fault.line,
            field=fault.field or None,
        ),
        message=fault.message,
    )
