"""What each of Tinker's losses takes: its inputs, their ranks, its configuration keys.

Source: Tinker's Losses page and, for key names and the set of losses, the official SDK (0.38.0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from provenance.columns import TARGETS


def is_finite(value: object) -> bool:
    """Whether an option of a loss is an int or a float, finite, and no bool: True would pass for 1.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpec:
    """The contract's view of one loss."""

    name: str
    required: tuple[str, ...]
    """Loss inputs every datum must have."""
    optional: tuple[str, ...] = ()
    """Loss inputs a datum may have, one value a token."""
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """Ranks an input may have, where it is not just 1."""
    int64: frozenset[str] = frozenset({TARGETS})
    """Inputs whose dtype is int64; the others are float32."""
    config: tuple[str, ...] = ()
    """Keys of loss_fn_config."""
    provenance: bool = False
    """The loss needs both span lists on every datum."""
    declared: bool = True
    """The inputs are known; False for a custom loss without a declaration, which takes anything."""

    def takes(self, name: str) -> bool:
        """Whether a datum may carry this loss input."""
        return not self.declared or name in self.required or name in self.optional

    def ranks_of(self, name: str) -> tuple[int, ...]:
        """Allowed numbers of dimensions of an input."""
        return self.ranks.get(name, (1,) if self.declared else (0, 1, 2))


_POLICY: Final = (TARGETS, "logprobs", "advantages")
_CLIP: Final = ("clip_low_threshold", "clip_high_threshold")

LOSSES: Final[Mapping[str, LossSpec]] = {
    spec.name: spec
    for spec in (
        LossSpec(
            name="cross_entropy",
            required=(TARGETS, "weights"),
            ranks={TARGETS: (1, 2), "weights": (1, 2)},
        ),
        LossSpec(name="importance_sampling", required=_POLICY),
        LossSpec(name="ppo", required=_POLICY, optional=_CLIP, config=_CLIP),
        LossSpec(name="cispo", required=_POLICY, optional=_CLIP, config=_CLIP),
        LossSpec(name="dro", required=_POLICY, config=("beta",)),
        LossSpec(name="gspo", required=(*_POLICY, "sequence_ratio_mask"), optional=_CLIP, config=_CLIP),
        LossSpec(name="stable_reinforce", required=_POLICY, config=("kl_coeff",), provenance=True),
        LossSpec(name="custom", required=(), config=("loss_id",), declared=False),
    )
}
