"""The policy terms that are compared: the library's, and those of other losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

#: log r = p - q and advantages, both (S,), to the weight w of -sum w A p, (S,), which gets no gradient.
Weight = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Arm:
    """A policy term. Those of the library name its arguments, others give their weight."""

    policy: Literal["reinforce", "token_is"] = "reinforce"
    ratio_cap: float | None = None
    weight: Weight | None = None


def importance_sampling(log_ratio: Tensor, advantages: Tensor) -> Tensor:  # noqa: ARG001 - all weights' arguments
    """r: untruncated token-level importance sampling."""
    return log_ratio.exp()


def ppo(log_ratio: Tensor, advantages: Tensor, low: float = 0.8, high: float = 1.2) -> Tensor:
    """The gradient of -min(r A, clip(r, low, high) A) is -r A, and 0 where the clipped branch is the smaller.

    Schulman et al. 2017, equation 7.
    """
    ratio = log_ratio.exp()
    clipped = torch.where(advantages > 0, ratio > high, ratio < low)
    return torch.where(clipped, 0, ratio)


def cispo(log_ratio: Tensor, advantages: Tensor, low: float = 0.0, high: float = 4.0) -> Tensor:  # noqa: ARG001
    """The ratio, clipped, as a constant: no token loses its gradient (MiniMax 2025)."""
    return log_ratio.exp().clamp(low, high)


def icepop(log_ratio: Tensor, advantages: Tensor, low: float = 0.5, high: float = 5.0) -> Tensor:  # noqa: ARG001
    """The ratio inside of a band, and nothing outside of it."""
    ratio = log_ratio.exp()
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0)


ARMS: dict[str, Arm] = {
    "reinforce": Arm("reinforce"),
    "token_is": Arm("token_is", None),
    "token_is cap 2": Arm("token_is", 2.0),
    "token_is cap 4": Arm("token_is", 4.0),
    "ppo 0.8/1.2": Arm(weight=ppo),
    "cispo 0/4": Arm(weight=cispo),
    "icepop 0.5/5": Arm(weight=icepop),
}
