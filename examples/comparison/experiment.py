"""One run: sample with old weights, record, validate, train, 200 times."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import torch
from torch import Tensor

import provenance
from examples.comparison.arms import ARMS
from examples.comparison.gpt import GPT, fingerprint
from examples.comparison.sampling import accuracy, sample
from examples.comparison.task import DIGITS, PROMPT, prompts, rewards
from losses import LossError, stable_reinforce, token_logprobs
from losses.diagnostics import MismatchMonitor
from provenance import MemoryLedger, SampledSequence

PROMPTS: Final = 16
SAMPLES: Final = 8
EVALUATED: Final = 10
"""Steps between evaluations, and between the measurements that are kept."""


@dataclass(frozen=True, slots=True)
class Config:
    """What distinguishes a run."""

    arm: str
    kl_coeff: float
    lag: int
    seed: int
    mismatch: str = "none"
    silent: bool = False
    learning_rate: float = 2e-3
    clip_norm: float | None = None
    steps: int = 200


def run(config: Config, start: GPT) -> dict[str, Any]:
    """Train from the given weights; a JSON-shaped record of the run."""
    begun = time.perf_counter()
    learner, sampler = GPT(), GPT()
    learner.load_state_dict(start.state_dict())
    optimizer = torch.optim.Adam(learner.parameters(), lr=config.learning_rate)
    weights = deque([_copy(learner)], maxlen=config.lag + 1)
    ledger, monitor = MemoryLedger(), MismatchMonitor()
    kept: dict[str, list[float]] = {}
    accuracies = [accuracy(learner)]
    truncated, largest, stopped = 0.0, 0.0, ""
    for step in range(config.steps):
        sampler.load_state_dict(weights[0])
        rollout = _sample(config, sampler, step)
        batch = _validated(ledger, rollout, config, step, max(0, step - config.lag))
        measured = step % EVALUATED == 0
        lag_logprobs = _logprobs(sampler, batch).detach() if measured else None
        logprobs = _logprobs(learner, batch)
        try:
            loss, metrics = _loss(config, batch, logprobs, lag_logprobs)
        except LossError as error:  # logprobs or ratios that are not finite
            stopped = str(error)
            break
        monitor.update(metrics)
        truncated += metrics["truncated_fraction:mean"] / config.steps
        largest = max(largest, metrics["ratio:max"])
        if not bool(torch.isfinite(loss)):
            stopped = f"loss {float(loss)}"
            break
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(learner.parameters(), config.clip_norm)
        optimizer.step()
        weights.append(_copy(learner))
        if measured:
            for name in _KEPT:
                kept.setdefault(name, []).append(_rounded(metrics[name]))
            kept.setdefault("reward", []).append(_rounded(rollout["rewards"].mean()))
        if (step + 1) % EVALUATED == 0:
            accuracies.append(accuracy(learner))
    return {
        **asdict(config),
        "accuracies": [round(value, 4) for value in accuracies],
        "finite": not stopped,
        "stopped": stopped,
        "metrics": kept,
        "truncated": _rounded(truncated),
        "ratio_max": _rounded(largest),
        "k3_peak_over_median": _rounded(monitor.k3_peak_over_median),
        "ess_min": _rounded(monitor.min_ess),
        "start": fingerprint(start),
        "torch": torch.__version__,
        "provenance": provenance.__version__,
        "seconds": round(time.perf_counter() - begun, 1),
    }


_KEPT: Final = (
    "k1:mean",
    "k3:mean",
    "ess:mean",
    "ratio:max",
    "truncated_fraction:mean",
    "weight_lag_k3:mean",
    "kernel_mismatch_k3:mean",
)


def _rounded(value: float | Tensor) -> float:
    return float(f"{float(value):.5g}")


def _copy(model: GPT) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def _sample(config: Config, sampler: GPT, step: int) -> dict[str, Tensor]:
    # The draws depend on seed and step alone, so that arms differ in nothing else (common random numbers).
    luck = 1_000_003 * config.seed + 1_009 * step
    asked = prompts(PROMPTS, torch.Generator().manual_seed(luck)).repeat_interleave(SAMPLES, dim=0)
    tokens, logprobs = sample(sampler, asked, luck + 1, config.mismatch, silent=config.silent)
    earned = rewards(asked, tokens)
    advantages = earned - earned.view(PROMPTS, SAMPLES).mean(dim=1).repeat_interleave(SAMPLES)
    return {
        "asked": asked,
        "tokens": tokens,
        "logprobs": logprobs,
        "rewards": earned,
        "advantages": advantages,
    }


def _validated(
    ledger: MemoryLedger, rollout: dict[str, Tensor], config: Config, step: int, version: int
) -> provenance.ValidatedBatch:
    """Record what was sampled, build datums of it, and have them validated."""
    now, session = datetime.now(UTC), f"comparison-{config.seed}"
    names = [f"{step}:{i}" for i in range(len(rollout["asked"]))]
    asked, tokens, logprobs = (rollout[name].numpy() for name in ("asked", "tokens", "logprobs"))
    ledger.record(
        SampledSequence(
            sequence_id=name,
            session_id=session,
            prompt_tokens=asked[i],
            tokens=tokens[i],
            logprobs=logprobs[i],
            sampled_at=now,
            record_stability_info=True,
            policy_version=version,
        )
        for i, name in enumerate(names)
    )
    return provenance.validate(_datums(rollout, names), ledger=ledger, session=session, now=now)


def _datums(rollout: dict[str, Tensor], names: list[str]) -> pa.RecordBatch:
    """One turn a datum, all equally long: the fastest way to hand over many is Arrow."""
    rows = len(names)
    full = torch.cat([rollout["asked"], rollout["tokens"]], dim=1)
    advantages = rollout["advantages"][:, None].expand(rows, DIGITS)
    before = torch.zeros(rows, PROMPT - 1)
    prompt, sampled = ("prompt", 0, PROMPT), ("sampled", 0, DIGITS - 1)
    target_prompt, target_sampled = ("prompt", 1, PROMPT - 1), ("sampled", 0, DIGITS)
    return pa.record_batch(
        {
            "model_input_tokens": _lists(full[:, :-1].int()),
            "target_tokens": _lists(full[:, 1:]),
            "logprobs": _lists(torch.cat([before, rollout["logprobs"]], dim=1)),
            "advantages": _lists(torch.cat([before, advantages], dim=1)),
            "model_input_spans": _spans(names, prompt, sampled),
            "loss_fn_input_spans": _spans(names, target_prompt, target_sampled),
        }
    )


def _lists(values: Tensor) -> pa.Array:
    """(B, L) as B lists of L numbers."""
    rows, length = values.shape
    offsets = pa.array(range(0, rows * length + 1, length), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values.flatten().numpy()))


def _spans(names: list[str], *spans: tuple[str, int, int]) -> pa.Array:
    """For each sequence the same spans of it: kind, offset and length."""
    keys = ("type", "sequence_id", "offset", "length")
    rows = [[dict(zip(keys, (kind, name, *place), strict=True)) for kind, *place in spans] for name in names]
    return pa.array(rows)


def _logprobs(model: GPT, batch: provenance.ValidatedBatch) -> Tensor:
    """(T,) float32: the model's logprob of every target; all datums are equally long."""
    hidden, _ = model(torch.tensor(batch.tokens, dtype=torch.int64).view(len(batch), -1))
    return token_logprobs(
        hidden.flatten(0, 1), model.head.weight, torch.tensor(batch.inputs["target_tokens"])
    )


def _loss(
    config: Config, batch: provenance.ValidatedBatch, logprobs: Tensor, lag_logprobs: Tensor | None
) -> tuple[Tensor, Mapping[str, float]]:
    arm = ARMS[config.arm]
    out = stable_reinforce(
        batch,
        logprobs,
        kl_coeff=config.kl_coeff,
        policy=arm.policy,
        ratio_cap=arm.ratio_cap,
        lag_logprobs=lag_logprobs,
    )
    if arm.weight is None:
        return out.loss, out.metrics
    # The gate, the KL term's convention and the diagnostics are the library's; the policy term is the arm's.
    sampled = torch.tensor(batch.sampled)
    q, advantages = (torch.tensor(batch.inputs[name])[sampled] for name in ("logprobs", "advantages"))
    p = logprobs[sampled]
    log_ratio = (p - q).detach()
    weight = arm.weight(log_ratio, advantages)
    truncated = float((weight != log_ratio.exp()).float().mean())
    metrics = {**out.metrics, "truncated_fraction:mean": truncated}
    return -(weight * advantages * p).sum() + config.kl_coeff * (q - p).sum(), metrics
