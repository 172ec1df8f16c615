"""stable_reinforce: by hand first, then against float64, then what other implementations got wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from _losses import Made, make, several, validated

from losses import LossError, LossOutput, diagnostics, stable_reinforce
from losses.stable_reinforce import Policy

torch.set_num_threads(1)


def flat(values: Sequence[Any], dtype: Any = torch.float32) -> Any:
    """The values of all datums as one leaf tensor."""
    return torch.tensor(np.concatenate(values), dtype=dtype).requires_grad_()


def noisy(made: Sequence[Made], scale: float, seed: int = 7) -> list[Any]:
    """Learner logprobs near the sampler's, float32 numbers."""
    rng = np.random.default_rng(seed)
    return [(each.q + scale * rng.normal(size=len(each))).astype(np.float32) for each in made]


def gradient(output: LossOutput, leaf: Any) -> Any:
    leaf.grad = None
    output.loss.backward()
    return leaf.grad.clone()


# By hand


def by_hand(advantages: Sequence[float], q: Sequence[float]) -> Any:
    made = make(np.random.default_rng(0), "s", turns=[(2, 3)], advantages=advantages, logprobs=q)
    return validated([made])


def test_a_hand_computed_loss() -> None:
    batch = by_hand(advantages=[1.0, -2.0, 0.0], q=[-1.0, -2.0, -3.0])
    # r = 2, 1/2, e on the sampled tokens; the first position is the prompt's.
    p = torch.tensor([-9.0, -1 + math.log(2), -2 - math.log(2), -2.0], requires_grad=True)
    output = stable_reinforce(batch, p, kl_coeff=0.1)
    kl = 0.1 * (-math.log(2) + math.log(2) - 1)
    assert output.metrics["loss_policy:sum"] == pytest.approx(-(2 * 1 + 0.5 * -2), rel=1e-6)
    assert output.metrics["loss_kl:sum"] == pytest.approx(kl, rel=1e-6)
    assert output.loss.item() == pytest.approx(-1 + kl, rel=1e-6)
    assert gradient(output, p).tolist() == pytest.approx([0, -2.1, 0.9, -0.1], rel=1e-6)


def test_the_cap_is_one_sided() -> None:
    batch = by_hand(advantages=[1.0, 1.0, -1.0], q=[-3.0, -3.0, -3.0])
    p = torch.tensor([0.0, -3 + math.log(10), -3 - math.log(10), -3 + math.log(10)], requires_grad=True)
    of = {
        cap: gradient(stable_reinforce(batch, p, kl_coeff=0, ratio_cap=cap), p).tolist()
        for cap in (4.0, 2, None)
    }
    assert of[4.0] == pytest.approx([0, -4, -0.1, 4], rel=1e-6)
    assert of[2] == pytest.approx([0, -2, -0.1, 2], rel=1e-6)
    assert of[None] == pytest.approx([0, -10, -0.1, 10], rel=1e-6)


def test_reinforce_raises_every_advantage_by_b() -> None:
    batch = by_hand(advantages=[1.0, -2.0, 0.0], q=[-1.0, -2.0, -3.0])
    p = torch.tensor([0.0, -0.1, -5.0, -0.5], requires_grad=True)
    output = stable_reinforce(batch, p, kl_coeff=0.25, policy="reinforce")
    assert output.metrics["truncated:sum"] == 0
    assert output.metrics["loss_policy:sum"] == 1.0
    assert gradient(output, p).tolist() == [0, -1.25, 1.75, -0.25]


def test_on_policy_the_value_is_minus_the_advantages() -> None:
    made = several(1)
    p = flat([each.q for each in made])
    expected = -sum(each.advantages.sum() for each in made)
    for policy in ("token_is", "reinforce"):
        output = stable_reinforce(validated(made), p, policy=policy)
        assert output.loss.item() == pytest.approx(expected, rel=1e-6)
        assert output.metrics["k3:sum"] == output.metrics["loss_kl:sum"] == 0


def test_the_kl_term_alone_raises_every_sampled_logprob() -> None:
    made = several(2, advantages=None)
    silent = [Made(_silenced(m.datum), m.sequences, m.sampled, m.q, m.advantages * 0) for m in made]
    batch = validated(silent)
    logits = torch.randn(len(batch.tokens), 100, generator=torch.manual_seed(0)).requires_grad_()
    targets = torch.tensor(batch.inputs["target_tokens"])[:, None]
    p = logits.log_softmax(1).gather(1, targets)[:, 0]
    stable_reinforce(batch, p, kl_coeff=0.5).loss.backward()
    stepped = (logits - 0.1 * logits.grad).log_softmax(1).gather(1, targets)[:, 0]
    sampled = torch.tensor(batch.sampled)
    assert (stepped > p)[sampled].all()
    assert (stepped == p)[~sampled].all()


