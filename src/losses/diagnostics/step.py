"""How far learner and sampler are apart, over the sampled positions S of one batch, before any truncation.

Metrics are called ``name:reduction``. Sums, minima and maxima of micro-batches merge exactly, and every mean
is a quotient of two of the sums, so that ``merge`` gives what the whole batch would have given. (Tinker's
client merges ``:mean`` weighted by datums, not by tokens: there, read the sums.)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import torch
from torch import Tensor

from losses._batch import Logprobs, flatten, log_ratio_of, place_of
from losses._checks import log_of_cap
from losses.errors import LossError
from provenance.batch import ValidatedBatch, sampled_tensor

__all__ = ["MAX_LOG_RATIO", "measure", "merge", "metrics_of", "require_finite", "sums_of"]

#: Ratios are cut at exp(20) = 4.9e8, whose square can be summed in float32.
MAX_LOG_RATIO: Final = 20.0

#: mean -> the sums that it is the quotient of.
_MEANS: Final[Mapping[str, tuple[str, str]]] = {
    "k1:mean": ("k1:sum", "tokens:sum"),
    "k2:mean": ("k2:sum", "tokens:sum"),
    "k3:mean": ("k3:sum", "tokens:sum"),
    "ratio:mean": ("ratio:sum", "tokens:sum"),
    "chi2:mean": ("chi2:sum", "tokens:sum"),
    "truncated_fraction:mean": ("truncated:sum", "tokens:sum"),
    "zero_advantage_fraction:mean": ("zero_advantage:sum", "tokens:sum"),
    "advantage_abs:mean": ("advantage_abs:sum", "tokens:sum"),
    "first_token_k1:mean": ("first_token_k1:sum", "sequences:sum"),
    "weight_lag_k1:mean": ("weight_lag_k1:sum", "lag_tokens:sum"),
    "weight_lag_k3:mean": ("weight_lag_k3:sum", "lag_tokens:sum"),
    "kernel_mismatch_k1:mean": ("kernel_mismatch_k1:sum", "lag_tokens:sum"),
    "kernel_mismatch_k3:mean": ("kernel_mismatch_k3:sum", "lag_tokens:sum"),
    "policy_lag:mean": ("policy_lag:sum", "policy_lag_tokens:sum"),
}
_COMBINE: Final[Mapping[str, Callable[[float, float], float]]] = {"sum": operator.add, "min": min, "max": max}


def measure(
    batch: ValidatedBatch,
    learner_logprobs: Logprobs,
    *,
    ratio_cap: float | None = 4.0,
    lag_logprobs: Logprobs | None = None,
) -> dict[str, float]:
    """The metrics of a batch, whatever loss it is trained with; those of ``stable_reinforce`` hold the same.

    Args:
        batch: a validated batch with sampled spans, logprobs and advantages.
        learner_logprobs: as for ``stable_reinforce``; no gradient is taken.
        ratio_cap: ratios above it are counted as truncated; None counts none.
        lag_logprobs: as for ``stable_reinforce``.

    Raises:
        LossError: nothing was sampled, a shape or the cap is wrong, or a logprob in S is not finite.
    """
    if not batch.sequence_ids or not {"logprobs", "advantages"} <= set(batch.inputs):
        raise LossError(f"{batch!r} has no sampled spans with logprobs and advantages, expected an RL batch")
    with torch.no_grad():
        p = flatten(batch, learner_logprobs, "learner_logprobs")
        lag = None if lag_logprobs is None else flatten(batch, lag_logprobs, "lag_logprobs")
        metrics = metrics_of(batch, sums_of(batch, log_ratio_of(batch, p), log_of_cap(ratio_cap), lag))
    require_finite(batch, metrics, p, lag)
    return metrics


def sums_of(
    batch: ValidatedBatch, log_ratio: Tensor, log_cap: float, lag: Tensor | None = None
) -> dict[str, Tensor]:
    """Scalars on the device, from log r (S,) and the logprobs of the lag (T,)."""
    advantages = sampled_tensor(batch, "advantages", log_ratio.device)
    lengths = torch.tensor(batch.sequence_lengths, device=log_ratio.device)
    # r - 1 as expm1: learner and sampler differ by less than the spacing of floats at 1 more often than not.
    excess = log_ratio.clamp(max=MAX_LOG_RATIO).expm1_()
    ratio = log_ratio.clamp(max=MAX_LOG_RATIO).exp_()
    least, largest = log_ratio.aminmax()
    sums = {
        "k1:sum": -log_ratio.sum(),
        "k2:sum": (log_ratio * log_ratio).sum() / 2,
        "k3:sum": (excess - log_ratio).sum(),
        "excess:sum": excess.sum(),
        # Not from r - 1: where all r are small, that has no digits of them left.
        "ratio:sum": ratio.sum(dtype=torch.float64),
        "ratio_squared:sum": (ratio * ratio).sum(dtype=torch.float64),
        "excess_squared:sum": (excess * excess).sum(),
        "ratio:min": least.clamp(max=MAX_LOG_RATIO).exp(),
        "ratio:max": largest.clamp(max=MAX_LOG_RATIO).exp(),
        "logprob_abs_diff:max": torch.maximum(-least, largest),
        "first_token_k1:sum": -log_ratio[lengths.cumsum(0) - lengths].sum(),
        "truncated:sum": torch.count_nonzero(log_ratio > log_cap),
        "zero_advantage:sum": torch.count_nonzero(advantages == 0),
        "advantage_abs:sum": advantages.abs().sum(),
    }
    if lag is not None:
        kernel = log_ratio_of(batch, lag)
        sums |= _k1_and_k3("kernel_mismatch", kernel) | _k1_and_k3("weight_lag", log_ratio - kernel)
    return sums


def _k1_and_k3(name: str, log_ratio: Tensor) -> dict[str, Tensor]:
    k3 = log_ratio.clamp(max=MAX_LOG_RATIO).expm1_().sub_(log_ratio)
    return {f"{name}_k1:sum": -log_ratio.sum(), f"{name}_k3:sum": k3.sum()}


def metrics_of(batch: ValidatedBatch, sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Sums as numbers, the counts known without the device, and the means; synchronises once."""
    values = torch.stack([value.double() for value in sums.values()]).tolist()
    metrics = dict(zip(sums, values, strict=True))
    tokens = float(batch.sequence_lengths.sum())
    excess, squared = metrics.pop("excess:sum"), metrics.pop("excess_squared:sum")
    metrics |= {
        "tokens:sum": tokens,
        "sequences:sum": float(len(batch.sequence_ids)),
        "chi2:sum": squared + 2 * excess,  # r^2 - 1
        **_policy_lag(batch),
    }
    if "weight_lag_k1:sum" in metrics:
        metrics["lag_tokens:sum"] = tokens
    return _with_means(metrics)


