"""The fused head and its plain sibling against float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from losses import LossError, token_logprobs, token_logprobs_from_logits

torch.set_num_threads(1)


def example(
    rows: int = 37, width: int = 8, vocabulary: int = 61, dtypes: Any = (torch.float32, torch.float32)
) -> tuple[Any, Any, Any, Any]:
    """Hidden states, head, targets and what the gradient comes down with."""
    generator = torch.manual_seed(rows)
    hidden = (2 * torch.randn(rows, width, generator=generator)).to(dtypes[0]).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator).to(dtypes[1]).requires_grad_()
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    return hidden, weight, targets, torch.randn(rows, generator=generator)


def in_float64(hidden: Any, weight: Any, targets: Any, temperature: float) -> Any:
    """The definition, logits and all."""
    logits = hidden.double() @ weight.double().T / temperature
    return (logits.exp()[torch.arange(len(targets)), targets] / logits.exp().sum(1)).log()


def gradients(logprobs: Any, above: Any, *leaves: Any) -> list[Any]:
    return list(torch.autograd.grad((logprobs * above.to(logprobs.dtype)).sum(), leaves))


def test_a_hand_computed_logprob() -> None:
    hidden = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    weight = torch.tensor([[math.log(3), 0.0], [0.0, math.log(2)], [0.0, 0.0]])
    expected = [math.log(3 / 5), math.log(1 / 6)]
    assert token_logprobs(hidden, weight, torch.tensor([0, 2])).tolist() == pytest.approx(expected, rel=1e-6)
    logits = hidden @ weight.T
    found = token_logprobs_from_logits(logits, torch.tensor([0, 2]), temperature=0.5)
    assert found.tolist() == pytest.approx([math.log(9 / 11), math.log(1 / 18)], rel=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.25, 3.0])
@pytest.mark.parametrize("chunk", [1, 10, 36, 37, 1000])
def test_the_fused_head_against_float64(chunk: int, temperature: float) -> None:
    hidden, weight, targets, above = example()
    expected = in_float64(hidden, weight, targets, temperature)
    found = token_logprobs(hidden, weight, targets, temperature=temperature, chunk=chunk)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, rtol=1e-6, atol=4e-6)
    pairs = zip(
        gradients(found, above, hidden, weight), gradients(expected, above, hidden, weight), strict=True
    )
    for ours, exact in pairs:
        assert torch.allclose(ours, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float64, torch.float64),
    ],
    ids=str,
)
def test_the_inside_is_float32_or_better(dtypes: Any) -> None:
    hidden, weight, targets, above = example(dtypes=dtypes)
    found = token_logprobs(hidden, weight, targets, chunk=16)
    exact = torch.float64 in dtypes
    assert found.dtype == (torch.float64 if exact else torch.float32)
    expected = in_float64(hidden, weight, targets, 1.0)
    assert torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-12 if exact else 4e-6)
    pairs = zip(
        gradients(found, above, hidden, weight), gradients(expected, above, hidden, weight), strict=True
    )
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        # One rounding to the dtype of the input, and nothing on the way there.
        assert torch.allclose(ours.double(), theirs.double(), rtol=2 * torch.finfo(ours.dtype).eps, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_logprobs_from_logits_against_float64(dtype: Any, temperature: float) -> None:
    generator = torch.manual_seed(0)
    logits = (5 * torch.randn(4, 9, 31, generator=generator)).to(dtype).requires_grad_()
    targets = torch.randint(0, 31, (4, 9), generator=generator)
    expected = (logits.double() / temperature).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    found = token_logprobs_from_logits(logits, targets, temperature)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.allclose(found.double(), expected, rtol=1e-6, atol=1e-5)
    (ours,), (theirs,) = (gradients(x, torch.ones(4, 9), logits) for x in (found, expected))
    assert torch.allclose(ours.double(), theirs.double(), rtol=2 * torch.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (0,), ()])
def test_leading_dimensions(shape: tuple[int, ...]) -> None:
    generator = torch.manual_seed(0)
    hidden = torch.randn(*shape, 4, generator=generator).requires_grad_()
    weight = torch.randn(5, 4, generator=generator).requires_grad_()
    targets = torch.randint(0, 5, shape, generator=generator)
    found = token_logprobs(hidden, weight, targets, chunk=4)
    assert found.shape == shape
    assert torch.allclose(found, token_logprobs_from_logits(hidden @ weight.T, targets), atol=1e-6)
    of_hidden, of_weight = gradients(found, torch.ones(shape), hidden, weight)
    assert (of_hidden.shape, of_weight.shape) == (hidden.shape, weight.shape)
    assert of_weight.any() == (found.numel() > 0)


def test_only_what_needs_a_gradient_gets_one() -> None:
    hidden, weight, targets, above = example()
    both = gradients(token_logprobs(hidden, weight, targets), above, hidden, weight)
    (alone,) = gradients(token_logprobs(hidden, weight.detach(), targets), above, hidden)
    assert torch.equal(alone, both[0])
    (alone,) = gradients(token_logprobs(hidden.detach(), weight, targets), above, weight)
    assert torch.equal(alone, both[1])
    assert not token_logprobs(hidden.detach(), weight.detach(), targets).requires_grad


def test_large_logits_neither_overflow_nor_vanish() -> None:
    hidden = torch.tensor([[1.0], [-1.0]]).requires_grad_()
    weight = torch.tensor([[3e4], [-3e4], [0.0]])
    found = token_logprobs(hidden, weight, torch.tensor([0, 0]))
    assert found.tolist() == [0.0, -6e4]
    assert gradients(found, torch.ones(2), hidden)[0].tolist() == [[0.0], [6e4]]


def test_gradients_pass_gradcheck() -> None:
    hidden, weight, targets, _ = example(5, 3, 7, (torch.float64, torch.float64))
    assert torch.autograd.gradcheck(
        lambda h, w: token_logprobs(h, w, targets, temperature=0.6, chunk=2), (hidden, weight)
    )


def test_a_second_derivative_is_refused_and_not_wrong() -> None:
    hidden, weight, targets, _ = example()
    squared = token_logprobs(hidden, weight, targets).square().sum()
    (first,) = torch.autograd.grad(squared, hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("backward_inside", [True, False])
def test_autocast_does_not_reach_the_inside(backward_inside: bool) -> None:
    hidden, weight, targets, above = example()
    expected = token_logprobs(hidden, weight, targets)
    with torch.autocast("cpu", torch.bfloat16):
        found = token_logprobs(hidden, weight, targets)
        from_logits = token_logprobs_from_logits((hidden.detach() @ weight.detach().T), targets)
        if backward_inside:
            ours = gradients(found, above, hidden, weight)
    if not backward_inside:
        ours = gradients(found, above, hidden, weight)
    assert torch.equal(found, expected)
    assert from_logits.dtype == torch.float32
    for one, other in zip(ours, gradients(expected, above, hidden, weight), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_the_logits_are_never_whole_in_memory() -> None:
    rows, vocabulary = 512, 3000
    hidden, weight, targets, above = example(rows, 4, vocabulary)
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else (out,):
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.numel())
            return out

    with Watch():
        gradients(token_logprobs(hidden, weight, targets, chunk=16), above, hidden, weight)
    assert 0 < largest <= 16 * vocabulary


# What is refused


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"targets": torch.tensor([0, 7, 1])}, r"^targets\[1\]: 7, expected an id >= 0 and below 7"),
    ({"targets": torch.tensor([0, 1, -1])}, r"^targets\[2\]: -1, expected an id >= 0 and below 7"),
    ({"targets": torch.tensor([0, -100, 1])}, r"^targets\[1\]: -100, "),
    ({"targets": torch.tensor([0, 1])}, r"^targets have shape \(2,\), expected \(3,\)"),
    ({"targets": torch.tensor([[0], [1], [2]])}, r"^targets have shape \(3, 1\), expected \(3,\)"),
    ({"targets": torch.tensor([0, 1, 2], dtype=torch.int32)}, r"^targets have dtype torch\.int32"),
    ({"temperature": 0.0}, r"^temperature is 0\.0, expected a finite number >= 1e-6"),
    ({"temperature": 1e-40}, r"^temperature is 1e-40"),
    ({"temperature": -1.0}, r"^temperature is -1\.0"),
    ({"temperature": math.nan}, r"^temperature is nan"),
    ({"temperature": math.inf}, r"^temperature is inf"),
    ({"temperature": True}, r"^temperature is True"),
]
OF_THE_HEAD: list[tuple[dict[str, Any], str]] = [
    ({"weight": torch.zeros(7, 3)}, r"hidden has shape \(3, 4\) and weight \(7, 3\), expected"),
    ({"weight": torch.zeros(4)}, r"and weight \(4,\), expected \(\.\.\., D\) and \(V, D\)"),
    ({"hidden": torch.tensor(1.0)}, r"hidden has shape \(\)"),
    (
        {"hidden": torch.zeros(3, 4, dtype=torch.int64)},
        r"hidden has dtype torch\.int64, expected float16, ",
    ),
    ({"weight": torch.zeros(7, 4).to(torch.float8_e4m3fn)}, r"weight has dtype torch\.float8_e4m3fn"),
    ({"weight": torch.zeros(7, 4, dtype=torch.int8)}, r"weight has dtype torch\.int8"),
    ({"chunk": 0}, r"chunk is 0, expected a number of rows"),
    ({"chunk": True}, r"chunk is True"),
    ({"chunk": 2.0}, r"chunk is 2\.0"),
]


@pytest.mark.parametrize(("changes", "problem"), [*REFUSALS, *OF_THE_HEAD])
def test_what_the_fused_head_refuses(changes: dict[str, Any], problem: str) -> None:
    arguments = {"hidden": torch.zeros(3, 4), "weight": torch.zeros(7, 4), "targets": torch.tensor([0, 6, 1])}
    token_logprobs(**arguments)
    with pytest.raises(LossError, match=problem):
        token_logprobs(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        *REFUSALS,
        ({"logits": torch.tensor(1.0)}, r"logits have shape \(\)"),
        ({"logits": torch.zeros(3, 7, dtype=torch.int64)}, r"logits has dtype torch\.int64"),
    ],
)
def test_what_logprobs_from_logits_refuses(changes: dict[str, Any], problem: str) -> None:
    arguments: dict[str, Any] = {"logits": torch.zeros(3, 7), "targets": torch.tensor([0, 6, 1])}
    token_logprobs_from_logits(**arguments)
    with pytest.raises(LossError, match=problem):
        token_logprobs_from_logits(**(arguments | changes))


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4])
def test_large_logits_cost_no_digits(offset: float) -> None:
    # A column of ones and a weight of the offset add the same to every logit, which softmax does not see.
    hidden, weight, targets, _ = example()
    ones, offsets = torch.ones(len(hidden), 1), torch.full((len(weight), 1), offset)
    wide, head = torch.cat([hidden, ones], 1).detach(), torch.cat([weight, offsets], 1).detach()
    logits = wide @ head.T
    exact = (logits.double() - logits.double().logsumexp(1, keepdim=True)).gather(1, targets[:, None])[:, 0]
    for found in (token_logprobs(wide, head, targets), token_logprobs_from_logits(logits, targets)):
        torch.testing.assert_close(found.double(), exact, atol=4e-6, rtol=0)
