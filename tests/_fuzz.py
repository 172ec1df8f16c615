"""Datasets to break, and what a mutation promises about them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import provenance
from provenance import strategies
from provenance.mutations import Dataset, Mutation, Place
from provenance.rules import registry as rules

FOR_LOSS = provenance.Contract.for_loss
CUSTOM_INPUTS = {"target_tokens": 1, "logprobs": 1, "temperature": 0, "table": 2}
#: Contract -> sizes of the batches that are drawn for it. Together every mutation finds a place in them.
KINDS: dict[str, tuple[provenance.Contract, dict[str, Any]]] = {
    "plain": (FOR_LOSS("stable_reinforce"), {}),
    "images": (FOR_LOSS("stable_reinforce"), {"images": True}),
    "long": (FOR_LOSS("stable_reinforce"), {"completion": 80, "trajectories": 2}),
    "strict": (
        FOR_LOSS("stable_reinforce").with_parameters(
            vocab_size=90, max_tokens=24, learner_version=7, max_policy_lag=2, foreign_logprobs=0.0005
        ),
        {},
    ),
    "importance_sampling": (FOR_LOSS("importance_sampling"), {}),
    "ppo": (FOR_LOSS("ppo"), {"images": True}),
    "cispo": (FOR_LOSS("cispo"), {}),
    "dro": (FOR_LOSS("dro"), {}),
    "gspo": (FOR_LOSS("gspo"), {}),
    "cross_entropy": (FOR_LOSS("cross_entropy"), {}),
    "custom": (FOR_LOSS("custom"), {}),
    "declared": (FOR_LOSS("custom", inputs=CUSTOM_INPUTS), {}),
}


def batches(kind: str) -> st.SearchStrategy[Dataset]:
    contract, sizes = KINDS[kind]
    return strategies.batches(contract=contract, **sizes)


def any_batch() -> st.SearchStrategy[Dataset]:
    return st.one_of([batches(kind) for kind in KINDS])


def examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """The same examples each time."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


def state(dataset: Dataset) -> str:
    """All of a dataset, to compare."""
    parts = [
        dataset.datums,
        dataset.sequences,
        dataset.session,
        dataset.loss_config,
        sorted(dataset.lines.items()),
    ]
    return json.dumps([*parts, dataset.contract.to_dict()], default=repr)


def checked(dataset: Dataset) -> set[str]:
    """The rules that the contract checks in full, as far as a ledger and a session are needed."""
    given = {"ledger": dataset.sequences is not None, "session": dataset.session is not None}
    parameters = dataset.contract.parameters
    return {
        code
        for code in dataset.contract.severities
        if all(
            given[need] if need in given else getattr(parameters, need) is not None
            for need in rules()[code].needs
        )
        and all(given.get(need, True) for need in rules()[code].partly)
    }


def is_at(violation: provenance.Violation, place: Place) -> bool:
    """Whether a violation lies where a mutation says that it changed something."""
    at = violation.location
    if rules()[violation.code].at == "record":
        return place.sequence_id in (None, at.sequence_id)
    if place.row is not None and at.row != place.row:
        return False
    if place.row is None and place.sequence_id is not None and at.sequence_id != place.sequence_id:
        return False
    if place.index is None or at.field != place.field or at.index is None:
        return True
    first = at.index[0] if isinstance(at.index, tuple) else at.index
    return first < place.index + (place.length or 1) and place.index < first + (at.length or 1)


def promise(found: Mutation, dataset: Dataset, seed: int) -> Place | None:
    """Break a copy of a valid dataset, and hold the report to what the mutation says."""
    broken = dataset.copy()
    place = found.mutate(broken, random.Random(seed))
    if place is None:
        assert state(broken) == state(dataset), f"{found.name} changed what it could not break"
        return None
    assert state(broken) != state(dataset), f"{found.name} changed nothing"
    report = broken.report(max_examples=10_000)
    told = f"{found.name} at {place}: {[str(v) for v in report][:5]}"
    assert set(found.fires) & checked(broken) <= set(report.counts), told
    assert set(report.counts) <= {*found.fires, *found.may}, told
    for violation in report:
        if violation.code in found.fires:
            assert is_at(violation, place), told
        elif place.row is not None:
            assert violation.location.row in (None, place.row), told
    fired = {v.location.field for v in report if v.code in found.fires}
    assert place.field is None or not fired or place.field in fired, told
    return place


def promises(found: Mutation, datasets: list[Dataset], seeds: int = 1) -> Iterator[Place]:
    """The places at which a mutation broke the datasets, all promises kept."""
    for number, dataset in enumerate(datasets):
        for seed in range(seeds):
            place = promise(found, dataset, 1000 * number + seed)
            if place is not None:
                yield place
