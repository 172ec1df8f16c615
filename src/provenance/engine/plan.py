"""Which rules of a contract can be judged with what a user gave, and why the others cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from provenance.contract import Contract
from provenance.report import NotChecked
from provenance.rules import CIRCUMSTANCES, Parameters, Rule, registry


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does, but for the data."""

    gates: tuple[Rule, ...]
    """All gates, also those that the contract silences: what fails one cannot be looked at further."""
    rules: tuple[Rule, ...]
    """The other rules about datums that can be judged."""
    config: tuple[Rule, ...]
    """The rules about the configuration of the loss."""
    inputs: frozenset[str] | None
    """The loss inputs that are looked at; None for all."""
    not_checked: tuple[NotChecked, ...]


def plan_of(contract: Contract, *, ledger: bool, session: bool) -> Plan:
    """Plan a run of a contract with or without a ledger and a training session."""
    given = frozenset(name for name, there in (("ledger", ledger), ("session", session)) if there)
    return _plan(tuple(contract.severities), contract.parameters, given, tuple(registry().values()))


@lru_cache(maxsize=16)
def _plan(
    codes: tuple[str, ...], parameters: Parameters, given: frozenset[str], declared: tuple[Rule, ...]
) -> Plan:
    active = frozenset(codes)
    judged = [rule for rule in declared if rule.judge is not None]
    return Plan(
        gates=tuple(rule for rule in judged if rule.gate),
        rules=tuple(
            rule
            for rule in judged
            if rule.code in active
            and not rule.gate
            and rule.at != "config"
            and not _lacking(rule.needs, parameters, given)
        ),
        config=tuple(rule for rule in judged if rule.at == "config" and rule.code in active),
        inputs=_inputs(rule for rule in judged if rule.code in active),
        not_checked=tuple(
            reason
            for rule in sorted(declared, key=lambda rule: rule.code)
            if rule.code in active
            for reason in _not_checked(rule, parameters, given)
        ),
    )


def _inputs(rules: Iterable[Rule]) -> frozenset[str] | None:
    looked_at: set[str] = set()
    for rule in rules:
        if rule.inputs is None:
            return None
        looked_at |= rule.inputs
    return frozenset(looked_at)


def _lacking(needs: Sequence[str], parameters: Parameters, given: frozenset[str]) -> list[str]:
    return [
        need
        for need in needs
        if (need not in given if need in CIRCUMSTANCES else getattr(parameters, need) is None)
    ]


def _not_checked(rule: Rule, parameters: Parameters, given: frozenset[str]) -> Iterator[NotChecked]:
    for need in _lacking(rule.needs, parameters, given)[:1]:
        yield NotChecked(rule.code, _why(need))
    for need in _lacking(tuple(rule.partly), parameters, given):
        yield NotChecked(rule.code, f"{rule.partly[need]}: {_why(need)}")


def _why(need: str) -> str:
    return CIRCUMSTANCES.get(need, f"no {need} given")
