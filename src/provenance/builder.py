"""Datums from trajectories: every token in its place, and spans that say where it comes from.

Turns whose prompts extend each other share a datum. Its full sequence F is the last turn's prompt and sample:
the input is F[:-1], the targets are F[1:], and both lists of spans follow from where each turn's prompt ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pydantic_core import PydanticCustomError

from provenance.errors import SchemaError
from provenance.models import (
    Chunk,
    Datum,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ModelInput,
    PromptProvenanceSpan,
    SampledProvenanceSpan,
    Trajectory,
    Turn,
)
from provenance.models._arrays import FLOAT32, ArrayLike, Floats, Kind, Tokens, as_vector
from provenance.models._base import schema_error, shorten
from provenance.models.spans import ProvenanceSpan

__all__ = ["Group", "build_datums", "build_group", "group_advantages", "untrained_turns"]

_FLOAT64: Final = Kind(np.dtype(np.float64), "a number")


def build_datums(trajectory: Trajectory) -> list[Datum]:
    """Build the datums of a trajectory, with both lists of spans.

    A turn whose prompt extends what the datum before it holds, token for token and image for image, is merged
    into it; any other turn starts a new datum. Loss inputs are ``target_tokens`` (0 where a position is no
    text), ``logprobs`` and ``advantages`` (0 on tokens that were not sampled).

    What a turn sampled is trained on as a whole or not at all, see `untrained_turns`; it may still be the
    context of later turns. A datum that would train on nothing is not built, so that the list may be empty.
    A prompt that was not answered is kept at the end of a datum if it ends in text.

    Whether sequences were recorded with stability info is not asked: not every loss needs it, and the check
    knows the loss (ADV002).

    Raises:
        SchemaError: neither a turn that is trained on nor the trajectory has an advantage; a sequence occurs
            twice (SEQ010); turns are of several sessions (SES001); a prompt holds an image by reference
            (TOK004).
    """
    refuse_unbuildable(trajectory)
    runs = [run for run in _runs(trajectory.turns) if any(map(_is_trained, run))]
    return [_datum(_without_images_at_the_end(run), trajectory.advantage) for run in runs]


def untrained_turns(trajectory: Trajectory) -> list[int]:
    """Return the indices of the turns that no datum trains on: nothing was sampled, or for an empty prompt.

    No position of the input predicts the first token of an answer to an empty prompt, and a sequence that is
    not trained on as a whole is refused (SPN008).
    """
    return [i for i, turn in enumerate(trajectory.turns) if not _is_trained(turn)]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The datums of rollouts that are compared with each other."""

    datums: list[Datum]
    """Of all trajectories, in their order."""
    advantages: Floats
    """(number of trajectories,) float32: reward - mean reward of the group."""
    zero_variance: bool
    """The rewards are equal and all advantages 0, so that only the KL term trains."""


def build_group(trajectories: Sequence[Trajectory]) -> Group:
    """Build the datums of a group; a trajectory's advantage is its reward minus the group's mean.

    It takes the place of an advantage that the trajectory carries. Turns with an advantage of their own keep
    it: 0.0 for a turn that should not count.

    Raises:
        SchemaError: a trajectory has no reward, or names another group than the first; and what
            `build_datums` raises.
    """
    for i, trajectory in enumerate(trajectories):
        if trajectory.reward is None:
            raise schema_error(
                "FMT004", "missing, a group is compared by it", path=f"trajectories[{i}].reward"
            )
        if trajectory.group_id != trajectories[0].group_id:
            text = (
                f"{shorten(trajectory.group_id)}, expected {shorten(trajectories[0].group_id)}, the first's"
            )
            raise schema_error("FMT004", text, path=f"trajectories[{i}].group_id")
    advantages = group_advantages([trajectory.reward for trajectory in trajectories])
    datums = []
    for i, (trajectory, advantage) in enumerate(zip(trajectories, advantages.tolist(), strict=True)):
        try:
            datums += build_datums(trajectory.model_copy(update={"advantage": advantage}))
        except SchemaError as error:
            raise SchemaError(f"trajectories[{i}].{error}", code=error.code) from None
    return Group(datums, advantages, zero_variance=not advantages.any())


def group_advantages(rewards: ArrayLike) -> Floats:
    """Return each reward minus the mean, shape (n,), float32, from float64; exactly 0 where all are equal.

    Raises:
        SchemaError: VAL001 for a reward that is not finite or a difference that float32 cannot hold, FMT004
            for what is no list of numbers.
    """
    values = _vector(rewards, _FLOAT64)
    # The mean of equal numbers need not be equal to them: that of 0.1, three times, is not.
    if (values == values[:1]).all():
        return _vector(np.zeros(values.size), FLOAT32)
    with np.errstate(over="ignore", invalid="ignore"):
        return _vector(values - values.mean(), FLOAT32)


def _vector(values: ArrayLike, kind: Kind) -> Floats:
    try:
        return as_vector(values, kind)
    except PydanticCustomError as error:
        context = error.context or {}
        raise schema_error(error.type, context["text"], path=f"rewards{context['path']}") from None


def _is_trained(turn: Turn) -> bool:
    return turn.sequence.prompt_tokens.size > 0 and turn.sequence.tokens.size > 0


