"""What came out: a trial for each mutation, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from provenance.mutations import named
from provenance.report import Location

#: Mutations that the outcome names of a kind.
_NAMED: Final = 8


class Verdict(StrEnum):
    """What a check made of a mutation."""

    CAUGHT = "caught"
    """The data are broken, and were refused."""
    WARNED = "warned"
    """The data are broken, and were accepted with a warning."""
    LET_THROUGH = "let through"
    """The data are broken, and were accepted."""
    PASSED = "passed"
    """The data are valid still, and were accepted."""
    CRIED_WOLF = "cried wolf"
    """The data are valid still, and were refused, or accepted with a warning."""
    NO_VERDICT = "no verdict"
    """The check came to no end: it could not be started, took too long, or was killed."""
    NOT_APPLICABLE = "not applicable"
    """These data cannot be broken that way, or the check cannot see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One mutation, done to the dataset at one place, and what the check made of it."""

    mutation: str
    """Its name in `provenance.mutations`."""
    family: str
    """What it changes: the name of its module there."""
    summary: str
    """What happened, for a person."""
    expected: tuple[str, ...]
    """Codes of the rules that it breaks, as far as the loss has them; none where the data stay valid."""
    verdict: Verdict
    place: Location | None = None
    """Where the dataset was changed; None where it was not, or as a whole."""
    by: tuple[str, ...] = ()
    """What refused it, or warned: codes of rules, an exit status, the name of an exception."""
    note: str = ""
    """Why it was let through, as far as that is known, or is not applicable; else empty."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: one flat object."""
        at = self.place or Location()
        return {
            "mutation": self.mutation,
            "family": self.family,
            "summary": self.summary,
            "expected": list(self.expected),
            "verdict": self.verdict.value,
            "by": list(self.by),
            "note": self.note or None,
            "file": at.file,
            "row": at.row,
            "line": at.line,
            "field": at.field,
            "index": at.index,
            "length": at.length,
            "sequence_id": at.sequence_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FuzzReport:
    """Which faults a check catches, and whether it cries wolf."""

    trials: tuple[Trial, ...]
    """One for each mutation that was asked for, in the order of their declarations."""
    judge: str
    """Whose verdicts these are: a contract, a command, a function."""
    datums: int
    """How many datums were broken, from the first on."""
    more: bool
    """The data have more datums, which were not looked at."""
    seed: int
    """Chose the places."""
    contract: Mapping[str, Any]
    """The contract, as reports carry it."""
    version: str
    """Of this package."""

    def names(self, *verdicts: Verdict | str) -> list[str]:
        """Names of the mutations of which the check made this."""
        return [trial.mutation for trial in self.trials if trial.verdict in verdicts]

    @property
    def faults(self) -> int:
        """Mutations that broke the data, and about which there is a verdict."""
        return len(self.names(Verdict.CAUGHT, Verdict.WARNED, Verdict.LET_THROUGH))

    @property
    def caught(self) -> int:
        """Faults that were refused, or warned of."""
        return len(self.names(Verdict.CAUGHT, Verdict.WARNED))

    @property
    def let_through(self) -> list[str]:
        """Faults that were not caught."""
        return self.names(Verdict.LET_THROUGH)

    @property
    def harmless(self) -> int:
        """Mutations that left the data valid, and about which there is a verdict."""
        return len(self.names(Verdict.PASSED, Verdict.CRIED_WOLF))

    @property
    def cried_wolf(self) -> list[str]:
        """Mutations that left the data valid, and were not accepted."""
        return self.names(Verdict.CRIED_WOLF)

    @property
    def no_verdict(self) -> list[str]:
        """Mutations on which the check came to no end."""
        return self.names(Verdict.NO_VERDICT)

    @property
    def ok(self) -> bool:
        """Every fault was caught, and every valid dataset accepted."""
        return not self.let_through and not self.cried_wolf and not self.no_verdict

    def assert_caught(self, *, but: Iterable[str] = ()) -> None:
        """Fail with the whole matrix unless the check is as good as it should be.

        Args:
            but: names of mutations that the check is known to be wrong about. One about which it is right
                fails too, so that the list does not grow old.

        Raises:
            AssertionError: a fault was let through, valid data were refused, or there was no verdict.
            SchemaError: a name in ``but`` is no mutation's.
        """
        from provenance.fuzz._text import report_to_text

        __tracebackhide__ = True  # pytest shows the caller
        known = {named(name).name for name in but}
        wrong = {*self.let_through, *self.cried_wolf, *self.no_verdict}
        right = self.names(Verdict.CAUGHT, Verdict.WARNED, Verdict.PASSED)
        outdated = [name for name in right if name in known]
        if wrong - known or outdated:
            words = [f"no exceptions any more: {', '.join(outdated)}"] if outdated else []
            raise AssertionError("\n\n".join([report_to_text(self), *words]))

    def __repr__(self) -> str:
        return f"<FuzzReport: {summary(self)}>"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as ``provenance fuzz --format json`` prints it."""
        return {
            "ok": self.ok,
            "faults": self.faults,
            "caught": self.caught,
            "let_through": self.let_through,
            "harmless": self.harmless,
            "cried_wolf": self.cried_wolf,
            "no_verdict": self.no_verdict,
            "trials": [trial.to_dict() for trial in self.trials],
            "judge": self.judge,
            "datums": self.datums,
            "more": self.more,
            "seed": self.seed,
            "contract": dict(self.contract),
            "version": self.version,
        }


def summary(report: FuzzReport) -> str:
    """The outcome on one line."""
    warned = len(report.names(Verdict.WARNED))
    caught = f"caught {report.caught} of {_count(report.faults, 'fault')}"
    parts = [f"{caught} ({warned} by warnings only)" if warned else caught]
    if report.let_through:
        parts.append(f"let through: {_some(report.let_through)}")
    if report.harmless:
        wolves = f"cried wolf on {len(report.cried_wolf)} of {_count(report.harmless, 'harmless change')}"
        parts.append(f"{wolves}: {_some(report.cried_wolf)}" if report.cried_wolf else wolves)
    if report.no_verdict:
        parts.append(f"no verdict: {_some(report.no_verdict)}")
    inapplicable = len(report.names(Verdict.NOT_APPLICABLE))
    return "; ".join([*parts, f"{inapplicable} not applicable"] if inapplicable else parts)


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
