"""What a step of a run found, datum by datum."""

from __future__ import annotations

import numpy as np

from provenance.columns import Ints
from provenance.engine.run import Run
from provenance.engine.step import Step
from provenance.errors import ValidationError
from provenance.report import Severity


def bad_datums(run: Run, step: Step) -> Ints:
    """The numbers of the datums in which a step found an error."""
    rows = [
        finding.datums()
        for finding in step.findings
        if run.tally.severity(finding.rule.code) == Severity.ERROR
    ]
    faults = [
        base + fault.row
        for _, base, fault in step.faults
        if run.tally.severity(fault.code) == Severity.ERROR and fault.row is not None
    ]
    return np.concatenate([np.array(faults, np.int64), *rows])


def refuse(run: Run, step: Step) -> None:
    """Let no error pass.

    Raises:
        ValidationError: there is one; the message has the first.
    """
    errors = [
        violation
        for code in step.codes()
        if run.tally.severity(code) == Severity.ERROR
        for violation in step.violations(code, Severity.ERROR, 1)
    ]
    if errors:
        first = min(errors, key=lambda violation: violation.location.row or 0)
        raise ValidationError(f"the {run.contract.loss.name} contract is broken: {first}", run.report())
