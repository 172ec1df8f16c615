"""What must not pass."""

from __future__ import annotations

from provenance.engine.run import Run
from provenance.engine.step import Step
from provenance.errors import ValidationError
from provenance.report import Severity


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
