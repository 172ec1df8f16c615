"""Trajectories of given sizes, filled with numbers from a seed: the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from provenance.columns import Ints
from provenance.contract import Contract
from provenance.models import (
    EncodedTextChunk,
    ImageChunk,
    ModelInput,
    SampledSequence,
    Trajectory,
    Turn,
)
from provenance.models._arrays import Floats, Tokens

#: The session that samples and trains, and the time at which examples are valid.
SESSION: Final = "session-1"
NOW: Final = "2026-01-02T12:00:00Z"

#: New tokens of a prompt, tokens of its completion, whether the prompt starts anew and extends no turn.
Sizes: TypeAlias = tuple[int, int, bool]

MOMENT: Final = datetime(2026, 1, 2, 12, tzinfo=UTC)
"""NOW."""
_PNG: Final = bytes.fromhex("89504e470d0a1a0a")
_VOCABULARY: Final = 32_000


class Drawn(NamedTuple):
    """What is chosen of a trajectory. All else follows from the seed."""

    turns: list[Sizes]
    seed: int
    advantage: float
    unanswered: bool
    image: int
    """Positions of the image in the first prompt; 0 without one."""


def largest_advantage(contract: Contract) -> float:
    """1, or less where the contract calls that large."""
    return min(1.0, contract.parameters.advantage_limit / 2)


def group(contract: Contract, found: list[Drawn]) -> list[Trajectory]:
    """Trajectories of which at least one has an advantage, since no signal at all is a fault."""
    if not any(drawn.advantage for drawn in found):
        found = [found[0]._replace(advantage=largest_advantage(contract)), *found[1:]]
    names = [chr(ord("a") + i) if i < 26 else f"a{i}" for i in range(len(found))]
    return [filled(contract, name, drawn) for name, drawn in zip(names, found, strict=True)]


def filled(
    contract: Contract, name: str, drawn: Drawn, *, session: str = SESSION, now: datetime = MOMENT
) -> Trajectory:
    """A trajectory whose turns are filled with tokens, logprobs and times; under seed 0 they are counted."""
    answered = [*drawn.turns, (drawn.turns[0][0], 0, False)] if drawn.unanswered else drawn.turns
    sizes = _fitting(contract, answered, drawn.image)
    seed = drawn.seed
    total = sum(prompt + completion for prompt, completion, _ in sizes)
    tokens = _tokens(contract, seed, total)
    logprobs = _logprobs(seed, total)
    sampled_at = now - timedelta(seconds=_below(_oldest(contract) + 1, seed, "age") if seed else 0)
    version = _policy_version(contract, seed)
    turns: list[Turn] = []
    at, held, image = 0, np.full(drawn.image, -1, np.int32), drawn.image
    for k, (prompt, completion, anew) in enumerate(sizes):
        if anew:
            held, image = held[:0], 0
        asked = np.concatenate([held, tokens[at : at + prompt]])
        at += prompt
        sequence = SampledSequence(
            sequence_id=f"{name}:{k}",
            session_id=session,
            prompt_tokens=asked,
            tokens=tokens[at : at + completion],
            logprobs=_without_certain_start(logprobs[at : at + completion]),
            sampled_at=sampled_at,
            record_stability_info=True,
            policy_version=version,
        )
        at += completion
        turns.append(Turn(sequence=sequence, prompt=_prompt(asked, image) if image else None))
        held = np.concatenate([asked, sequence.tokens])
    return Trajectory(turns=turns, advantage=drawn.advantage, trajectory_id=name)


def _prompt(asked: Tokens, image: int) -> ModelInput:
    picture = ImageChunk(data=_PNG, format="png", expected_tokens=image)
    return ModelInput(chunks=[picture, EncodedTextChunk(tokens=asked[image:])])


def _fitting(contract: Contract, sizes: Iterable[Sizes], image: int) -> list[Sizes]:
    """Turns that are cut, or left out, where their datum would be longer than the contract allows."""
    longest = contract.parameters.max_tokens
    if longest is None:
        return list(sizes)
    fitting: list[Sizes] = []
    room = longest + 1 - image  # F is one longer than the input
    for prompt, completion, anew in sizes:
        if anew:
            room = longest + 1
        added = min(prompt, room - 1)
        sampled = min(completion, room - added)
        if added < 1 or (completion and sampled < 1):
            break
        fitting.append((added, sampled, anew))
        room -= added + sampled
    return fitting


def _words(seed: int, purpose: str, count: int) -> Ints:
    """Uniform 32-bit numbers. Generators of numpy may give others in its next version, this hash may not."""
    stream = hashlib.shake_256(f"{seed}/{purpose}".encode()).digest(4 * count)
    return np.frombuffer(stream, "<u4").astype(np.int64)


def _below(limit: int, seed: int, purpose: str) -> int:
    return int(_words(seed, purpose, 1)[0]) % limit


def _tokens(contract: Contract, seed: int, count: int) -> Tokens:
    size = min(contract.parameters.vocab_size or _VOCABULARY, 2**31 - 1)
    ids = _words(seed, "tokens", count) if seed else np.arange(1, count + 1)
    return (ids % size).astype(np.int32)


def _logprobs(seed: int, count: int) -> Floats:
    if not seed:
        return np.full(count, -0.5, np.float32)
    words = _words(seed, "logprobs", count)
    # Products of two 12-bit numbers, mostly small, which float32 holds exactly: no logarithm, whose last bit
    # depends on the machine.
    logprobs = (-((words >> 20) * (words >> 8 & 0xFFF)) / 2.0**22).astype(np.float32)
    logprobs[(words & 0xFF) < 26] = 0.0  # one in ten is a token of which the model was certain
    return logprobs


def _without_certain_start(logprobs: Floats) -> Floats:
    """Logprobs of a run, of which not all are 0: that would be a placeholder's to who has no ledger."""
    logprobs[:1] = np.minimum(logprobs[:1], np.float32(-0.125))
    return logprobs


def _oldest(contract: Contract) -> int:
    """The greatest age in seconds, up to half a day, at which nothing expires soon."""
    parameters = contract.parameters
    return max(0, min(int(parameters.window - parameters.margin) - 1, 43_200))


def _policy_version(contract: Contract, seed: int) -> str | None:
    parameters = contract.parameters
    if parameters.learner_version is None or parameters.max_policy_lag is None:
        return None
    return str(parameters.learner_version - _below(min(parameters.max_policy_lag, 100) + 1, seed, "version"))