def _silenced(datum: Any) -> Any:
    inputs = datum["loss_fn_inputs"]
    zeros = {"data": [0.0] * len(inputs["advantages"]["data"]), "dtype": "float32"}
    return {**datum, "loss_fn_inputs": {**inputs, "advantages": zeros}}


# Against float64


def reference(
    made: Sequence[Made], learner: Sequence[Any], kl_coeff: float, policy: str, cap: float | None
) -> tuple[float, float, list[float], list[float]]:
    """Value, its sum of absolute terms, gradient, and those of the gradient, token by token."""
    value, size, slopes, sizes = 0.0, 0.0, [], []
    for each, row in zip(made, learner, strict=True):
        for p, q, advantage, sampled in zip(row, each.q, each.advantages, each.sampled, strict=True):
            if not sampled:
                slopes.append(0.0)
                sizes.append(0.0)
                continue
            ratio = math.exp(float(p) - float(q))
            weight = 1.0 if policy == "reinforce" else min(ratio, math.inf if cap is None else cap)
            value += -weight * advantage + kl_coeff * (float(q) - float(p))
            size += abs(weight * advantage) + abs(kl_coeff * (float(q) - float(p)))
            slopes.append(-(weight * advantage + kl_coeff))
            sizes.append(abs(weight * advantage) + kl_coeff)
    return value, size, slopes, sizes


OPTIONS: list[tuple[float, Policy, float | None]] = [
    (0.01, "token_is", 4.0),
    (0.0, "token_is", 4.0),
    (0.05, "token_is", 1.25),
    (0.01, "token_is", None),
    (0.3, "reinforce", 4.0),
]


@pytest.mark.parametrize(("kl_coeff", "policy", "cap"), OPTIONS)
@pytest.mark.parametrize("scale", [1e-4, 0.1, 2.0])
def test_value_and_gradient_against_float64(
    kl_coeff: float, policy: Policy, cap: float | None, scale: float
) -> None:
    made = several(3, 40)
    learner = noisy(made, scale)
    p = flat(learner)
    output = stable_reinforce(validated(made), p, kl_coeff=kl_coeff, policy=policy, ratio_cap=cap)
    value, size, slopes, sizes = reference(made, learner, kl_coeff, policy, cap)
    assert abs(output.loss.item() - value) <= 1e-6 * size
    assert (np.abs(gradient(output, p).double().numpy() - slopes) <= 1e-6 * np.array(sizes)).all()


@pytest.mark.parametrize(("kl_coeff", "policy", "cap"), OPTIONS)
def test_autograd_of_the_formula_gives_the_same_gradient(
    kl_coeff: float, policy: Policy, cap: float | None
) -> None:
    made = several(4)
    p = flat(noisy(made, 0.8), torch.float64)
    q, advantages, sampled = (
        torch.tensor(np.concatenate([getattr(each, name) for each in made]))
        for name in ("q", "advantages", "sampled")
    )
    ratio = (p - q).exp()[sampled]
    weight = torch.ones_like(ratio) if policy == "reinforce" else ratio.clamp(max=cap or math.inf)
    written = -(weight.detach() * advantages[sampled] * p[sampled]).sum()
    written = written + kl_coeff * (q - p)[sampled].sum()
    (expected,) = torch.autograd.grad(3 * written, p)
    output = stable_reinforce(validated(made), p, kl_coeff=kl_coeff, policy=policy, ratio_cap=cap)
    (found,) = torch.autograd.grad(3 * output.loss, p)
    assert torch.allclose(found, expected, rtol=1e-12, atol=0)


def enumerated(theta: Any, q: Any, advantages: Any, **options: Any) -> Any:
    """The loss's expectation under q, over every token of a vocabulary, each sampled once."""
    rng = np.random.default_rng(0)
    total = 0.0
    logprobs = theta.log_softmax(0)
    for token, (log_q, advantage) in enumerate(zip(q.tolist(), advantages, strict=True)):
        batch = validated([make(rng, "s", turns=[(1, 1)], logprobs=[log_q], advantages=[advantage])])
        total = total + math.exp(log_q) * stable_reinforce(batch, logprobs[token : token + 1], **options).loss
    return total


