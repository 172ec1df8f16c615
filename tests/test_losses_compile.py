"""Losses inside torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from _losses import several, validated

from losses import stable_reinforce, token_logprobs

torch.set_num_threads(1)
pytestmark = [
    pytest.mark.slow,
    # The compiler uses what torch deprecates, and asks tensors for a gradient where a graph breaks.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:The \.grad attribute of a Tensor:UserWarning"),
    pytest.mark.parametrize("backend", ["aot_eager", "inductor"]),
]


def test_a_step_with_a_compiled_loss_has_the_same_gradient(backend: str) -> None:
    batch = validated(several(11)).to("cpu")
    targets = torch.tensor(batch.inputs["target_tokens"])
    hidden = torch.randn(len(targets), 8, generator=torch.manual_seed(0)).requires_grad_()
    weight = torch.randn(100, 8, generator=torch.manual_seed(1)).requires_grad_()

    def step(hidden: Any, weight: Any) -> Any:
        logprobs = token_logprobs(hidden.tanh(), weight, targets)
        return 2 * stable_reinforce(batch, logprobs).loss

    expected = torch.autograd.grad(step(hidden, weight), (hidden, weight))
    found = torch.autograd.grad(torch.compile(step, backend=backend)(hidden, weight), (hidden, weight))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_fused_head_compiles_without_a_break(backend: str) -> None:
    generator = torch.manual_seed(0)
    hidden = torch.randn(70, 8, generator=generator).requires_grad_()
    weight = torch.randn(50, 8, generator=generator).requires_grad_()
    targets = torch.randint(0, 50, (70,), generator=generator)
    above = torch.randn(70, generator=generator)

    def loss(hidden: Any, weight: Any) -> Any:
        return token_logprobs(hidden, weight, targets, temperature=0.7, chunk=40) @ above

    expected = torch.autograd.grad(loss(hidden, weight), (hidden, weight))
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    found = torch.autograd.grad(compiled(hidden, weight), (hidden, weight))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)
