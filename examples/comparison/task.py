"""The task: write eight digits in reverse."""

from __future__ import annotations

from typing import Final

import torch

DIGITS: Final = 8
SEPARATOR: Final = 10
START: Final = 11
VOCABULARY: Final = 12
PROMPT: Final = DIGITS + 2
"""Tokens of a prompt: the start, the digits, the separator. A completion has DIGITS tokens and no end."""


def prompts(count: int, generator: torch.Generator) -> torch.Tensor:
    """(count, PROMPT) int64."""
    digits = torch.randint(0, 10, (count, DIGITS), generator=generator)
    start, end = torch.full((count, 1), START), torch.full((count, 1), SEPARATOR)
    return torch.cat([start, digits, end], dim=1)


def solutions(asked: torch.Tensor) -> torch.Tensor:
    """(count, DIGITS) int64: the completions of prompts that earn a reward."""
    return asked[:, 1:-1].flip(1)


def rewards(asked: torch.Tensor, completions: torch.Tensor) -> torch.Tensor:
    """(count,) float32: 1 where every digit is right, else 0."""
    return (completions == solutions(asked)).all(dim=1).float()
