"""The package against a second implementation of the contract: on generated, mutated and real data."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from oracle import judge
from oracle.compare import assert_agreement, engine_findings
from oracle.generate import world
from oracle.mutate_world import mutated
from oracle.world import World
from test_cases import CASES

from provenance.rules import registry

ROLLOUTS = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
SMALL, LARGE = ("blackjack", "tictactoe"), ("multi_turn", "workplace_history_rewritten")
EXAMPLES = [
    pytest.param(case, id=f"{code}-{kind}-{number}")
    for code, rule in sorted(registry().items())
    for kind in ("good", "bad")
    for number, case in enumerate(getattr(rule, kind), 1)
    if case.lines is None
]


def compare_generated(seeds: range, size: int) -> int:
    compared = 0
    for seed in seeds:
        rng = Random(seed)
        valid = world(rng, size)
        if seed % 5 == 0:
            assert_agreement(valid, f"seed {seed}, valid")
            compared += len(valid.datums)
        broken = mutated(rng, valid)
        assert_agreement(broken, f"seed {seed}, mutated")
        compared += len(broken.datums)
    return compared


@pytest.mark.parametrize("case", EXAMPLES)
def test_examples_of_the_rules(case: Any) -> None:
    assert_agreement(
        World(
            datums=list(case.datums),
            sequences=list(case.sequences),
            session=case.session,
            now=case.now,
            loss=case.loss,
            config=dict(case.config),
            parameters=dict(case.parameters),
        ),
        "example",
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "file" not in case])
def test_cases(name: str) -> None:
    case = CASES[name]
    assert_agreement(
        World(
            datums=case["datums"],
            sequences=case["sequences"],
            session=case["session"],
            now=case["now"],
            loss=case["loss_fn"],
            config=case.get("loss_fn_config") or {},
        ),
        name,
    )


@pytest.mark.parametrize("block", range(4))
def test_generated(block: int) -> None:
    assert compare_generated(range(block * 7, block * 7 + 7), 50) > 350


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_generated_at_length(block: int) -> None:
    assert compare_generated(range(1000 + block * 44, 1000 + block * 44 + 44), 50) > 2500


def test_generated_datums_are_valid_and_mutations_reach_every_rule() -> None:
    codes = set[str]()
    for seed in range(30):
        rng = Random(seed)
        valid = world(rng, 50)
        if seed < 5:
            strict = replace(valid, parameters={})
            assert [f for f in engine_findings(strict) if f.severity == "error"] == []
        codes |= {finding.code for finding in judge(mutated(rng, valid))}
    assert {code for code, rule in registry().items() if rule.at != "file"} - codes <= {"FMT005"}


def compare_rollout(name: str, seeds: range) -> None:
    if not ROLLOUTS.exists():
        pytest.skip(f"{ROLLOUTS} is not here")
    datums, sequences = (
        [
            json.loads(line)
            for line in (ROLLOUTS / f"{name}.{kind}.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        for kind in ("datums", "sequences")
    )
    real = World(datums=datums, sequences=sequences, session="sess-real", now="2026-11-29T12:00:00Z")
    assert engine_findings(real) == []
    assert_agreement(real, name)
    for seed in seeds:
        assert_agreement(mutated(Random(seed), copy.deepcopy(real)), f"{name}, seed {seed}")


@pytest.mark.parametrize("name", SMALL)
def test_real_rollouts(name: str) -> None:
    compare_rollout(name, range(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_real_rollouts_at_length(name: str) -> None:
    compare_rollout(name, range(100, 200))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_real_rollouts(name: str) -> None:
    compare_rollout(name, range(4))
