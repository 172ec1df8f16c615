"""What one sample returned, as it must be kept when it is sampled: no later response says it again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
    model_validator,
)

from provenance import _rfc3339
from provenance.models._arrays import LOGPROBS, PROMPT_TOKENS, TOKENS, ArrayLike, Floats, Tokens, Vector
from provenance.models._base import Model, absent, refuse, shorten

__all__ = ["SampledSequence"]

#: What a temperature may be at most, and a logprob in a file: float32 holds a little more.
MAX_REAL: Final = 3e38


def as_moment(value: Any) -> datetime:
    """Return an aware datetime or RFC 3339 text as a time in UTC; refused (FMT004) without an offset."""
    if isinstance(value, str):
        try:
            moment = _rfc3339.parse(value)
        except ValueError:
            moment = None
        if moment is None:
            raise refuse("FMT004", f"{shorten(value)} is not an RFC 3339 time")
    elif isinstance(value, datetime):
        moment = value
    else:
        raise refuse("FMT004", f"{shorten(value)} is neither a datetime nor an RFC 3339 time")
    if moment.utcoffset() is None:
        text = f"{shorten(str(value))} has no offset from UTC, and a local time does not say when it was"
        raise refuse("FMT004", text)
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise refuse("FMT004", f"{shorten(str(value))} is out of range") from None
    # Drops subclasses: a pandas.Timestamp would make a pickle of the model need pandas.
    return datetime.combine(moment.date(), moment.timetz())


def _as_version(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise refuse("FMT004", f"{shorten(value)} is neither a string nor an integer")


def _as_real(value: float) -> float:
    if not -MAX_REAL <= value <= MAX_REAL:
        raise refuse("FMT004", f"{shorten(value)} is out of range, expected a number from -3e38 to 3e38")
    return value


_Id: TypeAlias = Annotated[str, Strict(), Field(min_length=1)]
_Text: TypeAlias = Annotated[str, Strict()]
_Real: TypeAlias = Annotated[float, Strict(), Field(allow_inf_nan=False), AfterValidator(_as_real)]
_Int32: TypeAlias = Annotated[int, Strict(), Field(ge=-(2**31), lt=2**31)]
_Int64: TypeAlias = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
_Moment: TypeAlias = Annotated[
    datetime,
    PlainValidator(as_moment),
    PlainSerializer(lambda m: f"{m.replace(tzinfo=None).isoformat()}Z", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
_Version: TypeAlias = Annotated[
    str,
    PlainValidator(_as_version),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]


class SampledSequence(Model, frozen=True):
    """One sample of one request; (session_id, sequence_id) identifies it.

    Raises:
        SchemaError: TOK001 for tokens, SEQ007 for logprobs that are not finite or not as many as tokens,
            FMT004 for other fields of the wrong type.
    """

    sequence_id: _Id
    """The id that the sampling response gave; opaque, unique within its session only."""

    session_id: _Id
    """The session (one service client) that sampled."""

    prompt_tokens: Annotated[Tokens, Vector(PROMPT_TOKENS)]
    """The request's prompt, one entry a position, shape (prompt length,), int32; -1 where that is no text."""

    tokens: Annotated[Tokens, Vector(TOKENS)]
    """The sampled token ids, shape (S,), int32."""

    logprobs: Annotated[Floats, Vector(LOGPROBS)]
    """The sampler's log probability of each token, in nats, shape (S,), float32, finite."""

    sampled_at: _Moment
    """When it was sampled; aware, kept in UTC. Trainable for one day from here (StableReinforce)."""

    last_used_at: _Moment | None = Field(default=None, exclude_if=absent)
    """When a training request last used it, which restarts that day; aware, kept in UTC."""

    record_stability_info: Annotated[bool, Strict()]
    """Whether the sampling client asked for stability info; no response says so, only that client knows."""

    model: _Text | None = Field(default=None, exclude_if=absent)
    """The base model."""

    policy_version: _Version | None = Field(default=None, exclude_if=absent)
    """Which weights sampled; integers are kept as text."""

    stop_reason: _Text | None = Field(default=None, exclude_if=absent)
    """Why sampling stopped."""

    temperature: _Real | None = Field(default=None, exclude_if=absent)
    """Sampling temperature; 1 keeps logprobs those of the distribution that was sampled from."""

    top_p: _Real | None = Field(default=None, exclude_if=absent)
    """Nucleus mass; 1 is off."""

    top_k: _Int32 | None = Field(default=None, exclude_if=absent)
    """Number of candidates, int32; 0 and -1 are off."""

    seed: _Int64 | None = Field(default=None, exclude_if=absent)
    """Seed of the request, int64."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            sequence_id: str,
            session_id: str,
            prompt_tokens: ArrayLike,
            tokens: ArrayLike,
            logprobs: ArrayLike,
            sampled_at: datetime | str,
            last_used_at: datetime | str | None = None,
            record_stability_info: bool,
            model: str | None = None,
            policy_version: str | int | None = None,
            stop_reason: str | None = None,
            temperature: float | None = None,
            top_p: float | None = None,
            top_k: int | None = None,
            seed: int | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if self.logprobs.size != self.tokens.size:
            text = f"{self.logprobs.size} values, expected {self.tokens.size}, one for each token"
            raise refuse("SEQ007", text, path="logprobs")
        return self
