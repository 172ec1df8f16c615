"""The weights all runs start from: supervised until the task is solved now and then."""

from __future__ import annotations

from functools import cache
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from examples.comparison.gpt import GPT
from examples.comparison.sampling import accuracy
from examples.comparison.task import PROMPT, prompts, solutions

_SEED: Final = 0
_BATCH: Final = 128
_LEARNING_RATE: Final = 1e-3
#: Training stops at the first evaluation, one every five steps, that reaches this accuracy.
_ENOUGH: Final = 0.15
_MOST_STEPS: Final = 1000


@cache
def warm_start() -> tuple[GPT, float, int]:
    """The model, its accuracy, and the number of supervised steps; the same ones at each call."""
    torch.manual_seed(_SEED)
    generator = torch.Generator().manual_seed(_SEED)
    model = GPT()
    optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    for step in range(1, _MOST_STEPS + 1):
        asked = prompts(_BATCH, generator)
        answers = solutions(asked)
        hidden, _ = model(torch.cat([asked, answers[:, :-1]], dim=1))
        logits = model.head(hidden[:, PROMPT - 1 :])
        loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 5 == 0 and (reached := accuracy(model)) >= _ENOUGH:
            return model, reached, step
    raise RuntimeError(f"no warm start after {_MOST_STEPS} steps")
