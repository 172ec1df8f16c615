"""What one step of a run found, and its violations."""

from __future__ import annotations

from dataclasses import dataclass

from provenance.columns import Fault
from provenance.engine.evaluate import Finding
from provenance.engine.judge import Judged
from provenance.engine.locate import violations
from provenance.report import Location, Severity, Violation
from provenance.rules import registry


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one step of a run found: a batch of datums, a ledger's file, the configuration, or the whole."""

    findings: list[Finding]
    faults: list[tuple[str | None, int, Fault]]
    """Faults with their file and the number of its record that the fault's rows count from."""
    judged: Judged | None = None

    def codes(self) -> list[str]:
        """Codes of the rules that found something."""
        found = {finding.rule.code for finding in self.findings if len(finding.failing)}
        return sorted(found | {fault.code for _, _, fault in self.faults})

    def violations(self, code: str, severity: Severity, limit: int | None) -> list[Violation]:
        """Violations of one rule in the order of their datums, at most ``limit``."""
        located = [_of_fault(severity, *fault) for fault in self.faults if fault[2].code == code]
        for finding in self.findings:
            if finding.rule.code == code:
                located += violations(finding, severity, limit)
        return sorted(located, key=_row)[:limit]


def _row(violation: Violation) -> int:
    return -1 if violation.location.row is None else violation.location.row


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
