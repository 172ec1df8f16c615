"""The numbers that rules compare with, and which way each of them loosens a contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Direction = Literal["up", "down", "unset"]


def _parameter(default: Any, *, loosens: Direction, rules: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"loosens": loosens, "rules": rules})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of a contract. Times are in seconds, logprobs in nats.

    Each field's ``loosens`` says in which direction a change admits more data: ``up`` and ``down`` for
    numbers, ``unset`` for limits that are checked only where they are given. ``rules``: whom that concerns.
    """

    vocab_size: int | None = _parameter(None, loosens="unset")
    """TOK001: ids are below this."""
    max_tokens: int | None = _parameter(None, loosens="unset")
    """INP009: positions of a datum."""
    tolerance: float = _parameter(1e-4, loosens="up", rules=("VAL002", "SEQ007"))
    """VAL002, SEQ007: how far above 0 rounding may push a logprob."""
    placeholder_run: int = _parameter(32, loosens="up", rules=("VAL003",))
    """VAL003: length from which a sampled run of zeros is suspicious."""
    logprob_abs: float = _parameter(1e-3, loosens="up", rules=("SEQ006",))
    """SEQ006: absolute part of the tolerance between given and recorded logprobs."""
    logprob_rel: float = _parameter(2.0**-7, loosens="up", rules=("SEQ006",))
    """SEQ006: relative part, the spacing of bfloat16."""
    foreign_logprobs: float = _parameter(0.5, loosens="up", rules=("SEQ012",))
    """SEQ012: mean absolute difference over a span from which logprobs are another sequence's."""
    foreign_run: int = _parameter(4, loosens="up", rules=("SEQ012",))
    """SEQ012: shortest span over which that mean is taken."""
    window: float = _parameter(86400.0, loosens="up", rules=("SES002",))
    """SES002: how long after its last use a sequence may be trained on."""
    margin: float = _parameter(3600.0, loosens="down", rules=("SES003",))
    """SES003: how much of the window should be left."""
    skew: float = _parameter(300.0, loosens="up", rules=("SES004",))
    """SES004: how far a sampler's clock may run ahead."""
    learner_version: int | None = _parameter(None, loosens="unset")
    """SES005: version of the weights that are trained."""
    max_policy_lag: int | None = _parameter(None, loosens="unset")
    """SES005: how many versions older the sampler's weights may be."""
    advantage_limit: float = _parameter(100.0, loosens="up", rules=("ADV004",))
    """ADV004: largest plausible absolute advantage."""

    def changed(self) -> dict[str, Any]:
        """The parameters that differ from their default."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    def loosened(self) -> Mapping[str, tuple[str, ...]]:
        """The parameters that admit more than their default does, each with the codes of its rules."""
        found = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if (f.metadata["loosens"] == "up" and value > f.default) or (
                f.metadata["loosens"] == "down" and value < f.default
            ):
                found[f.name] = f.metadata["rules"]
        return found
