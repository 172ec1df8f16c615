"""A type checker refuses what the losses refuse: each ignored error must occur, or mypy reports the comment.

This file is checked and never run. `mypy` (strict, so with warn_unused_ignores) is the test.
"""

# Every ignored error below is the point of its line.

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import torch

import losses
import provenance
from provenance import Datum, ValidatedBatch


def accepted(batch: ValidatedBatch, logprobs: torch.Tensor) -> None:
    output = losses.stable_reinforce(batch, logprobs, kl_coeff=0.02, policy="reinforce", ratio_cap=None)
    assert_type(output, losses.LossOutput)
    assert_type(output.loss, torch.Tensor)
    losses.stable_reinforce(batch.to("cuda"), [logprobs, logprobs], lag_logprobs=logprobs)
    losses.stable_reinforce(provenance.validate([], session="s"), logprobs)
    assert_type(batch.to(torch.device("cpu")), ValidatedBatch)
    assert_type(losses.token_logprobs(logprobs, logprobs, logprobs), torch.Tensor)
    assert_type(losses.diagnostics.merge([output.metrics]), dict[str, float])


def not_validated(datums: list[Datum], report: provenance.Report, logprobs: torch.Tensor) -> None:
    losses.stable_reinforce(datums, logprobs)  # type: ignore[arg-type]
    losses.stable_reinforce(datums[0], logprobs)  # type: ignore[arg-type]
    losses.stable_reinforce(report, logprobs)  # type: ignore[arg-type]
    losses.stable_reinforce({"advantages": logprobs}, logprobs)  # type: ignore[arg-type]
    losses.stable_reinforce(None, logprobs)  # type: ignore[arg-type]
    losses.diagnostics.measure(datums, logprobs)  # type: ignore[arg-type]


def forged(tokens: Any) -> None:
    ValidatedBatch()  # type: ignore[call-arg]
    ValidatedBatch(1)  # type: ignore[arg-type]
    ValidatedBatch(tokens=tokens)  # type: ignore[call-arg]


class Forged(ValidatedBatch):  # type: ignore[misc]
    """A subclass could hold what nobody validated."""


def edited(batch: ValidatedBatch) -> None:
    batch.tokens = np.zeros(3)  # type: ignore[misc]
    batch.session = "another"  # type: ignore[misc]
    batch.inputs["advantages"] = np.zeros(3)  # type: ignore[index]
    del batch.inputs["advantages"]  # type: ignore[attr-defined]


def options(batch: ValidatedBatch, logprobs: torch.Tensor) -> None:
    losses.stable_reinforce(batch, logprobs, kl_coeff="0.01")  # type: ignore[arg-type]
    losses.stable_reinforce(batch, logprobs, policy="ppo")  # type: ignore[arg-type]
    losses.stable_reinforce(batch, logprobs, kl_coef=0.01)  # type: ignore[call-arg]
    losses.stable_reinforce(batch, logprobs, 0.01)  # type: ignore[call-arg]
    losses.stable_reinforce(batch, np.zeros(3))  # type: ignore[arg-type]
    losses.token_logprobs_from_logits(logprobs, [1, 2])  # type: ignore[arg-type]
