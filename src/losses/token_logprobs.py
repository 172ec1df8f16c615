"""Logprobs of target tokens: from logits, or from hidden states without ever holding all logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from losses._checks import is_count, require_floats
from losses.errors import LossError
from provenance.loss_spec import is_finite

__all__ = ["token_logprobs", "token_logprobs_from_logits"]


def token_logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, temperature: float = 1.0, chunk: int = 512
) -> Tensor:
    """The log softmax(hidden @ weight.T / temperature) at the targets, by chunks of rows.

    The logits of one chunk are in memory at a time; the backward pass computes them again. Differentiable,
    once, with respect to ``hidden`` and ``weight``.

    Args:
        hidden: (..., D), the input of the output layer: float16, bfloat16, float32 or float64.
        weight: (V, D), the weight of the output layer, one of the same. Where it is no float32, each pass
            holds a float32 copy of it.
        targets: (...), int64 ids below V.
        temperature: what the logits are divided by, finite and >= 1e-6.
        chunk: rows whose logits are computed at a time, chunk * V floats.

    Returns:
        (...), float32, float64 if either input is. Everything in between has that dtype too, under
        autocast as well.

    Raises:
        LossError: shapes or dtypes do not fit, a target is out of range (not looked for while torch.compile
            traces), or an option cannot be used.
    """
    if weight.ndim != 2 or hidden.ndim < 1 or hidden.shape[-1] != weight.shape[1]:
        raise LossError(
            f"hidden has shape {tuple(hidden.shape)} and weight {tuple(weight.shape)}, "
            "expected (..., D) and (V, D)"
        )
    _check_targets(targets, tuple(hidden.shape[:-1]), weight.shape[0], "hidden")
    require_floats("hidden", hidden)
    require_floats("weight", weight)
    _check_temperature(temperature)
    if not is_count(chunk):
        raise LossError(f"chunk is {chunk!r}, expected a number of rows, 1 or more")
    rows = hidden.reshape(-1, hidden.shape[-1])
    logprobs: Tensor = _FusedHead.apply(  # type: ignore[no-untyped-call]  # torch's own
        rows, weight, targets.reshape(-1), (float(temperature), chunk)
    )
    return logprobs.reshape(targets.shape)


def token_logprobs_from_logits(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """The log softmax(logits / temperature) at the targets.

    Args:
        logits: (..., V): float16, bfloat16, float32 or float64.
        targets: (...), int64 ids below V.
        temperature: what the logits are divided by, finite and >= 1e-6.

    Returns:
        (...), float32, float64 if the logits are.

    Raises:
        LossError: as for ``token_logprobs``.
    """
    if logits.ndim < 1:
        raise LossError(f"logits have shape {tuple(logits.shape)}, expected (..., V)")
    _check_targets(targets, tuple(logits.shape[:-1]), logits.shape[-1], "logits")
    require_floats("logits", logits)
    _check_temperature(temperature)
    scaled = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    return scaled.log_softmax(-1).gather(-1, targets[..., None])[..., 0]


class _FusedHead(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, options: tuple[float, int]
    ) -> Tensor:
        temperature, chunk = options
        dtype = torch.promote_types(torch.promote_types(hidden.dtype, weight.dtype), torch.float32)
        # The largest logit of each row, and the sum of exp(logit - largest): added up, they would lose the
        # digits that logits of thousands leave no room for.
        largest = torch.empty(len(hidden), 1, dtype=dtype, device=hidden.device)
        total, logprobs = torch.empty_like(largest), torch.empty_like(largest[:, 0])
        head = weight.to(dtype)
        buffer = _buffer(head, hidden, chunk)
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(hidden), chunk):
                rows = slice(start, start + chunk)
                logits = _logits(hidden[rows].to(dtype), head, temperature, buffer)
                largest[rows] = logits.amax(1, keepdim=True)
                target = logits.sub_(largest[rows]).gather(1, targets[rows, None])
                total[rows] = logits.exp_().sum(1, keepdim=True)
                logprobs[rows] = (target - total[rows].log())[:, 0]
        ctx.save_for_backward(hidden, weight, targets, largest, total)
        ctx.options = options
        return logprobs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden, weight, targets, largest, total = ctx.saved_tensors
        temperature, chunk = ctx.options
        dtype = largest.dtype
        head = weight.to(dtype)
        buffer = _buffer(head, hidden, chunk)
        of_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_weight = torch.zeros_like(head) if ctx.needs_input_grad[1] else None
        # d logprob / d logits = onehot(target) - softmax. Sign, the denominator of softmax, the temperature
        # and what comes from above are a factor for each row, which the narrow matrices take.
        factor = -above.to(dtype)[:, None] / (temperature * total)
        with torch.autocast(hidden.device.type, enabled=False):
            for start in range(0, len(hidden), chunk):
                rows, index = slice(start, start + chunk), targets[start : start + chunk, None]
                part = hidden[rows].to(dtype)
                slope = _logits(part, head, temperature, buffer).sub_(largest[rows]).exp_()
                slope.scatter_(1, index, slope.gather(1, index) - total[rows])
                if of_hidden is not None:
                    of_hidden[rows] = (slope @ head).mul_(factor[rows])
                if of_weight is not None:
                    of_weight.addmm_(slope.T, part * factor[rows])
        return of_hidden, None if of_weight is None else of_weight.to(weight.dtype), None, None


def _buffer(head: Tensor, hidden: Tensor, chunk: int) -> Tensor:
    # One for all chunks: fresh memory of this size is mapped and cleared anew each time.
    return head.new_empty(min(chunk, len(hidden)), len(head))


def _logits(hidden: Tensor, head: Tensor, temperature: float, buffer: Tensor) -> Tensor:
    logits = torch.mm(hidden, head.T, out=buffer[: len(hidden)])
    return logits if temperature == 1 else logits.div_(temperature)


def _check_targets(targets: Tensor, shape: tuple[int, ...], vocabulary: int, of: str) -> None:
    if tuple(targets.shape) != shape:
        raise LossError(
            f"targets have shape {tuple(targets.shape)}, expected {shape}, one for each row of {of}"
        )
    if targets.dtype != torch.int64:
        raise LossError(f"targets have dtype {targets.dtype}, expected torch.int64")
    if torch.compiler.is_compiling() or targets.is_meta or not targets.numel():
        return
    outside = (targets < 0) | (targets >= vocabulary)
    if outside.any():
        at = outside.nonzero()[0].tolist()
        raise LossError(
            f"targets{at}: {int(targets[tuple(at)])}, expected an id >= 0 and below {vocabulary}, "
            "the size of the vocabulary"
        )


def _check_temperature(temperature: float) -> None:
    # Below, logits overflow when they are divided by it, and nothing is sampled there but the largest.
    if not is_finite(temperature) or temperature < 1e-6:
        raise LossError(f"temperature is {temperature!r}, expected a finite number >= 1e-6")
