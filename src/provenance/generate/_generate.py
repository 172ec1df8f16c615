"""Datasets from a seed: valid ones, and ones that break a rule."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from provenance.contract import Contract
from provenance.engine.arguments import moment_of
from provenance.errors import ContractError, SchemaError
from provenance.generate import _fit
from provenance.generate._fill import NOW, SESSION, Drawn, filled, largest_advantage
from provenance.generate._rooms import LOSS_FOR, SHAPE_FOR
from provenance.mutations import Dataset, Mutation, Place
from provenance.mutations import registry as mutations
from provenance.rules import registry as rules
from provenance.sequences import rfc3339

_Range: TypeAlias = tuple[int, int]
#: Prompt and completion of a turn have at least so many tokens each.
_LEAST: Final = 2
_ADVANTAGES: Final = (1.0, -0.5, 0.25, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A dataset with its ledger, and where it was broken."""

    dataset: Dataset
    mutation: Mutation | None = None
    """What breaks the rule; None where nothing is broken."""
    place: Place | None = None
    """Where; None where nothing is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Sizes as (least, most), and what the datums have."""

    turns: _Range
    prompt: _Range
    completion: _Range
    images: _Range
    """Positions of the image in the first prompt."""
    unanswered: bool = False
    """A last prompt has no answer."""
    spans: bool = True


def generate(
    n: int,
    *,
    seed: int = 0,
    contract: Contract | str | None = None,
    break_: str | None = None,
    turns: int = 3,
    tokens: int = 96,
    images: bool = False,
    session: str = SESSION,
    now: datetime | str = NOW,
) -> Generated:
    """Make datums in which a check finds nothing, with the record of what was sampled, or break one rule.

    The same arguments give the same dataset on every machine. Its contract, session and time are those under
    which it is valid: ``generated.dataset.report()`` checks it, ``generated.dataset.write()`` makes files.

    Args:
        n: number of datums, 1 or more; each has the turns of one rollout.
        seed: chooses sizes, tokens, logprobs, advantages, ages, and what is broken.
        contract: what the datums are valid for, a Contract or the name of a loss; its parameters are kept to.
            None: stable_reinforce, or a loss that has the rule ``break_``.
        break_: the code of a rule; one datum, record or option breaks it, by a mutation that breaks nothing
            else where there is one.
        turns: most turns of a datum. The datums of a broken dataset have at least two.
        tokens: most tokens of a datum, about; a rule that needs longer datums gets them.
        images: the first prompt of each datum starts with an image.
        session: id of the session that sampled and trains.
        now: when the datums are valid, aware or RFC 3339.

    Raises:
        SchemaError: a number is too small.
        ContractError: there is no such rule, the contract does not have it, or such datums cannot break it.
    """
    sizes = (("n", n, 1), ("seed", seed, 0), ("turns", turns, 1), ("tokens", tokens, 2 * _LEAST))
    for name, value, least in sizes:
        if type(value) is not int or not least <= value < 2**63:
            raise SchemaError(f"{name} is {value!r}, expected an integer of {least} or more, in 64 bits")
    chosen = _contract(contract, break_)
    shape = _shape(turns, tokens, images=images)
    if break_ is not None:
        several = replace(shape, turns=(2, max(2, turns)), completion=(4, max(4, shape.completion[1])))
        shape = replace(several, **SHAPE_FOR.get(break_, {}))
    time = rfc3339(moment_of(now))
    if time < "0002":
        raise ContractError(f"time {time!r} leaves no time to sample before it, expected the year 2 or later")
    fill = partial(filled, chosen, session=session, now=datetime.fromisoformat(time))
    found = [fill(f"rollout-{i}", drawn) for i, drawn in enumerate(_drawn(n, seed, chosen, shape))]
    dataset = _fit.dataset(chosen, found, shape.spans, 1, session=session, now=time)
    return Generated(dataset=dataset) if break_ is None else _broken(dataset, break_, seed)


def _contract(contract: Contract | str | None, code: str | None) -> Contract:
    if code is not None and code not in rules():
        raise ContractError(f"no rule has the code {code!r}; 'provenance rules' lists them")
    chosen = Contract.of(contract or LOSS_FOR.get(code or "", "stable_reinforce"))
    if code is not None and code not in chosen.severities:
        raise ContractError(f"{code} is no rule of this contract for {chosen.loss.name}{_other_loss(code)}")
    return chosen


def _other_loss(code: str) -> str:
    return f"; one for {LOSS_FOR[code]} has it" if code in LOSS_FOR else ""


def _shape(turns: int, tokens: int, *, images: bool) -> _Shape:
    """Sizes of which as many turns as there may be make no more tokens than there may be."""
    turns = min(turns, tokens // (2 * _LEAST))
    half = (_LEAST, tokens // (2 * turns))
    return _Shape(turns=(1, turns), prompt=half, completion=half, images=(1, 3) if images else (0, 0))


def _drawn(n: int, seed: int, contract: Contract, shape: _Shape) -> Iterator[Drawn]:
    signal = False
    for i in range(n):
        rng = random.Random(f"{seed}/{i}")  # noqa: S311 - reproducible, not secret
        sizes = [
            (rng.randint(*shape.prompt), rng.randint(*shape.completion), False)
            for _ in range(rng.randint(*shape.turns))
        ]
        advantage = rng.choice(_ADVANTAGES)
        if i == n - 1 and not signal:  # no signal in the whole dataset would be a fault
            advantage = _ADVANTAGES[0]
        signal |= advantage != 0
        yield Drawn(
            turns=sizes,
            seed=rng.getrandbits(63) + 1,
            advantage=advantage * largest_advantage(contract),
            unanswered=shape.unanswered,
            image=rng.randint(*shape.images),
        )


def _broken(dataset: Dataset, code: str, seed: int) -> Generated:
    """Break a rule, by the mutation that breaks as few others as can be."""
    found = [each for each in mutations().values() if code in each.fires]
    pure = [each for each in found if each.pure]
    rng = random.Random(f"{seed}/{code}")  # noqa: S311 - reproducible, not secret
    others = sorted((each for each in found if not each.pure), key=lambda each: len(each.fires + each.may))
    for chosen in [*rng.sample(pure, len(pure)), *others]:
        place = chosen.mutate(dataset, rng)
        if place is not None:
            return Generated(dataset=dataset, mutation=chosen, place=place)
    missing = [need for need in rules()[code].needs if getattr(dataset.contract.parameters, need, 0) is None]
    way = f": give the contract a {missing[0]}" if missing else _other_loss(code)
    raise ContractError(f"{code} cannot be broken in such datums for {dataset.contract.loss.name}{way}")
