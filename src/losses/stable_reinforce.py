"""REINFORCE with truncated importance weights and a KL term that holds the learner near the sampler.

S are the positions under a target-side sampled span, p and q the logprobs of learner and sampler, A the
advantage, b = ``kl_coeff``, and w the importance weight, through which no gradient flows:

    r     = exp(p - q)
    w     = min(r, ratio_cap)                  policy="token_is"
    w     = 1                                  policy="reinforce"
    loss  = -sum_S w A  +  b sum_S (q - p)
    dL/dp = -(w A + b) on S, 0 elsewhere

The KL term is Tinker's, as documented. The policy term is ours: Tinker does not publish its own. Since w is
held fixed, the value of the policy term is not an antiderivative of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from losses._batch import Logprobs, flatten, log_ratio_of, place_of, require_validated
from losses._checks import log_of_cap
from losses.diagnostics import step
from losses.errors import LossError
from provenance.batch import ValidatedBatch, sampled_tensor
from provenance.loss_spec import is_finite

__all__ = ["LossOutput", "stable_reinforce"]

Policy = Literal["token_is", "reinforce"]


@dataclass(frozen=True, slots=True, eq=False)
class LossOutput:
    """What a loss gives back."""

    loss: Tensor
    """(): the sum over all tokens, float32 (float64 for float64 logprobs); call ``backward`` on it."""
    logprobs: tuple[Tensor, ...]
    """The learner's logprobs, (N_i,) for each datum, without gradient; views of what was given, where that
    was float32 or float64."""
    metrics: Mapping[str, float]
    """``name:reduction`` -> value; ``losses.diagnostics`` says what each means and merges micro-batches."""


def stable_reinforce(
    batch: ValidatedBatch,
    learner_logprobs: Logprobs,
    *,
    kl_coeff: float = 0.01,
    policy: Policy = "token_is",
    ratio_cap: float | None = 4.0,
    lag_logprobs: Logprobs | None = None,
) -> LossOutput:
    """The loss of a validated batch, summed over tokens and datums; nothing is divided by a length.

    Args:
        batch: what ``provenance.validate`` returned under the stable_reinforce contract or a stricter one.
        learner_logprobs: the learner's logprob, in nats, of the target at each position: (T,) for the packed
            batch, a list of (N_i,), or (B, L), padded on the right to the longest datum; 16 bits or more.
            What it holds outside S is not looked at.
        kl_coeff: b, finite and >= 0. It is not scaled with the advantages: who divides those by the number
            of tokens divides b as well, or has a stronger KL term.
        policy: how a token is weighted, see above.
        ratio_cap: upper bound of w, finite and >= 1; None for none. "reinforce" has no use for it.
        lag_logprobs: the learner's own logprobs under the weights that sampled, in the same forms. Metrics
            then tell the lag of the weights from the mismatch of the kernels.

    Raises:
        LossError: the batch is not validated, an option or a shape is wrong, a logprob in S is not finite, or
            an uncapped weight overflows.
    """
    if torch.compiler.is_compiling():  # checks and metrics are read on the host: a compiler gains nothing
        eager = torch.compiler.disable(stable_reinforce)  # type: ignore[no-untyped-call]  # torch's own
        output: LossOutput = eager(
            batch,
            learner_logprobs,
            kl_coeff=kl_coeff,
            policy=policy,
            ratio_cap=ratio_cap,
            lag_logprobs=lag_logprobs,
        )
        return output
    require_validated(batch, "stable_reinforce")
    log_cap = log_of_cap(ratio_cap)
    if policy not in ("token_is", "reinforce"):
        raise LossError(f"policy is {policy!r}, expected 'token_is' or 'reinforce'")
    if not is_finite(kl_coeff) or kl_coeff < 0:
        raise LossError(f"kl_coeff is {kl_coeff!r}, expected a finite float >= 0")
    p = flatten(batch, learner_logprobs, "learner_logprobs")
    lag = None if lag_logprobs is None else flatten(batch, lag_logprobs, "lag_logprobs")
    positions, advantages = (sampled_tensor(batch, name, p.device) for name in ("positions", "advantages"))

    with torch.no_grad():
        log_ratio = log_ratio_of(batch, p)  # (S,), like all that follows: nothing outside S has a say
        weight = log_ratio.clamp(max=log_cap).exp_() if policy == "token_is" else torch.ones_like(log_ratio)
        weighted = weight.mul_(advantages)
        loss_policy = -weighted.sum()
        loss_kl = -kl_coeff * log_ratio.sum() if kl_coeff else torch.zeros_like(loss_policy)
        loss = loss_policy + loss_kl
        gradient = -(weighted + kl_coeff)
        sums = {"loss:sum": loss, "loss_policy:sum": loss_policy, "loss_kl:sum": loss_kl}
        sums |= step.sums_of(batch, log_ratio, log_cap if policy == "token_is" else math.inf, lag)
        metrics = step.metrics_of(batch, sums)  # the only synchronisation

    step.require_finite(batch, metrics, p, lag)
    _require_finite_weights(batch, log_ratio, weighted, metrics["loss_policy:sum"])
    if not math.isfinite(metrics["loss:sum"]):
        raise LossError(
            f"the KL term, kl_coeff {kl_coeff!r} times k1 {metrics['k1:sum']:.6g}, overflows {p.dtype}; "
            "look for logprobs that a mask made huge"
        )
    return LossOutput(
        loss=_WithGradient.apply(p, loss, positions, gradient),  # type: ignore[no-untyped-call]  # torch's own
        logprobs=torch.split(p.detach(), np.diff(batch.cu_seqlens).tolist()),
        metrics=metrics,
    )


class _WithGradient(torch.autograd.Function):
    """A scalar that has the given value, and the given gradient (S,) with respect to the logprobs (T,)."""

    @staticmethod
    def forward(ctx: Any, logprobs: Tensor, value: Tensor, positions: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(positions, gradient)
        ctx.length = len(logprobs)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor, None, None, None]:
        positions, gradient = ctx.saved_tensors
        of_all = gradient.new_zeros(ctx.length)
        return of_all.index_copy_(0, positions, above[0] * gradient), None, None, None


def _require_finite_weights(
    batch: ValidatedBatch, log_ratio: Tensor, weighted: Tensor, loss_policy: float
) -> None:
    """Name the largest weight where the policy term has no finite value."""
    if math.isfinite(loss_policy):
        return
    token = int(weighted.abs().argmax())  # a NaN, of inf * 0, is the largest
    if math.isfinite(weighted[token]):
        raise LossError(
            f"the sum of the weighted advantages overflows {weighted.dtype}; the largest, "
            f"{weighted[token].item():.6g}, is that of {place_of(batch, token)}; set ratio_cap"
        )
    raise LossError(
        f"{place_of(batch, token)}: ratio exp({log_ratio[token].item():.6g}) overflows "
        f"{weighted.dtype} when it weighs the advantage; set ratio_cap, or find out why learner and "
        "sampler disagree that much"
    )
