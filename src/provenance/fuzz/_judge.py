"""Who is asked whether a dataset is fine: a contract, or a function. `_command` asks a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Literal, TypeAlias

from provenance.errors import ValidationError
from provenance.fuzz._load import Unbroken
from provenance.mutations import Dataset, Mutation
from provenance.report import Report, Severity

#: The least severity that counts as caught.
FailOn: TypeAlias = Literal["error", "warning"]
#: A check of somebody's own: False, or an exception, refuses a dataset.
Check: TypeAlias = Callable[[Dataset], bool | None]


class Answer(Enum):
    """What was said to a dataset."""

    REFUSED = auto()
    WARNED = auto()
    ACCEPTED = auto()
    NONE = auto()
    """Nothing: who was asked came to no end."""
    UNASKED = auto()
    """Who is asked would be shown the unbroken data."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """An answer, and what it rests on."""

    answer: Answer
    by: tuple[str, ...] = ()
    note: str = ""


#: Asks about a dataset that a mutation broke.
Judge: TypeAlias = Callable[[Dataset, Mutation], Judgement]


def by_contract(unbroken: Unbroken, fail_on: FailOn) -> Judge:
    """Ask the dataset's own contract; what it warns of in the unbroken data does not count.

    Raises:
        ValidationError: the unbroken data are not valid.
    """
    before = unbroken.dataset.report(max_examples=1)
    if not before.valid:
        codes = ", ".join(sorted(before.codes(Severity.ERROR)))
        first = next(v for v in before if v.severity == Severity.ERROR)
        first = replace(first, location=unbroken.located(first.location))
        raise ValidationError(
            f"the data break {codes} before they are fuzzed, expected valid ones: {first}", before
        )

    def judge(dataset: Dataset, mutation: Mutation) -> Judgement:
        report = dataset.report(max_examples=0)
        more = {code for code in report.counts if _is_more(report, before, code)}
        errors = more & report.codes(Severity.ERROR)
        by = tuple(sorted(more))
        if errors or (more and fail_on == "warning"):
            return Judgement(Answer.REFUSED if errors else Answer.WARNED, by)
        return Judgement(Answer.ACCEPTED, by, _excuse(report, mutation))

    return judge


def _is_more(report: Report, before: Report, code: str) -> bool:
    """Whether a rule is broken more often than it was."""
    if code not in before.counts:
        return True
    now, then = report.counts[code], before.counts[code]
    return now.datums > then.datums or now.violations > then.violations or now.elements > then.elements


def _excuse(report: Report, mutation: Mutation) -> str:
    """Why rules that report a mutation did not, or did not as errors."""
    unchecked = {entry.code: entry.reason for entry in report.not_checked}
    reasons: dict[str, list[str]] = {}
    for code in mutation.fires:
        if code not in report.severities:
            reasons.setdefault("off in this contract", []).append(code)
        elif report.severities[code] == Severity.WARNING:
            reasons.setdefault("a warning", []).append(code)
        elif code in unchecked:
            reasons.setdefault(unchecked[code], []).append(code)
    return "; ".join(f"{', '.join(codes)}: {reason}" for reason, codes in reasons.items())


def by_function(check: Check, unbroken: Unbroken) -> Judge:
    """Ask a function.

    Raises:
        ValidationError: it refuses the unbroken data.
    """
    accepted, by, error = _call(check, unbroken.dataset.copy())
    if not accepted:
        what = f"raises {by}: {error}" if error is not None else f"returns {by}"
        raise ValidationError(f"the check {what} for the unbroken data, and should accept them") from error

    def judge(dataset: Dataset, mutation: Mutation) -> Judgement:  # noqa: ARG001 - Judge's signature
        accepted, by, _ = _call(check, dataset)
        return Judgement(Answer.ACCEPTED) if accepted else Judgement(Answer.REFUSED, (by,))

    return judge


def _call(check: Check, dataset: Dataset) -> tuple[bool, str, Exception | None]:
    try:
        result = check(dataset)
    except Exception as error:  # noqa: BLE001 - whatever a user's check raises is its way to refuse
        return False, type(error).__name__, error
    return result is None or bool(result), repr(result), None
