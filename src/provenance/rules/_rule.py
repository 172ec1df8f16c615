"""The ``@rule`` declaration and the registry of all rules.

A rule is a function from a batch and a field to booleans, one per element of the level it looks at; True
is valid. Everything else about it (code, severity, documentation, examples) stands in the declaration, and
the registry follows from the declarations. An incomplete one fails at import.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from provenance.columns import Mask
from provenance.loss_spec import LossSpec
from provenance.report import Severity
from provenance.rules._examples import Case
from provenance.rules._parameters import Parameters

if TYPE_CHECKING:
    from provenance.rules._batch import Batch

#: Version of the rule set. It grows when a rule is added or one of its clauses changes, and a contract may
#: pin it; a rule newer than the pinned version is reported as a warning.
RULESET: Final = 1

Level = Literal[
    "datum", "chunk", "span", "position", "element", "sequence", "record", "dataset", "config", "file"
]
Evidence = Literal["documented", "observed", "ours"]

#: ``over`` of a rule that looks at every loss input of the datums, or at those the loss requires.
EVERY_INPUT: Final = ("*",)
REQUIRED_INPUTS: Final = ("+",)
#: What a rule may need beside the datums; any other need is the name of a parameter.
CIRCUMSTANCES: Final = {
    "ledger": "no ledger of sampled sequences given",
    "session": "no training session given",
}


class Verdict(NamedTuple):
    """Which elements are valid, and which the rule applies to at all."""

    valid: Mask | None
    """One per element; None when all are valid."""
    applies: Mask | None = None
    """One per element; None when the rule applies to all."""


Judge = Callable[["Batch", str], "Mask | Verdict"]
Detail = Callable[["Batch", str, int], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One rule of the contract, complete."""

    code: str
    name: str
    severity: Severity
    """Severity for stable_reinforce."""
    elsewhere: Severity
    """Severity for the other losses."""
    at: Level
    over: tuple[str, ...]
    reads: tuple[str, ...]
    """The loss inputs that it looks at beside those of ``over``."""
    given: tuple[str, ...]
    gate: bool
    needs: tuple[str, ...]
    """Without these the rule is not checked: "ledger", "session", or names of parameters."""
    partly: Mapping[str, str]
    """Need -> the part of the rule that is not checked without it."""
    custom: bool
    """The rule is in the contract of custom losses."""
    unique: bool
    """What it judges, and finds valid, must be the first of its kind in the whole dataset."""
    since: int
    message: str
    evidence: Evidence
    summary: str
    doc: str
    good: tuple[Case, ...]
    bad: tuple[Case, ...]
    judge: Judge | None
    detail: Detail | None

    @property
    def inputs(self) -> frozenset[str] | None:
        """The loss inputs that must be there for it to be judged; None for all of them."""
        if self.at in ("config", "record"):
            return frozenset()
        if self.over in (EVERY_INPUT, REQUIRED_INPUTS):
            return None
        return frozenset({*self.over, *self.reads} - _ALWAYS_THERE)

    @property
    def remembers(self) -> bool:
        """What it says of a batch depends on those before: a record is reported once, the unique is first."""
        return self.unique or self.at == "record"

    @property
    def family(self) -> str:
        """The letters of the code."""
        return self.code[:3]

    def concerns(self, loss: LossSpec) -> bool:
        """Whether the rule is in the loss's contract: it looks at something that the loss has."""
        if loss.name == "custom":
            return self.custom
        return self.at == "record" or any(
            field in _ALWAYS_THERE or loss.takes(field) or field in loss.config for field in self.over
        )

    def severity_for(self, loss: LossSpec) -> Severity:
        """Default severity under a loss; OFF where the rule is not in its contract."""
        if not self.concerns(loss):
            return Severity.OFF
        return self.severity if loss.name == "stable_reinforce" else self.elsewhere


