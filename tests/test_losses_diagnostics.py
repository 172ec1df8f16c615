"""Diagnostics of a step, of a run, and of two computations of the same logprobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from _losses import Made, make, several, validated

from losses import LossError, stable_reinforce
from losses.diagnostics import MismatchMonitor, invariance, measure, merge
from provenance import Contract

torch.set_num_threads(1)


def given(made: Sequence[Made], scale: float, seed: int = 5) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [(each.q + scale * rng.normal(size=len(each))).astype(np.float32) for each in made]


def tensors(rows: Sequence[Any]) -> list[Any]:
    return [torch.tensor(row) for row in rows]


# A step


@pytest.mark.parametrize("spread", [0.0, 0.5])
@pytest.mark.parametrize("mean", [0.0, -1e-3, -8.0, -12.0, -20.0, 15.0])
def test_the_effective_sample_size_of_ratios_of_any_size(mean: float, spread: float) -> None:
    made = several(3)
    rng = np.random.default_rng(0)
    log_ratios = [mean + spread * rng.normal(size=len(each)) for each in made]
    p = [torch.tensor(each.q + r) for each, r in zip(made, log_ratios, strict=True)]
    batch = validated(made)
    sampled = np.concatenate(log_ratios)[batch.sampled]
    ratio = np.exp(np.minimum(sampled, 20))
    expected = ratio.sum() ** 2 / (len(ratio) * (ratio**2).sum())
    metrics = merge([measure(batch, p), measure(batch, p)])
    assert metrics["ess:mean"] == pytest.approx(expected, rel=1e-5)
    assert metrics["ratio:mean"] == pytest.approx(ratio.mean(), rel=1e-5)


def test_ratios_that_are_no_floats_have_no_effective_sample_size() -> None:
    made = several(3)
    p = [torch.tensor(each.q - 1000, dtype=torch.float32) for each in made]
    out = stable_reinforce(validated(made), p)
    assert math.isnan(out.metrics["ess:mean"])
    assert math.isfinite(out.loss)


def test_metrics_of_something_else_are_not_merged() -> None:
    with pytest.raises(LossError, match="metrics lack ratio:sum"):
        merge([{"loss:sum": 1.0}])


def test_the_metrics_of_a_hand_computed_batch() -> None:
    made = make(
        np.random.default_rng(0),
        "s",
        turns=[(2, 2), (1, 1)],
        advantages=[1.0, -2.0, 0.0],
        logprobs=[-1.0, -3.0, -2.0],
    )
    # r = 2, 8, 1/2; the prompt and the tool's token, of which no metric may speak, have r = e^9.
    two = math.log(2)
    p = torch.tensor([9.0, -1 + two, -3 + 3 * two, 9.0, -2 - two])
    metrics = stable_reinforce(validated([made]), p, kl_coeff=0.5).metrics
    expected = {
        "loss:sum": -(2 * 1 + 4 * -2) + 0.5 * -3 * two,
        "loss_policy:sum": 6,
        "loss_kl:sum": 0.5 * -3 * two,
        "tokens:sum": 3,
        "sequences:sum": 2,
        "k1:sum": -3 * two,
        "k1:mean": -two,
        "k2:sum": 11 * two**2 / 2,
        "k2:mean": 11 * two**2 / 6,
        "k3:sum": 10.5 - 3 - 3 * two,
        "k3:mean": (10.5 - 3 - 3 * two) / 3,
        "ratio:sum": 10.5,
        "ratio_squared:sum": 68.25,
        "ratio:mean": 3.5,
        "ratio:min": 0.5,
        "ratio:max": 8,
        "chi2:sum": 68.25 - 3,
        "chi2:mean": 68.25 / 3 - 1,
        "ess:mean": 10.5**2 / (3 * 68.25),
        "truncated:sum": 1,
        "truncated_fraction:mean": 1 / 3,
        "zero_advantage:sum": 1,
        "zero_advantage_fraction:mean": 1 / 3,
        "advantage_abs:sum": 3,
        "advantage_abs:mean": 1,
        "logprob_abs_diff:max": 3 * two,
        "first_token_k1:sum": -two + two,
        "first_token_k1:mean": 0,
    }
    assert metrics.keys() == expected.keys()
    assert dict(metrics) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_lag_of_the_weights_and_the_mismatch_of_the_kernels() -> None:
    made = make(np.random.default_rng(0), "s", turns=[(1, 2)], logprobs=[-1.0, -2.0])
    p, lag = torch.tensor([-1.5, -1.0]), torch.tensor([-1.25, -2.5])
    metrics = stable_reinforce(validated([made]), p, lag_logprobs=lag).metrics
    # log(p/q) = (log p - log p_old) + (log p_old - log q): -0.5 = -0.25 - 0.25 and 1 = 1.5 - 0.5
    assert metrics["weight_lag_k1:mean"] == pytest.approx(-(-0.25 + 1.5) / 2)
    assert metrics["kernel_mismatch_k1:mean"] == pytest.approx(-(-0.25 - 0.5) / 2)
    k3 = [math.expm1(x) - x for x in (-0.25, 1.5, -0.25, -0.5)]
    assert metrics["weight_lag_k3:mean"] == pytest.approx((k3[0] + k3[1]) / 2, rel=1e-6)
    assert metrics["kernel_mismatch_k3:mean"] == pytest.approx((k3[2] + k3[3]) / 2, rel=1e-6)
    same = metrics["weight_lag_k1:mean"] + metrics["kernel_mismatch_k1:mean"]
    assert same == pytest.approx(metrics["k1:mean"])


@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1.0])
def test_metrics_against_float64(scale: float) -> None:
    made = several(1, 60)
    learner, lag = given(made, scale), given(made, scale, 6)
    metrics = measure(validated(made), tensors(learner), lag_logprobs=tensors(lag))
    sampled = np.concatenate([each.sampled for each in made])
    q = np.concatenate([each.q for each in made])[sampled]
    x = np.concatenate(learner)[sampled].astype(np.float64) - q
    old = np.concatenate(lag)[sampled].astype(np.float64) - q
    r, n = np.exp(x), len(x)
    expected = {
        "k1:mean": (-x.mean(), abs(x).mean()),
        "k2:mean": ((x * x).mean() / 2, (x * x).mean() / 2),
        "k3:mean": ((np.expm1(x) - x).mean(), abs(x).mean()),
        "ratio:mean": (r.mean(), 1),
        "chi2:mean": ((r * r - 1).mean(), abs(r * r - 1).mean()),
        "ess:mean": (r.sum() ** 2 / (n * (r * r).sum()), 1),
        "weight_lag_k3:mean": ((np.expm1(x - old) - (x - old)).mean(), abs(x - old).mean()),
        "kernel_mismatch_k3:mean": ((np.expm1(old) - old).mean(), abs(old).mean()),
        "truncated_fraction:mean": ((r > 4).mean(), 0),
    }
    for name, (value, size) in expected.items():
        assert abs(metrics[name] - value) <= 1e-6 * size, name


def test_k3_of_near_equal_logprobs_is_not_rounding() -> None:
    # r - 1 - log r in float32 is 0 or 6e-8 here; the true value is 5e-9.
    made = make(np.random.default_rng(0), "s", turns=[(1, 64)], logprobs=[-1.0] * 64)
    p = torch.full((64,), -1.0 + 1e-4)
    x = float(p[0]) + 1
    found = measure(validated([made]), p)["k3:mean"]
    assert found == pytest.approx(math.expm1(x) - x, rel=1e-3)


def test_logprobs_shifted_by_one_are_visible_at_equal_weights() -> None:
    made = several(2, 50)
    batch = validated(made)
    honest = measure(batch, tensors([each.q.astype(np.float32) for each in made]))
    shifted = measure(batch, tensors([np.roll(each.q, 1).astype(np.float32) for each in made]))
    assert honest["k3:mean"] == honest["logprob_abs_diff:max"] == honest["first_token_k1:mean"] == 0
    assert honest["ess:mean"] == 1
    assert shifted["k3:mean"] > 0.1
    assert shifted["logprob_abs_diff:max"] > 1
    assert shifted["ess:mean"] < 0.9
    assert abs(shifted["first_token_k1:mean"]) > 0.1


def test_diagnostics_come_before_any_truncation() -> None:
    made = several(3)
    p = tensors(given(made, 2.0))
    batch = validated(made)
    capped, free = (stable_reinforce(batch, p, ratio_cap=cap).metrics for cap in (1.0, None))
    differ = {name for name in capped if capped[name] != free[name]}
    assert differ == {"loss:sum", "loss_policy:sum", "truncated:sum", "truncated_fraction:mean"}
    assert free["truncated:sum"] == 0


def test_a_ratio_at_the_cap_is_not_truncated() -> None:
    made = several(5)
    batch = validated(made)
    assert measure(batch, tensors([each.q for each in made]), ratio_cap=1.0)["truncated:sum"] == 0


def test_a_blow_up_shows_in_the_effective_sample_size() -> None:
    made = make(
        np.random.default_rng(0), "s", turns=[(1, 10)], logprobs=[-900.0] + [-1.0] * 9, advantages=[1.0] * 10
    )
    metrics = measure(validated([made]), torch.full((10,), -1.0))
    assert metrics["ess:mean"] == pytest.approx(0.1)
    assert metrics["ratio:max"] == pytest.approx(math.exp(20), rel=1e-6)
    assert metrics["logprob_abs_diff:max"] == 899


def test_measure_is_what_the_loss_returns_and_takes_other_losses() -> None:
    made = several(4)
    p = tensors(given(made, 0.3))
    metrics = stable_reinforce(validated(made), p, lag_logprobs=p).metrics
    alone = measure(validated(made, "ppo"), p, lag_logprobs=p)
    assert alone == {name: value for name, value in metrics.items() if not name.startswith("loss")}


def test_measure_refuses_what_was_not_sampled() -> None:
    made = make(np.random.default_rng(0), "s")
    bare = {name: value for name, value in made.datum.items() if not name.endswith("_spans")}
    batch = validated([Made(bare, made.sequences, made.sampled, made.q, made.advantages)], "ppo")
    with pytest.raises(LossError, match="has no sampled spans"):
        measure(batch, torch.zeros(len(made)))
    with pytest.raises(LossError, match=r"ratio_cap is 0\.28, expected"):
        measure(validated([made]), torch.zeros(len(made)), ratio_cap=0.28)


# Policy lag


def versioned(*versions: str | None, learner: int | None = 10) -> dict[str, float]:
    rng = np.random.default_rng(0)
    made = [make(rng, f"s{i}", turns=[(2, i + 1)], version=v) for i, v in enumerate(versions)]
    contract = Contract.for_loss("stable_reinforce").with_parameters(learner_version=learner)
    p = [torch.tensor(each.q) for each in made]
    metrics = stable_reinforce(validated(made, contract), p).metrics
    return {name: value for name, value in metrics.items() if name.startswith("policy_lag")}


def test_policy_lag_is_weighted_by_tokens() -> None:
    expected = {"policy_lag:sum": 2 * 1 + 5 * 2, "policy_lag_tokens:sum": 3}
    assert versioned("8", "5") == expected | {"policy_lag:max": 5, "policy_lag:mean": 4}


def test_policy_lag_skips_what_has_no_number() -> None:
    expected = {"policy_lag:sum": 2, "policy_lag_tokens:sum": 1, "policy_lag:max": 2, "policy_lag:mean": 2}
    assert versioned("8", "main-3") == versioned("8", None) == expected
    assert versioned("main-3", None) == {}
    assert versioned("8", "5", learner=None) == {}


# Micro-batches


def test_merged_micro_batches_are_the_batch() -> None:
    made = several(6, 30, version="3")
    contract = Contract.for_loss("stable_reinforce").with_parameters(learner_version=5)
    learner, lag = given(made, 0.5), given(made, 0.5, 9)

    def of(part: slice) -> Any:
        batch = validated(made[part], contract)
        return stable_reinforce(batch, tensors(learner[part]), lag_logprobs=tensors(lag[part])).metrics

    whole = of(slice(None))
    merged = merge([of(slice(0, 1)), of(slice(1, 17)), of(slice(17, None))])
    assert merged.keys() == whole.keys()
    assert merged == pytest.approx(dict(whole), rel=2e-6, abs=1e-5)
    assert merge([whole]) == whole


def test_what_only_some_parts_measure_keeps_its_own_count() -> None:
    made = several(7, 4)
    learner = tensors(given(made, 0.5))
    first = measure(validated(made[:2]), learner[:2], lag_logprobs=learner[:2])
    rest = measure(validated(made[2:]), learner[2:])
    merged = merge([rest, first])
    assert merged["kernel_mismatch_k3:mean"] == first["kernel_mismatch_k3:mean"]
    assert merged["tokens:sum"] == first["tokens:sum"] + rest["tokens:sum"]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [([], "no metrics to merge"), ([{"reward:mean": 1.0}], "'reward:mean' cannot be merged")],
)
def test_what_cannot_be_merged(parts: Any, problem: str) -> None:
    with pytest.raises(LossError, match=problem):
        merge(parts)


# A run


def steps(k3: Sequence[float], ess: Sequence[float] | None = None) -> MismatchMonitor:
    monitor = MismatchMonitor()
    for i, value in enumerate(k3):
        ess_here = 1.0 if ess is None else ess[i]
        monitor.update({"loss:sum": 1.0, "k1:mean": -2 * value, "k3:mean": value, "ess:mean": ess_here})
    return monitor


def test_what_a_run_is_judged_by() -> None:
    monitor = steps([0.0, 0.5, 1.0, 4.0, 2.0], ess=[1.0, 0.9, 0.25, 0.5, 0.8])
    assert monitor.steps == 5
    assert monitor.k1_growth == monitor.k3_growth == 4
    assert monitor.k3_peak_over_median == 4 / 1.5
    assert monitor.min_ess == 0.25
    assert not monitor.collapsed
    assert repr(monitor) == ("<MismatchMonitor of 5 steps: k1 x4, k3 x4, peak/median 2.67, least ESS 0.25>")


def test_growth_is_a_size_whatever_the_sign() -> None:
    monitor = MismatchMonitor()
    for k1 in (0.0, -0.25, 0.5):
        monitor.update({"loss:sum": 1.0, "k1:mean": k1, "k3:mean": 0.1, "ess:mean": 1.0})
    assert monitor.k1_growth == 2


def test_a_new_monitor_knows_nothing() -> None:
    for monitor in (MismatchMonitor(), steps([0.0, 0.0])):
        assert math.isnan(monitor.k1_growth)
        assert math.isnan(monitor.k3_growth)
        assert math.isnan(monitor.k3_peak_over_median)
        assert not monitor.collapsed


@pytest.mark.parametrize(
    ("k3", "collapsed"),
    [
        ([1.0] * 9 + [24.9], False),
        ([1.0] * 9 + [25.0], True),
        ([1.0] * 8 + [25.0], False),  # nine steps have no median yet
        ([1.0] * 9 + [25.0] + [10.0] * 50, True),  # a collapse is not forgotten
        ([0.0] * 30 + [1.0] * 9 + [24.0], False),  # on-policy steps are not the median
        ([1.0, math.inf], True),
        ([1.0, math.nan], True),
    ],
)
def test_collapse(k3: list[float], collapsed: bool) -> None:
    assert steps(k3).collapsed == collapsed


@pytest.mark.parametrize("name", ["loss:sum", "k1:mean", "k3:mean", "ess:mean"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_a_collapse(name: str, value: float) -> None:
    monitor = MismatchMonitor()
    metrics = {"loss:sum": -1.0, "k1:mean": 0.0, "k3:mean": 0.0, "ess:mean": 1.0}
    monitor.update(metrics)
    assert not monitor.collapsed
    monitor.update(metrics | {name: value})
    assert monitor.collapsed
    assert "collapsed" in repr(monitor)


def test_a_monitor_takes_the_metrics_of_a_step() -> None:
    made = several(8)
    monitor = MismatchMonitor(collapse_at=2.0)
    for step in range(12):
        p = tensors(given(made, 0.01 if step < 11 else 0.5))
        monitor.update(stable_reinforce(validated(made), p).metrics)
    assert monitor.collapsed
    with pytest.raises(LossError, match=r"metrics lack loss:sum, ess:mean, expected"):
        monitor.update({"k1:mean": 0.0, "k3:mean": 0.0})


# Two computations of the same logprobs


SAMPLED = [torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-0.25, -3.0])]


def test_a_hand_computed_comparison() -> None:
    found = invariance(SAMPLED, [SAMPLED[0] + torch.tensor([0.5, 0.0, -0.25]), SAMPLED[1]])
    assert found.positions == 5
    assert found.identical == 3 / 5
    assert found.max_abs_diff == 0.5
    assert found.mean_abs_diff == pytest.approx(0.15)
    assert found.first_token_abs_diff == 0.25
    k3 = [math.expm1(x) - x for x in (0.5, -0.25)]
    assert found.k3 == pytest.approx(sum(k3) / 5)
    assert found.verdict == "kernel mismatch"
    assert str(found).startswith(
        "kernel mismatch: 60.00% of 5 positions agree exactly, largest difference 0.5,"
    )


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda p: p.clone(), "invariant"),
        (lambda p: p + 5e-5, "rounding"),
        (lambda p: p + 5e-4, "kernel mismatch"),
        (lambda p: p.bfloat16() - 0.01, "kernel mismatch"),
        (lambda p: p.roll(1), "another distribution"),
        (lambda p: 3 * p, "another distribution"),
    ],
)
def test_verdicts(change: Callable[[Any], Any], verdict: str) -> None:
    assert invariance(SAMPLED, [change(row) for row in SAMPLED]).verdict == verdict
    assert invariance(SAMPLED[0], change(SAMPLED[0])).verdict == verdict


@pytest.mark.parametrize(
    ("learner", "problem"),
    [
        (SAMPLED[:1], r"shapes \[\(3,\), \(2,\)\] and \[\(3,\)\], expected the same"),
        (SAMPLED[::-1], r"shapes \[\(3,\), \(2,\)\] and \[\(2,\), \(3,\)\]"),
        ([SAMPLED[0], torch.tensor([0.0, math.nan])], r"sequence 1: token 1: -3\.0 and nan, expected finite"),
    ],
)
def test_comparisons_that_are_refused(learner: Any, problem: str) -> None:
    with pytest.raises(LossError, match=problem):
        invariance(SAMPLED, learner)


@pytest.mark.parametrize("empty", [[], [torch.zeros(0)], torch.zeros(2, 2)])
def test_nothing_to_compare(empty: Any) -> None:
    with pytest.raises(LossError, match=r"expected .* one token or more"):
        invariance(empty, empty)
