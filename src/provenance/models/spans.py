"""Provenance spans: where a run of positions comes from.

A list of spans tiles one field of a datum: the runs are consecutive and every position lies in exactly one,
so a run's position follows from its place in the list. Source: `tinker.types.provenance_spans`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Strict

from provenance.models._base import Model

__all__ = ["PromptProvenanceSpan", "ProvenanceSpan", "SampledProvenanceSpan"]

# Arrow and protobuf carry both as int64.
_Count = Annotated[int, Strict(), Field(ge=0, le=2**63 - 1)]
# A null offset is one that is left out.
_Offset = Annotated[_Count, BeforeValidator(lambda value: 0 if value is None else value)]
_Id = Annotated[str, Strict(), Field(min_length=1)]
_RULES = MappingProxyType(dict.fromkeys(("type", "sequence_id", "offset", "length"), "SPN005"))


class PromptProvenanceSpan(Model, frozen=True):
    """Positions that copy a request's prompt: `[offset, offset + length)` of the named sequence's prompt.

    Raises:
        SchemaError: SPN005 for a field of the wrong type or range, FMT004 for an unknown field.
    """

    _rules = _RULES

    type: Literal["prompt"] = "prompt"
    """The kind of span, the tag in JSON."""

    sequence_id: _Id
    """Any sequence that the request with this prompt sampled; opaque, unique within its session."""

    offset: _Offset = 0
    """First position, in tokens from the start of the request's prompt; int64."""

    length: _Count
    """Number of positions, in tokens; int64. Zero is legal for SDK >= 0.35 and reported by SPN006."""

    def _repr_html_(self) -> str:
        from provenance.models._display import span_to_html

        return span_to_html(self)


class SampledProvenanceSpan(Model, frozen=True):
    """Positions that copy what was sampled: `[offset, offset + length)` of the named sequence's tokens.

    Raises:
        SchemaError: SPN005 for a field of the wrong type or range, FMT004 for an unknown field.
    """

    _rules = _RULES

    type: Literal["sampled"] = "sampled"
    """The kind of span, the tag in JSON."""

    sequence_id: _Id
    """The sequence whose tokens these are; opaque, unique within its session."""

    offset: _Offset = 0
    """First position, in tokens from the first sampled token; int64."""

    length: _Count
    """Number of positions, in tokens; int64. Zero is legal for SDK >= 0.35 and reported by SPN006."""

    def _repr_html_(self) -> str:
        from provenance.models._display import span_to_html

        return span_to_html(self)


ProvenanceSpan: TypeAlias = Annotated[
    PromptProvenanceSpan | SampledProvenanceSpan, Field(discriminator="type")
]