def test_the_gradient_is_that_of_the_exact_kl_and_of_the_exact_return() -> None:
    generator = torch.manual_seed(3)
    theta = torch.randn(7, generator=generator, dtype=torch.float64).requires_grad_()
    # What a batch holds is float32, so q is normalised only as well as that.
    q = torch.randn(7, generator=generator, dtype=torch.float64).log_softmax(0).float().double()
    advantages = torch.tensor([0.5, -1.0, 2.0, 0.0, -0.25, 1.0, 0.75], dtype=torch.float64)
    exact_kl = 0.3 * (q.exp() * (q - theta.log_softmax(0))).sum()
    sampled_kl = enumerated(theta, q, [0.0] * 7, kl_coeff=0.3)
    assert sampled_kl.item() == pytest.approx(exact_kl.item(), rel=1e-12)
    exact = exact_kl - (theta.softmax(0) * advantages).sum()
    sampled = enumerated(theta, q, advantages.tolist(), kl_coeff=0.3, ratio_cap=None)
    assert sampled.item() == pytest.approx(exact.item(), rel=1e-12)
    for one, other in ((sampled_kl, exact_kl), (sampled, exact)):
        ours, theirs = (torch.autograd.grad(loss, theta, retain_graph=True)[0] for loss in (one, other))
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)


# Shapes, splits and what lies outside S


def test_padding_lists_splits_and_order_change_nothing() -> None:
    made = several(5, 7)
    learner = noisy(made, 0.4)
    whole = flat(learner)
    output = stable_reinforce(validated(made), whole)
    expected = gradient(output, whole)
    rows = [torch.tensor(row, requires_grad=True) for row in learner]
    listed = stable_reinforce(validated(made), rows)
    listed.loss.backward()
    assert torch.equal(torch.cat([row.grad for row in rows]), expected)
    assert listed.loss.item() == output.loss.item()

    longest = max(map(len, made))
    padded = torch.full((len(made), longest), math.nan)
    for row, values in zip(padded, learner, strict=True):
        row[: len(values)] = torch.tensor(values)
    padded.requires_grad_()
    stable_reinforce(validated(made), padded).loss.backward()
    inside = torch.arange(longest) < torch.tensor([len(each) for each in made])[:, None]
    assert torch.equal(padded.grad[inside], expected)
    assert not padded.grad[~inside].any()

    order = [3, 0, 6, 2, 5, 1, 4]
    for part in ([order[:2], order[2:3], order[3:]], [order], [[i] for i in order]):
        found: dict[int, Any] = {}
        metrics = []
        for chosen in part:
            leaves = [torch.tensor(learner[i], requires_grad=True) for i in chosen]
            result = stable_reinforce(validated([made[i] for i in chosen]), leaves)
            result.loss.backward()
            found |= {i: leaf.grad for i, leaf in zip(chosen, leaves, strict=True)}
            metrics.append(result.metrics)
        assert torch.equal(torch.cat([found[i] for i in range(len(made))]), expected)
        merged = diagnostics.merge(metrics)
        assert merged.keys() == output.metrics.keys()
        assert merged == pytest.approx(output.metrics, rel=1e-5, abs=1e-6)


def test_a_rectangular_batch_needs_no_padding() -> None:
    rng = np.random.default_rng(0)
    made = [make(rng, name, turns=[(3, 2)]) for name in "ab"]
    learner = noisy(made, 0.1)
    square = torch.tensor(np.stack(learner), requires_grad=True)
    stable_reinforce(validated(made), square).loss.backward()
    p = flat(learner)
    assert torch.equal(square.grad.reshape(-1), gradient(stable_reinforce(validated(made), p), p))


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e30])
def test_what_lies_outside_s_changes_nothing(junk: float) -> None:
    made = several(6)
    clean = flat(noisy(made, 0.3))
    sampled = torch.tensor(np.concatenate([each.sampled for each in made]))
    dirty = torch.where(sampled, clean.detach(), junk).requires_grad_()
    batch = validated(made)
    a = stable_reinforce(batch, clean, lag_logprobs=clean.detach() + 0.01)
    b = stable_reinforce(batch, dirty, lag_logprobs=torch.where(sampled, clean.detach() + 0.01, junk))
    assert a.metrics == b.metrics
    assert torch.equal(gradient(a, clean), gradient(b, dirty))
    assert not dirty.grad[~sampled].any()


