"""What a rollout went through: requests, what was sampled for each, and what it was worth.

One `Trajectory` a line is the plain JSON Lines format of turns; `provenance.builder` makes datums of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from provenance.models._arrays import FLOAT32, ArrayLike, Floats, Tokens, as_array, as_vector, to_list
from provenance.models._base import Model, absent, refuse, shorten
from provenance.models.chunks import EncodedTextChunk, ModelInput, as_tuple
from provenance.models.sequence import SampledSequence

__all__ = ["Trajectory", "Turn"]


def _as_number(value: Any) -> float:
    """Return a float that float32 can hold, not rounded to it; a scalar of any library is one."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise refuse("FMT004", f"{shorten(value)} is not a number")
    try:
        as_array([number], FLOAT32)
    except PydanticCustomError as error:
        raise refuse(error.type, (error.context or {})["text"]) from None
    return float(number)


def _as_advantage(value: Any) -> float | Floats | None:
    if value is None:
        return None
    several = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0
    return as_vector(value, FLOAT32) if several else _as_number(value)


_NUMBER = {"type": "number"}
_Number: TypeAlias = Annotated[float, PlainValidator(_as_number), WithJsonSchema(_NUMBER)]
_Text: TypeAlias = Annotated[str, Strict(), Field(min_length=1)]
_Advantage: TypeAlias = Annotated[
    float | Floats | None,
    PlainValidator(_as_advantage),
    PlainSerializer(
        lambda value: to_list(value) if isinstance(value, np.ndarray) else value, when_used="json"
    ),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}, {"type": "null"}]}),
]


class Turn(Model, frozen=True):
    """One request and one of the sequences it sampled.

    Raises:
        SchemaError: INP005 for an advantage vector that is not as long as the sampled tokens, VAL001 for an
            advantage that float32 cannot hold, TOK003 for a prompt whose length is unknown, SEQ003 for one
            that is not what the sequence recorded, FMT004 for other fields of the wrong type.
    """

    sequence: SampledSequence
    """What was sampled, with the prompt it was sampled for."""

    prompt: ModelInput | None = Field(default=None, exclude_if=absent)
    """The request's prompt, as long as `sequence.prompt_tokens`; needed only where that holds -1, no text."""

    advantage: _Advantage = Field(default=None, exclude_if=absent)
    """Of the sampled tokens, finite: one for all of them, or one for each, shape (S,), float32. None: that of
    the trajectory."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            sequence: SampledSequence,
            prompt: ModelInput | None = None,
            advantage: float | ArrayLike | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _check(self) -> Self:
        sampled = self.sequence.tokens.size
        if isinstance(self.advantage, np.ndarray) and self.advantage.size != sampled:
            text = (
                f"shape [{self.advantage.size}], expected a number or shape [{sampled}], one for each token"
            )
            raise refuse("INP005", text, path="advantage")
        recorded = self.sequence.prompt_tokens
        if self.prompt is not None:
            _refuse_another(_positions(self.prompt), recorded)
        elif recorded.size and int(recorded.min()) < 0:
            at = int(recorded.argmin())
            text = (
                f"missing, but position {at} of sequence.prompt_tokens is no text: give the request's prompt"
            )
            raise refuse("FMT004", text, path="prompt")
        return self


class Trajectory(Model, frozen=True):
    """The turns of one rollout, in the order they were sampled.

    Raises:
        SchemaError: VAL001 for an advantage or a reward that float32 cannot hold, FMT004 for other fields of
            the wrong type, and what the turns raise.
    """

    turns: Annotated[tuple[Turn, ...], BeforeValidator(as_tuple)]
    """The turns; none for a rollout that ended before its first, whose reward counts in its group."""

    advantage: _Number | None = Field(default=None, exclude_if=absent)
    """Of the sampled tokens of every turn that has none of its own, finite."""

    reward: _Number | None = Field(default=None, exclude_if=absent)
    """What the rollout earned, finite."""

    group_id: _Text | None = Field(default=None, exclude_if=absent)
    """Names the rollouts that are compared with each other: those that started from one prompt."""

    trajectory_id: _Text | None = Field(default=None, exclude_if=absent)
    """Names the trajectory; opaque."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            turns: Sequence[Turn],
            advantage: float | None = None,
            reward: float | None = None,
            group_id: str | None = None,
            trajectory_id: str | None = None,
        ) -> None: ...


def _positions(prompt: ModelInput) -> Tokens:
    """Return a prompt as a sequence records it: int32 ids, -1 where a position is no text."""
    parts: list[Tokens] = [np.zeros(0, np.int32)]
    for i, chunk in enumerate(prompt.chunks):
        if isinstance(chunk, EncodedTextChunk):
            parts.append(chunk.tokens)
            continue
        length = chunk.known_length
        if length is None:
            raise refuse("TOK003", chunk._remedy(), path=f"prompt.chunks[{i}]")
        parts.append(np.full(length, -1, np.int32))
    return np.concatenate(parts)


def _refuse_another(given: Tokens, recorded: Tokens) -> None:
    """Refuse a prompt that is not the recorded one."""
    if given.size != recorded.size:
        text = f"length {given.size}, expected {recorded.size}, that of sequence.prompt_tokens"
        raise refuse("SEQ003", text, path="prompt")
    if not np.array_equal(given, recorded):
        at = int((given != recorded).argmax())
        text = f"{given[at]} at position {at}, sequence.prompt_tokens has {recorded[at]} (-1 is no text)"
        raise refuse("SEQ003", text, path="prompt")
