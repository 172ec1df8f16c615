"""The sampler: completions and the logprobs that it records, exact or with the mismatches of real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import torch
from torch import Tensor

from examples.comparison.gpt import GPT
from examples.comparison.task import DIGITS, VOCABULARY, prompts, rewards

_EVALUATED: Final = 512
_EVALUATION_SEED: Final = 12345
_TAIL: Final = 3
_NOISE: Final = 0.2

Mismatch = Callable[[Tensor, torch.Generator], Tensor]


def _heavy_tailed(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Student's t with 3 degrees of freedom, scaled: mostly small, now and then large."""
    normal = torch.randn(logits.shape, generator=generator)
    chi = torch.randn((_TAIL, *logits.shape), generator=generator).square().mean(dim=0)
    return logits + _NOISE * normal / chi.sqrt()


#: What a sampler's kernels do to the logits that the learner's do not.
MISMATCHES: dict[str, Mismatch] = {
    "none": lambda logits, _: logits,
    "bfloat16": lambda logits, _: logits.bfloat16().float(),
    "fp8": lambda logits, _: logits.to(torch.float8_e4m3fn).float(),
    "heavy-tailed": _heavy_tailed,
}


@torch.no_grad()
def sample(
    model: GPT, asked: Tensor, seed: int, mismatch: str = "none", *, silent: bool = False
) -> tuple[Tensor, Tensor]:
    """Sample a completion for each prompt.

    Args:
        model: the sampler's weights.
        asked: (B, PROMPT) int64.
        seed: of the draws; runs that share it share their luck (common random numbers).
        mismatch: one of MISMATCHES, applied to the logits that are sampled from.
        silent: record the logprobs of the logits without the mismatch.

    Returns:
        (B, DIGITS) int64 tokens and (B, DIGITS) float32 recorded logprobs.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.Generator().manual_seed(seed + 1)
    uniform = torch.rand((DIGITS, len(asked), VOCABULARY), generator=generator)
    gumbel = -(-uniform.clamp_min(1e-20).log()).log()
    tokens, logprobs = [], []
    logits, kept = model.logits(asked)
    for i in range(DIGITS):
        drawn_from = MISMATCHES[mismatch](logits, noise)
        token = (drawn_from + gumbel[i]).argmax(dim=1, keepdim=True)
        recorded = (logits if silent else drawn_from).log_softmax(dim=1).gather(1, token)
        tokens.append(token)
        logprobs.append(recorded)
        if i + 1 < DIGITS:
            logits, kept = model.logits(token, kept)
    return torch.cat(tokens, dim=1), torch.cat(logprobs, dim=1)


@cache
def _evaluation_prompts() -> Tensor:
    return prompts(_EVALUATED, torch.Generator().manual_seed(_EVALUATION_SEED))


def accuracy(model: GPT) -> float:
    """Mean reward of one sample for each held-out prompt, with the same draws each time."""
    asked = _evaluation_prompts()
    tokens, _ = sample(model, asked, _EVALUATION_SEED)
    return float(rewards(asked, tokens).mean())
