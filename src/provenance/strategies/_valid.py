"""Strategies for what a check finds nothing in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from provenance.builder import build_datums
from provenance.contract import Contract
from provenance.errors import SchemaError
from provenance.generate._fill import Drawn, filled, group, largest_advantage
from provenance.generate._fit import dataset, fitted
from provenance.ledger import MemoryLedger
from provenance.models import Datum, SampledSequence, Trajectory
from provenance.mutations import Dataset
from provenance.strategies._hypothesis import st

Range: TypeAlias = tuple[int, int]

_ADVANTAGES: Final = (1.0, -0.5, 0.25)
SEEDS: Final = st.integers(0, 2**32 - 1)
# One in eight, and the simplest is that it is not so.
_RARELY: Final = st.integers(0, 7).map(lambda number: number == 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Sizes as (least, most), and what else is left to draw."""

    contract: Contract
    trajectories: Range = (1, 3)
    turns: Range
    prompt: Range
    completion: Range
    images: Range
    """Positions of the image in the first prompt."""
    rewrites: bool = True
    """A turn's prompt may start anew."""
    unanswered: bool | None = None
    """The last prompt has no answer; None: may have none."""
    spans: bool | None = None
    """Datums carry spans; None: draw that where the loss does not need them."""
    constant: bool = True
    """Trajectories but for the first may have an advantage of 0."""


def _options(
    contract: Contract | str, *, turns: int, prompt: int, completion: int, images: bool, **others: Any
) -> Options:
    for name, value in (("turns", turns), ("prompt", prompt), ("completion", completion)):
        if type(value) is not int or value < 1:
            raise SchemaError(f"{name} is {value!r}, expected an integer of 1 or more")
    given = Contract.of(contract)
    longest = given.parameters.max_tokens
    return Options(
        contract=given,
        turns=(1, turns),
        prompt=(1, prompt),
        completion=(1, completion),
        images=(0, 3) if images and (longest is None or longest >= 4) else (0, 0),
        **others,
    )


def trajectories(
    *,
    contract: Contract | str = "stable_reinforce",
    turns: int = 3,
    prompt: int = 8,
    completion: int = 8,
    images: bool = False,
) -> st.SearchStrategy[Trajectory]:
    """Rollouts with an advantage, of which `provenance.builder.build_datums` makes valid datums.

    Args:
        contract: what they are valid for, a Contract or the name of a loss. Its parameters are kept to: the
            vocabulary, the longest datum, the window, the policy lag, the largest advantage.
        turns: most turns.
        prompt: most tokens that a turn's prompt adds to what came before.
        completion: most sampled tokens of a turn.
        images: whether a prompt may hold an image.
    """
    options = _options(contract, turns=turns, prompt=prompt, completion=completion, images=images)
    return _trajectory(options)


def sequences(
    *,
    contract: Contract | str = "stable_reinforce",
    prompt: int = 8,
    completion: int = 8,
) -> st.SearchStrategy[SampledSequence]:
    """What single requests returned, recorded for the contract; arguments as for `trajectories`."""
    options = _options(contract, turns=1, prompt=prompt, completion=completion, images=False)
    return _trajectory(replace(options, unanswered=False)).map(lambda found: found.turns[0].sequence)


def datums(
    *,
    contract: Contract | str = "stable_reinforce",
    turns: int = 3,
    prompt: int = 8,
    completion: int = 8,
    images: bool = False,
) -> st.SearchStrategy[Datum]:
    """Datums in which a check finds nothing; arguments as for `trajectories`.

    A loss other than stable_reinforce gets the inputs that it requires, with spans or without; cross_entropy
    gets targets and weights of shape (N,) or (N, 2).
    """
    options = _options(contract, turns=turns, prompt=prompt, completion=completion, images=images)
    return _datum(options)


def batches(
    *,
    contract: Contract | str = "stable_reinforce",
    trajectories: int = 3,
    turns: int = 3,
    prompt: int = 8,
    completion: int = 8,
    images: bool = False,
) -> st.SearchStrategy[Dataset]:
    """Datasets in which a check finds nothing: datums of some trajectories, and all that was sampled.

    ``dataset.report()`` checks one; `provenance.mutations.apply` breaks it. ``trajectories`` is the most of
    them, the other arguments are as for `provenance.strategies.trajectories`.
    """
    options = _options(
        contract,
        turns=turns,
        prompt=prompt,
        completion=completion,
        images=images,
        trajectories=(1, trajectories),
    )
    return batch(options)


def ledgers(
    *,
    contract: Contract | str = "stable_reinforce",
    trajectories: int = 3,
    turns: int = 3,
    prompt: int = 8,
    completion: int = 8,
) -> st.SearchStrategy[MemoryLedger]:
    """Ledgers that hold what some trajectories sampled; arguments as for `batches`."""
    options = _options(
        contract,
        turns=turns,
        prompt=prompt,
        completion=completion,
        images=False,
        trajectories=(1, trajectories),
    )
    return _trajectories(options).map(
        lambda found: MemoryLedger(turn.sequence for trajectory in found for turn in trajectory.turns)
    )


def _drawn(options: Options) -> st.SearchStrategy[Drawn]:
    anew = _RARELY if options.rewrites else st.just(False)
    turn = st.tuples(st.integers(*options.prompt), st.integers(*options.completion), anew)
    advantages = [value * largest_advantage(options.contract) for value in _ADVANTAGES]
    return st.builds(
        Drawn,
        st.lists(turn, min_size=options.turns[0], max_size=options.turns[1]),
        SEEDS,
        st.sampled_from([*advantages, 0.0] if options.constant else advantages),
        _RARELY if options.unanswered is None else st.just(options.unanswered),
        st.integers(*options.images),
    )


def _trajectory(options: Options) -> st.SearchStrategy[Trajectory]:
    return _drawn(replace(options, constant=False)).map(lambda drawn: filled(options.contract, "a", drawn))


def _trajectories(options: Options) -> st.SearchStrategy[list[Trajectory]]:
    least, most = options.trajectories
    return st.lists(_drawn(options), min_size=least, max_size=most).map(
        lambda found: group(options.contract, found)
    )


def _datum(options: Options) -> st.SearchStrategy[Datum]:
    return st.builds(
        lambda trajectory, form: fitted(build_datums(trajectory)[-1], options.contract, *form),
        _trajectory(options),
        _forms(options),
    )


def batch(options: Options) -> st.SearchStrategy[Dataset]:
    return st.builds(
        lambda found, form: dataset(options.contract, found, *form), _trajectories(options), _forms(options)
    )


def _forms(options: Options) -> st.SearchStrategy[tuple[bool, int]]:
    """Whether datums carry spans, and the K of their targets, where the loss leaves that open."""
    loss = options.contract.loss
    if loss.provenance:
        return st.just((True, 1))
    spans = st.sampled_from([True, False]) if options.spans is None else st.just(options.spans)
    return st.tuples(spans, st.integers(1, 2) if loss.name == "cross_entropy" else st.just(1))