def refuse_unbuildable(trajectory: Trajectory) -> None:
    """Refuse what no single turn shows to be wrong, and what only training refuses.

    Raises:
        SchemaError: as `build_datums`.
    """
    seen: dict[str, int] = {}
    for i, turn in enumerate(trajectory.turns):
        sequence, path = turn.sequence, f"turns[{i}]"
        session = trajectory.turns[0].sequence.session_id
        if sequence.session_id != session:
            text = f"{shorten(sequence.session_id)}, expected {shorten(session)} as in turns[0]: "
            text += "one training request is of one session"
            raise schema_error("SES001", text, path=f"{path}.sequence.session_id")
        first = seen.setdefault(sequence.sequence_id, i)
        if first != i:
            text = (
                f"{shorten(sequence.sequence_id)} is that of turns[{first}] already, expected each one once"
            )
            raise schema_error("SEQ010", text, path=f"{path}.sequence.sequence_id")
        if _is_trained(turn) and turn.advantage is None and trajectory.advantage is None:
            text = "missing, and the trajectory has none: give either, 0.0 to train on the KL term alone"
            raise schema_error("FMT004", text, path=f"{path}.advantage")
        for k, chunk in enumerate(() if turn.prompt is None else turn.prompt.chunks):
            if isinstance(chunk, ImageAssetPointerChunk):
                text = "an image by reference cannot be trained on: give the image itself, as an ImageChunk"
                raise schema_error("TOK004", text, path=f"{path}.prompt.chunks[{k}]")


def _runs(turns: Iterable[Turn]) -> list[list[Turn]]:
    """Split turns where a prompt does not extend what came before."""
    runs: list[list[Turn]] = []
    for turn in turns:
        if runs and _extends(turn, runs[-1][-1]):
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return runs


def _extends(turn: Turn, last: Turn) -> bool:
    prompt, held, sampled = turn.sequence.prompt_tokens, last.sequence.prompt_tokens, last.sequence.tokens
    end = held.size + sampled.size
    return (
        np.array_equal(prompt[: held.size], held)
        and np.array_equal(prompt[held.size : end], sampled)
        # Ids say no more than that a position is no text; two images look alike.
        and [place for place in _places(turn) if place[0] < end] == _places(last)
    )


def _places(turn: Turn) -> list[tuple[int, Chunk]]:
    """Return the chunks of a turn's prompt that are no text, each with its first position."""
    places: list[tuple[int, Chunk]] = []
    at = 0
    for chunk in () if turn.prompt is None else turn.prompt.chunks:
        if not isinstance(chunk, EncodedTextChunk):
            places.append((at, chunk))
        at += chunk.length
    return places


def _without_images_at_the_end(run: list[Turn]) -> list[Turn]:
    """Leave out unanswered prompts that end in no text: the last position of F has to be a target."""
    while not run[-1].sequence.tokens.size and run[-1].sequence.prompt_tokens[-1] < 0:
        run = run[:-1]
    return run


def _datum(run: Sequence[Turn], advantage: float | None) -> Datum:
    last = run[-1].sequence
    full = np.concatenate([last.prompt_tokens, last.tokens])
    logprobs, advantages = np.zeros((2, full.size), np.float32)
    for turn in run:
        if _is_trained(turn):
            start = turn.sequence.prompt_tokens.size
            sampled = slice(start, start + turn.sequence.tokens.size)
            logprobs[sampled] = turn.sequence.logprobs
            advantages[sampled] = advantage if turn.advantage is None else turn.advantage
    return Datum(
        model_input=_model_input(full[:-1], _places(run[-1])),
        loss_fn_inputs={
            "target_tokens": np.maximum(full[1:], 0),
            "logprobs": logprobs[1:],
            "advantages": advantages[1:],
        },
        model_input_spans=_spans(run, 0, full.size - 1),
        loss_fn_input_spans=_spans(run, 1, full.size),
    )


def _model_input(tokens: Tokens, places: Iterable[tuple[int, Chunk]]) -> ModelInput:
    """Return text as chunks that are as long as can be, and none empty, between what is no text."""
    chunks: list[Chunk] = []
    at = 0
    for start, chunk in places:
        if start > at:
            chunks.append(EncodedTextChunk(tokens=tokens[at:start]))
        chunks.append(chunk)
        at = start + chunk.length
    if at < tokens.size:
        chunks.append(EncodedTextChunk(tokens=tokens[at:]))
    return ModelInput(chunks=chunks)


def _spans(run: Iterable[Turn], start: int, stop: int) -> list[ProvenanceSpan]:
    """Return the spans of positions [start, stop) of F, none empty."""
    spans: list[ProvenanceSpan] = []
    at = start
    for turn in run:
        name, begin = turn.sequence.sequence_id, turn.sequence.prompt_tokens.size
        end = begin + turn.sequence.tokens.size
        if begin < start:
            continue  # sampled for an empty prompt: a target only as the prompt of the turn after it
        if (length := min(begin, stop) - at) > 0:
            spans.append(PromptProvenanceSpan(sequence_id=name, offset=at, length=length))
        if (length := min(end, stop) - begin) > 0:
            spans.append(SampledProvenanceSpan(sequence_id=name, length=length))
        at = end
    return spans
