"""Do sampler and learner compute the same logprobs from the same weights and histories?

The question that comes before any correction of importance weights: whether a run has to live with kernels
that disagree, or with the lag of its weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from losses.errors import LossError

__all__ = ["Invariance", "invariance"]

Verdict = Literal["invariant", "rounding", "kernel mismatch", "another distribution"]

#: Largest difference, in nats, that still is float32 rounding and not another kernel's arithmetic.
ROUNDING: Final = 1e-4
#: Mean difference, in nats, above which no arithmetic explains it; the same limit as rule SEQ012's.
FOREIGN: Final = 0.5

_MEANING: Final = {
    "invariant": "what learner and sampler differ by in training is the lag of the weights alone",
    "rounding": "what they differ by in training is, but for rounding, the lag of the weights alone",
    "kernel mismatch": "their kernels compute different probabilities, on top of any lag of the weights",
    "another distribution": "too far apart for arithmetic: look for a temperature, a shift by one, a missing "
    "BOS token or other weights",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariance:
    """How well two computations of the same logprobs agree; differences in nats."""

    positions: int
    identical: float
    """Share of the positions that agree exactly."""
    max_abs_diff: float
    mean_abs_diff: float
    k3: float
    """Mean of r - 1 - log r, r = exp(learner - rollout)."""
    first_token_abs_diff: float
    """Mean over the first token of each sequence: a BOS token or a temperature goes wrong there first."""
    verdict: Verdict
    """"invariant" if all agree exactly, else "rounding" if the largest difference is at most 1e-4, else
    "kernel mismatch" if the mean difference is at most 0.5, else "another distribution"."""

    def __str__(self) -> str:
        return (
            f"{self.verdict}: {self.identical:.2%} of {self.positions} positions agree exactly, "
            f"largest difference {self.max_abs_diff:.3g}, mean {self.mean_abs_diff:.3g}, at first tokens "
            f"{self.first_token_abs_diff:.3g}, k3 {self.k3:.3g}; {_MEANING[self.verdict]}"
        )


def invariance(
    rollout_logprobs: Tensor | Sequence[Tensor], learner_logprobs: Tensor | Sequence[Tensor]
) -> Invariance:
    """Compare the logprobs of sampled tokens by the sampler with those by the learner, under equal weights.

    Args:
        rollout_logprobs: what the sampler recorded: (n,) for one sequence, or a list of (n_i,).
        learner_logprobs: the same tokens after the same histories, computed by the learner; the same form.

    Raises:
        LossError: the shapes differ, there is no token, or a logprob is not finite.
    """
    rollout, learner = _sequences(rollout_logprobs), _sequences(learner_logprobs)
    if [row.shape for row in rollout] != [row.shape for row in learner]:
        shapes = [tuple(row.shape) for row in rollout], [tuple(row.shape) for row in learner]
        raise LossError(f"rollout and learner have shapes {shapes[0]} and {shapes[1]}, expected the same")
    if not rollout or any(row.ndim != 1 or not len(row) for row in rollout):
        shape = [tuple(row.shape) for row in rollout]
        raise LossError(f"logprobs have shapes {shape}, expected (n_i,) of one token or more")
    log_ratio = [b - a for a, b in zip(rollout, learner, strict=True)]
    first = torch.stack([row[0] for row in log_ratio]).abs().mean().item()
    flat = torch.cat(log_ratio)
    size = flat.abs()
    largest, mean = size.max().item(), size.mean().item()
    if not flat.isfinite().all():
        sequence = next(i for i, row in enumerate(log_ratio) if not row.isfinite().all())
        token = int(log_ratio[sequence].isfinite().logical_not().nonzero()[0])
        values = rollout[sequence][token].item(), learner[sequence][token].item()
        raise LossError(
            f"sequence {sequence}: token {token}: {values[0]!r} and {values[1]!r}, expected finite logprobs"
        )
    return Invariance(
        positions=len(flat),
        identical=(flat == 0).double().mean().item(),
        max_abs_diff=largest,
        mean_abs_diff=mean,
        k3=(flat.expm1() - flat).mean().item(),
        first_token_abs_diff=first,
        verdict=_verdict(largest, mean),
    )


def _sequences(logprobs: Tensor | Sequence[Tensor]) -> list[Tensor]:
    rows = [logprobs] if isinstance(logprobs, Tensor) else list(logprobs)
    return [row.detach().to("cpu", torch.float64) for row in rows]


def _verdict(largest: float, mean: float) -> Verdict:
    if largest == 0:
        return "invariant"
    if largest <= ROUNDING:
        return "rounding"
    return "kernel mismatch" if mean <= FOREIGN else "another distribution"