def require_finite(
    batch: ValidatedBatch, metrics: Mapping[str, float], learner: Tensor, lag: Tensor | None
) -> None:
    """Refuse logprobs in S that differ from the sampler's by no finite number.

    Raises:
        LossError: names the first of them.
    """
    given = (
        ("learner_logprobs", learner, "logprob_abs_diff:max"),
        ("lag_logprobs", lag, "kernel_mismatch_k1:sum"),
    )
    for name, logprobs, metric in given:
        if logprobs is None or math.isfinite(metrics[metric]):
            continue
        at = log_ratio_of(batch, logprobs).isfinite().logical_not_().nonzero()[:1, 0]
        for token in at.tolist():
            found = logprobs[sampled_tensor(batch, "positions", logprobs.device)[token]].item()
            raise LossError(
                f"{place_of(batch, token)}: {name} holds {found!r}, expected a finite logprob of a sampled "
                "token; look for a masked logit, or for weights that diverged before"
            )


def _policy_lag(batch: ValidatedBatch) -> dict[str, float]:
    """How many versions ago S was sampled, where the contract has a learner version and S numeric ones."""
    learner = batch.contract.parameters.learner_version
    if learner is None:
        return {}
    pairs = zip(batch.policy_versions, batch.sequence_lengths.tolist(), strict=True)
    known = [(learner - version, length) for text, length in pairs if (version := _number(text)) is not None]
    if not known:
        return {}
    return {
        "policy_lag:sum": float(sum(lag * length for lag, length in known)),
        "policy_lag_tokens:sum": float(sum(length for _, length in known)),
        "policy_lag:max": float(max(lag for lag, _ in known)),
    }


def _number(version: str | None) -> int | None:
    try:
        return None if version is None else int(version)
    except ValueError:
        return None


def _with_means(metrics: dict[str, float]) -> dict[str, float]:
    if missing := {"tokens:sum", "sequences:sum", "ratio:sum", "ratio_squared:sum"} - metrics.keys():
        raise LossError(f"metrics lack {', '.join(sorted(missing))}, expected those of stable_reinforce")
    means = {mean: metrics[a] / metrics[b] for mean, (a, b) in _MEANS.items() if a in metrics}
    tokens = metrics["tokens:sum"]
    squared = metrics["ratio_squared:sum"]
    # All r below 1e-22 have squares that are no floats: then nobody can tell.
    means["ess:mean"] = metrics["ratio:sum"] ** 2 / (tokens * squared) if squared else math.nan
    return metrics | means


def merge(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The metrics of a step from those of its micro-batches, as if it had been one batch.

    Raises:
        LossError: there is no part, or one has a mean that does not follow from sums.
    """
    merged: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            reduction = name.rpartition(":")[2]
            if reduction in _COMBINE:
                merged[name] = _COMBINE[reduction](merged[name], value) if name in merged else value
            elif name not in _MEANS and name != "ess:mean":
                raise LossError(f"{name!r} cannot be merged, expected name:sum, name:min or name:max")
    if not merged:
        raise LossError("no metrics to merge, expected those of one micro-batch or more")
    return _with_means(merged)
