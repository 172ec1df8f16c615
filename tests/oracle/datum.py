"""A datum that has a shape, as the rules of content see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oracle.world import INPUT_SPANS, TARGET_SPANS, Json

#: An input position that is no text.
NO_TEXT = "no text"


@dataclass
class Tensor:
    """A loss input: values as their dtype holds them, each at its row and, in (N, K), its column."""

    dtype: str
    shape: tuple[int, ...]
    values: list[Any]
    cells: list[tuple[int, int]]

    @property
    def one_dimensional(self) -> bool:
        return len(self.shape) == 1


@dataclass(frozen=True)
class Claim:
    """What the span over one position says of it."""

    kind: str
    sequence_id: str
    position: int
    span: int


@dataclass
class Span:
    kind: str
    sequence_id: str
    offset: int
    length: int
    start: int
    """First position of the field that it covers."""


@dataclass
class Plain:
    """A datum with a shape."""

    row: int
    tokens: list[Any]
    """An id, None (null) or NO_TEXT for each position."""
    length: int
    measured: bool
    """Every chunk says how many positions it takes; otherwise the length is what the loss inputs leave."""
    chunks: list[Json]
    inputs: dict[str, Tensor]
    spans: dict[str, list[Span]] | None
    claims: dict[str, list[Claim]] = field(default_factory=dict)

    def id_at(self, name: str, position: int) -> str | None:
        """The sequence that the span over a position names; loss inputs go by the spans of the targets."""
        claims = self.claims.get(INPUT_SPANS if name == "model_input" else TARGET_SPANS, [])
        return claims[position].sequence_id if position < len(claims) else None


def place_of(datum: Plain, sequence_id: str) -> tuple[str, int]:
    """Where a sequence is reported: among the targets if these name it, by a sampled span if one names it."""
    for name in (TARGET_SPANS, INPUT_SPANS):
        spans = datum.spans[name] if datum.spans else []
        mentions = [i for i, span in enumerate(spans) if span.sequence_id == sequence_id]
        sampled = [i for i in mentions if spans[i].kind == "sampled"]
        if mentions:
            return name, (sampled or mentions)[0]
    raise KeyError(sequence_id)