def test_the_learners_logprobs_come_back_for_each_datum() -> None:
    made = several(7)
    learner = noisy(made, 0.3)
    output = stable_reinforce(validated(made), flat(learner))
    assert [row.tolist() for row in output.logprobs] == [row.tolist() for row in learner]
    assert not any(row.requires_grad for row in output.logprobs)


# Numbers


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype: Any) -> None:
    made = several(8)
    p = flat(noisy(made, 0.3), dtype)
    narrow = p.detach().double().numpy()
    rows = np.split(narrow, np.cumsum([len(each) for each in made])[:-1])
    value, size, slopes, _ = reference(made, rows, 0.01, "token_is", 4.0)
    output = stable_reinforce(validated(made), p)
    assert output.loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert abs(output.loss.item() - value) <= (1e-12 if dtype == torch.float64 else 1e-6) * size
    found = gradient(output, p)
    assert found.dtype == dtype
    assert np.allclose(found.double(), slopes, rtol=2 * torch.finfo(dtype).eps, atol=1e-12)


@pytest.mark.parametrize("distance", [1e3, -1e3, 88.0, -104.0])
def test_huge_ratios_under_a_cap(distance: float) -> None:
    q = [-1000.0, -1.0, -1.0] if distance > 0 else [-1.0, -1.0, -1.0]
    batch = by_hand(advantages=[1.0, -1.0, 0.0], q=q)
    p = torch.tensor([0.0, q[0] + distance, -1.0, -1.0], requires_grad=True)
    output = stable_reinforce(batch, p)
    weight = 4.0 if distance > 0 else 0.0
    assert gradient(output, p).tolist() == pytest.approx([0, -weight - 0.01, 0.99, -0.01], abs=1e-6)
    assert all(math.isfinite(value) for value in output.metrics.values())
    assert output.metrics["logprob_abs_diff:max"] == abs(distance)
    assert output.metrics["truncated:sum"] == (distance > 0)


@pytest.mark.parametrize("advantage", [1.0, 0.0])
def test_an_uncapped_overflow_is_an_error_that_names_the_token(advantage: float) -> None:
    batch = by_hand(advantages=[1.0, advantage, 1.0], q=[-1.0, -1000.0, -1.0])
    p = torch.tensor([0.0, -1.0, -1.0, -1.0])
    with pytest.raises(
        LossError, match=r"datum 0: position 2 \(token 1 of sequence 's/0'\): ratio exp\(999\)"
    ):
        stable_reinforce(batch, p, ratio_cap=None)
    assert math.isfinite(stable_reinforce(batch, p, ratio_cap=None, policy="reinforce").loss)


def test_uncapped_weights_whose_sum_overflows_are_an_error_that_names_the_largest() -> None:
    batch = by_hand(advantages=[1.0, 1.0, 1.0], q=[-88.0, -88.5, -88.0])
    with pytest.raises(
        LossError, match=r"sum of the weighted.*2\.72\d*e\+38, is that of datum 0: position 2"
    ):
        stable_reinforce(batch, torch.zeros(4), ratio_cap=None)


def test_negative_zero_advantages_are_zero() -> None:
    batch = by_hand(advantages=[-0.0, 0.0, 1.0], q=[-1.0, -1.0, -1.0])
    p = torch.tensor([0.0, -1.5, -1.0, -1.0], requires_grad=True)
    output = stable_reinforce(batch, p, kl_coeff=0)
    assert gradient(output, p).tolist() == [0, 0, 0, -1]
    assert output.metrics["zero_advantage:sum"] == 2


def test_without_a_coefficient_the_kl_term_is_not_computed() -> None:
    # The sum of these logprobs overflows, and 0 * inf would be NaN.
    batch = by_hand(advantages=[1.0, 1.0, 1.0], q=[-1.0, -1.0, -1.0])
    p = torch.tensor([0.0, -3e38, -3e38, -1.0], requires_grad=True)
    output = stable_reinforce(batch, p, kl_coeff=0)
    assert output.loss.item() == -1.0
    assert output.metrics["loss_kl:sum"] == 0
    assert gradient(output, p).tolist() == [0, 0, 0, -1]


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("name", ["learner_logprobs", "lag_logprobs"])
def test_a_logprob_in_s_that_is_not_finite_is_named(name: str, value: float) -> None:
    made = several(9)
    good, bad = flat(noisy(made, 0.1)).detach(), flat(noisy(made, 0.1)).detach()
    position = int(np.flatnonzero(made[2].sampled)[-1])
    bad[sum(map(len, made[:2])) + position] = value
    given = {"learner_logprobs": good, "lag_logprobs": good, name: bad}
    with pytest.raises(
        LossError, match=rf"^datum 2: position {position} \(token .*: {name} holds {value!r}, exp"
    ):
        stable_reinforce(validated(made), **given)