_ALWAYS_THERE: Final = frozenset(
    {"model_input", "model_input_spans", "loss_fn_input_spans", *EVERY_INPUT, *REQUIRED_INPUTS, ""}
)
_CODE: Final = re.compile(r"[A-Z]{3}[0-9]{3}")
_PARAMETERS: Final = frozenset(f.name for f in fields(Parameters))
_registry: dict[str, Rule] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def rule(
    code: str,
    *,
    at: Level,
    over: tuple[str, ...],
    message: str,
    evidence: Evidence,
    good: Sequence[Case] = (),
    bad: Sequence[Case] = (),
    severity: Literal["error", "warning"] = "error",
    elsewhere: Literal["error", "warning", "off"] | None = None,
    reads: tuple[str, ...] = (),
    given: tuple[str, ...] = (),
    gate: bool = False,
    needs: tuple[str, ...] = (),
    partly: Mapping[str, str] | None = None,
    custom: bool = False,
    unique: bool = False,
    since: int = 1,
    detail: Detail | None = None,
) -> Callable[[_Function], _Function]:
    """Declare a rule; the decorated function is its body and its docstring its page.

    The body takes a batch and a field and returns a Mask or a Verdict. One that takes nothing declares a code
    that the readers of files find.

    Args:
        code: three letters of the family and three digits; must be unused.
        at: the level whose elements the body judges.
        over: the fields it ranges over; the body is called once for each that the batch has.
        message: shown for a violation; ``{value}``, ``{field}`` and the keys of ``detail`` are filled in.
        evidence: who says so (see the documentation of the contract).
        good: cases that the rule must let pass.
        bad: cases that it must find, one per clause of the body.
        severity: severity for stable_reinforce.
        elsewhere: severity for other losses, where it differs.
        reads: the loss inputs that the body looks at beside those of ``over``, so that a contract that needs
            none of them need not read them.
        given: codes of rules; an element is judged only where these hold.
        gate: a datum that fails is not looked at by the rules that are no gates.
        needs: "ledger", "session" or parameters without which nothing can be judged.
        partly: needs without which a part cannot be judged, and which part.
        custom: whether custom losses have the rule.
        unique: for a rule about sequences: each may occur once in the dataset among the elements that are
            judged. The body finds what a batch holds twice, and the engine what earlier ones hold.
        since: version of the rule set that the rule came with.
        detail: values for the message, computed for shown violations only.

    Raises:
        TypeError: the declaration is incomplete or contradicts another one.
    """

    def declare(function: _Function) -> _Function:
        name = function.__name__.replace("_", "-")
        doc = inspect.getdoc(function) or ""
        unknown_needs = {*needs, *(partly or {})} - set(CIRCUMSTANCES) - _PARAMETERS
        for wrong, problem in (
            (not _CODE.fullmatch(code), "the code must be three capital letters and three digits"),
            (code in _registry, "the code is used already"),
            (any(r.name == name for r in _registry.values()), f"the name {name!r} is used already"),
            (len(doc.split("\n\n")) < 2, "the docstring needs a summary line and an explanation"),
            (not good, "a good example is missing"),
            (not bad, "a bad example is missing"),
            (not over, "'over' names no field"),
            (unique and (at != "sequence" or detail is not None), "'unique' takes sequences and no detail"),
            (bool(unknown_needs), f"'needs' names no circumstance or parameter: {unknown_needs}"),
            (not 1 <= since <= RULESET, f"'since' must be a rule-set version up to {RULESET}"),
        ):
            if wrong:
                raise TypeError(f"rule {code} ({name}): {problem}")
        _registry[code] = Rule(
            code=code,
            name=name,
            severity=Severity(severity),
            elsewhere=Severity(severity if elsewhere is None else elsewhere),
            at=at,
            over=over,
            reads=reads,
            given=given,
            gate=gate,
            needs=needs,
            partly=dict(partly or {}),
            custom=custom,
            unique=unique,
            since=since,
            message=message,
            evidence=evidence,
            summary=doc.split("\n", 1)[0],
            doc=doc,
            good=tuple(good),
            bad=tuple(bad),
            judge=function if inspect.signature(function).parameters else None,
            detail=detail,
        )
        return function

    return declare


def registry() -> Mapping[str, Rule]:
    """All rules by code, each after those it is given.

    Raises:
        TypeError: a rule is given one that is not declared, or, in a circle, itself.
    """
    return _ordered(tuple(_registry.values()))


@lru_cache(maxsize=4)
def _ordered(rules: tuple[Rule, ...]) -> Mapping[str, Rule]:
    by_code = {rule.code: rule for rule in sorted(rules, key=lambda rule: rule.code)}
    ordered: dict[str, Rule] = {}

    def place(code: str, path: tuple[str, ...]) -> None:
        if code in ordered:
            return
        if code in path or code not in by_code:
            raise TypeError(
                f"rule {path[-1]}: 'given' names {code}, which is not declared or leads back to it"
            )
        for needed in by_code[code].given:
            place(needed, (*path, code))
        ordered[code] = by_code[code]

    for code in by_code:
        place(code, ())
    return MappingProxyType(ordered)
