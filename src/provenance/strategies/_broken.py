"""Strategies for data that break one rule each."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from provenance.contract import Contract
from provenance.errors import ContractError
from provenance.generate._rooms import LOSS_FOR, SHAPE_FOR
from provenance.mutations import Dataset, Mutation
from provenance.mutations import registry as mutations
from provenance.rules import registry as rules
from provenance.strategies._hypothesis import st
from provenance.strategies._valid import SEEDS, Options, batch


def broken(rule: str) -> st.SearchStrategy[Dataset]:
    """Datasets in which a check reports one rule, and nothing else.

    Args:
        rule: the code of any rule, a warning or an error. The dataset's contract is one that has it.

    Raises:
        ContractError: there is no such rule.
    """
    if rule not in rules():
        raise ContractError(f"no rule has the code {rule!r}; 'provenance rules' lists them")
    pure = [found for found in mutations().values() if found.pure and found.fires == (rule,)]
    return st.builds(_break, batch(_room(rule)), st.sampled_from(pure), SEEDS)


_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "TOK001": {"vocab_size": 1000},
    "SEQ012": {"foreign_logprobs": 0.0005},
    "SES005": {"learner_version": 12, "max_policy_lag": 2},
}


def _room(rule: str) -> Options:
    """Options under which each pure mutation of a rule finds a place in every example."""
    contract = Contract.for_loss(LOSS_FOR.get(rule, "stable_reinforce"))
    room = Options(
        contract=contract.with_parameters(**_PARAMETERS.get(rule, {})),
        trajectories=(2, 3),
        turns=(2, 3),
        prompt=(3, 6),
        completion=(4, 8),
        images=(0, 0),
        rewrites=False,
        unanswered=False,
        spans=True,
        constant=False,
    )
    return replace(room, **SHAPE_FOR.get(rule, {}))


def _break(dataset: Dataset, chosen: Mutation, seed: int) -> Dataset:
    if chosen.mutate(dataset, random.Random(seed)) is None:  # noqa: S311 - reproducible, not secret
        raise RuntimeError(f"{chosen.name} found no place in a dataset that was made for it")
    return dataset
