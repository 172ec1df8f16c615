"""The examples of the rules kill every mutant of theirs; those that survive are explained in mutants.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from _mutants import FAMILIES, mutants, survives

from provenance.rules import registry

#: "family.function" -> the change of a mutant -> why no example can tell it from the original.
EXPLAINED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(
    ("name", "change", "lives"),
    [
        ("config.epsilon_as_threshold", "batch.config[field] > 1 -> batch.config[field] >= 1", False),
        ("config.epsilon_as_threshold", "1 + batch.config[field] -> 2 + batch.config[field]", False),
        ("advantages._bare_edges", "' or the '.join -> ''.join", False),
        ("values.non_finite_value", "if field == TARGETS -> if False", True),
    ],
    ids=["body", "message", "helper", "equivalent"],
)
def test_a_mutant_dies_if_it_matters(name: str, change: str, lives: bool) -> None:
    family, function = name.split(".")
    (mutant,) = (m for m in mutants(family) if (m.function, m.change) == (function, change))
    rules = registry()
    assert survives(mutant) == lives
    assert registry() is rules


def test_every_explained_mutant_exists() -> None:
    known = {str(mutant) for family in FAMILIES for mutant in mutants(family)}
    assert {f"{name}: {change}" for name, changes in EXPLAINED.items() for change in changes} <= known


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_mutants_die_or_are_explained(family: str) -> None:
    found = list(mutants(family))
    living = {str(mutant) for mutant in found if survives(mutant)}
    explained = {
        f"{name}: {change}"
        for name, changes in EXPLAINED.items()
        if name.startswith(f"{family}.")
        for change in changes
    }
    died, mattering = len(found) - len(living), len(found) - len(explained)
    score = f"{died / mattering:.1%} of {mattering} mutants die, {len(explained)} more are explained"
    print(f"{family}: {score}")  # noqa: T201 - the nox session shows it
    assert living == explained