def test_autocast_changes_nothing() -> None:
    made = several(10)
    p = flat(noisy(made, 0.3))
    batch = validated(made)
    plain = stable_reinforce(batch, p)
    expected = gradient(plain, p)
    with torch.autocast("cpu", torch.bfloat16):
        output = stable_reinforce(batch, p)
        found = gradient(output, p)
    assert output.loss.dtype == torch.float32
    assert output.metrics == plain.metrics
    assert torch.equal(found, expected)


def test_the_batch_on_its_device_gives_the_same_and_stays_as_it_is() -> None:
    made = several(12)
    p = flat(noisy(made, 0.3))
    here, moved = validated(made), validated(made).to("cpu")
    expected = stable_reinforce(here, p, lag_logprobs=p.detach())
    for _ in range(2):
        output = stable_reinforce(moved, p, lag_logprobs=p.detach())
        assert output.metrics == expected.metrics
        assert torch.equal(gradient(output, p), gradient(expected, p).clone())
        expected = stable_reinforce(here, p, lag_logprobs=p.detach())


# Options and shapes that are refused


def refusals() -> list[tuple[dict[str, Any], str]]:
    return [
        *(
            ({"kl_coeff": value}, r"kl_coeff is .*, expected a finite float >= 0")
            for value in (True, "0.01", -0.01, math.nan, math.inf, None, 10**400)
        ),
        *(
            ({"ratio_cap": value}, r"ratio_cap is .*, expected a finite ratio >= 1")
            for value in (True, "4", 0.28, 0, -1.0, math.nan, math.inf)
        ),
        ({"policy": "ppo"}, "policy is 'ppo', expected 'token_is' or 'reinforce'"),
    ]


@pytest.mark.parametrize(("options", "problem"), refusals(), ids=str)
def test_options_that_are_refused(options: dict[str, Any], problem: str) -> None:
    made = several(13, 2)
    with pytest.raises(LossError, match=problem):
        stable_reinforce(validated(made), flat([each.q for each in made]), **options)


def test_unknown_options_are_refused() -> None:
    made = several(13, 2)
    with pytest.raises(TypeError, match="'kl_coef'"):
        stable_reinforce(validated(made), flat([each.q for each in made]), kl_coef=0.1)  # type: ignore[call-arg]


SHAPES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda rows: torch.cat(rows)[:-1], r"has shape \(11,\), expected \(12,\)"),
    (lambda rows: torch.cat(rows)[None], r"has shape \(1, 12\).* or \(2, 7\)"),
    (lambda rows: torch.zeros(2, 8), r"has shape \(2, 8\)"),
    (lambda rows: torch.zeros(2, 7, 1), r"has shape \(2, 7, 1\)"),
    (lambda rows: rows[:1], r"has 1 tensors, expected 2"),
    (lambda rows: [rows[0], rows[1][1:]], r"\[1\] has shape \(6,\), expected \(7,\)"),
    (lambda rows: [rows[0], rows[1][None]], r"\[1\] has shape \(1, 7\)"),
    (
        lambda rows: torch.zeros(12, dtype=torch.int64),
        r"has dtype torch\.int64, expected float16, ",
    ),
    (lambda rows: torch.zeros(12).to(torch.float8_e5m2), r"has dtype torch\.float8_e5m2, expected float16"),
    (lambda rows: np.zeros(12, np.float32), r"is a ndarray, expected a tensor"),
    (lambda rows: [0.0] * 12, r"is a list, expected a tensor"),
]


@pytest.mark.parametrize(("form", "problem"), SHAPES)
def test_shapes_that_are_refused(form: Callable[[Any], Any], problem: str) -> None:
    rng = np.random.default_rng(0)
    made = [make(rng, "a", turns=[(2, 4)]), make(rng, "b", turns=[(5, 3)])]
    rows = [torch.tensor(row) for row in noisy(made, 0.1)]
    stable_reinforce(validated(made), rows)
    with pytest.raises(LossError, match=rf"^learner_logprobs.*{problem}"):
        stable_reinforce(validated(made), form(rows))
    with pytest.raises(LossError, match=rf"^lag_logprobs.*{problem}"):
        stable_reinforce(validated(made), rows, lag_logprobs=form(rows))
