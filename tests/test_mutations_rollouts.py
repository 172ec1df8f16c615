"""Mutations of real rollouts keep their promises too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _fuzz import promise

from provenance.mutations import Dataset, registry

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
SESSION, NOW = "sess-real", "2026-11-29T12:00:00Z"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason=f"{FOLDER} is not here")


def lines(name: str, kind: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"{name}.{kind}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def dataset(name: str) -> Dataset:
    return Dataset(datums=lines(name, "datums"), sequences=lines(name, "sequences"), session=SESSION, now=NOW)


def assert_promises(name: str, seeds: int, least: int) -> None:
    rollouts = dataset(name)
    assert not rollouts.report().counts
    places = [promise(found, rollouts, seed) for found in registry().values() for seed in range(seeds)]
    assert sum(place is not None for place in places) >= least * seeds


def test_promises_on_one_turn_after_another() -> None:
    assert_promises("blackjack", seeds=1, least=75)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blackjack", "multi_turn", "tictactoe"])
def test_promises_at_many_places(name: str) -> None:
    assert_promises(name, seeds=6, least=75)


@pytest.mark.slow
def test_promises_on_rewritten_histories() -> None:
    rollouts = dataset("workplace_history_rewritten")
    # Whole it is 147,000 positions, which takes minutes and shows no more.
    rollouts.datums = rollouts.datums[:4]
    places = [promise(found, rollouts, 0) for found in registry().values()]
    assert sum(place is not None for place in places) >= 75
