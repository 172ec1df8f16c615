"""The controlled comparison: its policy terms, its measures, and a run of a few steps."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _losses import make, validated
from torch import Tensor

from examples.comparison import __main__ as command
from examples.comparison import experiment, report
from examples.comparison.arms import ARMS, Arm, Weight, cispo, icepop, importance_sampling, ppo
from examples.comparison.experiment import Config, run
from examples.comparison.gpt import GPT, fingerprint
from examples.comparison.measures import cell, collapsed, final_accuracy, paired, wilson
from examples.comparison.sampling import MISMATCHES, sample
from examples.comparison.task import DIGITS, PROMPT, prompts, rewards, solutions
from provenance import MemoryLedger

# Threads that wait for each other are slower than one where other tests run beside.
torch.set_num_threads(1)

RATIOS = [1.5, 0.5, 1.5, 0.5, 1.1, 6.0, 0.4]
ADVANTAGES = [1.0, 1.0, -1.0, -1.0, 2.0, -2.0, 1.0]


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (importance_sampling, [1.5, 0.5, 1.5, 0.5, 1.1, 6.0, 0.4]),
        (ppo, [0.0, 0.5, 1.5, 0.0, 1.1, 6.0, 0.4]),
        (cispo, [1.5, 0.5, 1.5, 0.5, 1.1, 4.0, 0.4]),
        (icepop, [1.5, 0.5, 1.5, 0.5, 1.1, 0.0, 0.0]),
    ],
)
def test_weights_are_those_computed_by_hand(weight: Weight, expected: list[float]) -> None:
    found = weight(torch.tensor(RATIOS).log(), torch.tensor(ADVANTAGES))
    torch.testing.assert_close(found, torch.tensor(expected))


def ppo_objective(ratio: Tensor, advantages: Tensor) -> Tensor:
    return -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def importance_objective(ratio: Tensor, advantages: Tensor) -> Tensor:
    return -ratio * advantages


@pytest.mark.parametrize(
    ("weight", "objective"), [(ppo, ppo_objective), (importance_sampling, importance_objective)]
)
def test_weights_give_the_gradient_of_the_published_objective(weight: Weight, objective: Any) -> None:
    advantages = torch.tensor(ADVANTAGES, dtype=torch.float64)
    p = torch.tensor(RATIOS, dtype=torch.float64).log().requires_grad_()
    objective(p.exp(), advantages).sum().backward()
    assert p.grad is not None
    torch.testing.assert_close(p.grad, -weight(p.detach(), advantages) * advantages)


def test_a_solution_is_the_prompt_reversed_and_earns_the_reward() -> None:
    asked = prompts(50, torch.Generator().manual_seed(1))
    assert asked.shape == (50, PROMPT)
    digits = asked[:, 1:-1].tolist()
    answers = solutions(asked)
    assert answers.tolist() == [list(reversed(row)) for row in digits]
    assert rewards(asked, answers).tolist() == [1.0] * 50
    answers[:, 3] = (answers[:, 3] + 1) % 10
    assert rewards(asked, answers).tolist() == [0.0] * 50


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_sampler_records_what_it_drew_from_unless_it_is_silent(mismatch: str) -> None:
    torch.manual_seed(0)
    model, asked = GPT(), prompts(64, torch.Generator().manual_seed(2))
    tokens, honest = sample(model, asked, 5, mismatch)
    again, silent = sample(model, asked, 5, mismatch, silent=True)
    assert tokens.shape == honest.shape == (64, DIGITS)
    assert torch.equal(tokens, again)
    with torch.no_grad():
        hidden, _ = model(torch.cat([asked, tokens], dim=1)[:, :-1])
        logits = model.head(hidden[:, PROMPT - 1 :])
    exact = logits.log_softmax(dim=2).gather(2, tokens[..., None])[..., 0]
    torch.testing.assert_close(silent, exact, atol=1e-5, rtol=0)
    off = float((honest - exact).abs().max())
    assert off < 1e-5 if mismatch == "none" else off > 1e-4


def test_luck_depends_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    model, asked = GPT(), prompts(16, torch.Generator().manual_seed(2))
    first, _ = sample(model, asked, 5)
    assert torch.equal(first, sample(model, asked, 5)[0])
    assert not torch.equal(first, sample(model, asked, 6)[0])


def record(accuracies: list[float], *, seed: int = 0, finite: bool = True) -> dict[str, Any]:
    figures = {"k3_peak_over_median": 2.0, "ess_min": 0.5, "truncated": 0.1, "ratio_max": 3.0}
    return {"accuracies": accuracies, "finite": finite, "seed": seed, **figures}


@pytest.mark.parametrize(
    ("accuracies", "finite", "expected"),
    [
        ([0.2, 0.8, 0.9, 0.9, 0.9], True, False),
        ([0.2, 0.8, 0.1, 0.1, 0.1], True, True),
        ([0.2, 0.8, 0.3, 0.3, 0.3], True, False),  # below half of its best, above its start
        ([0.2, 0.3, 0.16, 0.16, 0.16], True, False),  # below its start, above half of its best
        ([0.2, 0.9, 0.9, 0.9], False, True),
    ],
)
def test_collapse_is_what_the_design_says(accuracies: list[float], finite: bool, expected: bool) -> None:
    assert collapsed(record(accuracies, finite=finite)) is expected


def test_final_accuracy_is_the_mean_of_the_last_three() -> None:
    assert final_accuracy(record([0.1, 0.3, 0.5, 0.7])) == pytest.approx(0.5)
    assert final_accuracy(record([0.1, 0.3, 0.5, 0.7], finite=False)) == 0


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    # Newcombe 1998, table I: 81 of 263, 0 of 20, 1 of 29.
    [(81, 263, (0.2553, 0.3662)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718))],
)
def test_wilson_gives_the_published_intervals(
    successes: int, trials: int, expected: tuple[float, float]
) -> None:
    assert wilson(successes, trials) == pytest.approx(expected, abs=5e-5)


def test_cells_and_pairs_go_by_seed() -> None:
    ours = [record([0.2, 0.9, 0.9, 0.9], seed=1), record([0.2, 0.0, 0.0, 0.0], seed=0)]
    theirs = [record([0.2, 0.5, 0.5, 0.5], seed=0), record([0.2, 0.5, 0.5, 0.5], seed=1)]
    assert paired(ours, theirs) == pytest.approx([0.4, -0.5])
    figures = cell(ours)
    assert (figures["runs"], figures["collapsed"]) == (2, 1)
    assert figures["final"] == pytest.approx(0.45)


def test_the_grids_are_as_large_as_the_design_says() -> None:
    assert len(set(command.HEADLINE)) == 7 * 3 * 3 * 5 == 315
    assert len(set(command.MISMATCH)) == 72
    assert len(set(command.GENTLE)) == 21


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_trains_and_says_what_it_was(arm: str) -> None:
    torch.manual_seed(0)
    start = GPT()
    done = run(Config(arm, 0.01, 1, 3, steps=2), start)
    assert json.loads(json.dumps(done)) == done
    assert (done["arm"], done["seed"], done["finite"]) == (arm, 3, True)
    assert done["start"] == fingerprint(start)
    assert len(done["accuracies"]) == 1
    assert math.isfinite(done["ess_min"])


def test_the_sampler_is_as_far_behind_as_the_lag_says(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    sampled, trained, versions = [], [], []
    sampling, validating, scoring = experiment._sample, experiment._validated, experiment._logprobs

    def sample_(config: Any, sampler: GPT, step: int) -> Any:
        sampled.append(fingerprint(sampler))
        trained.append("")
        return sampling(config, sampler, step)

    def validated(*given: Any) -> Any:
        versions.append(given[-1])
        return validating(*given)

    def logprobs(model: GPT, batch: Any) -> Tensor:
        trained[-1] = fingerprint(model)  # the learner's come last in a step
        return scoring(model, batch)

    monkeypatch.setattr(experiment, "_sample", sample_)
    monkeypatch.setattr(experiment, "_validated", validated)
    monkeypatch.setattr(experiment, "_logprobs", logprobs)
    # Any policy term moves the weights: the KL term alone does, even without a reward.
    run(Config("reinforce", 0.05, 2, 3, steps=5), GPT())
    assert versions == [0, 0, 0, 1, 2]
    assert sampled == [trained[version] for version in versions]
    assert len(set(trained)) >= 4


@pytest.mark.parametrize(
    ("arm", "same"), [(ARMS["cispo 0/4"], "token_is cap 4"), (Arm(weight=importance_sampling), "token_is")]
)
def test_arms_that_are_the_same_by_design_have_the_same_gradient(
    monkeypatch: pytest.MonkeyPatch, arm: Arm, same: str
) -> None:
    torch.manual_seed(0)
    config = Config("other", 0.05, 0, 3)
    rollout = experiment._sample(config, GPT(), 0)
    rollout["advantages"] = torch.randn(len(rollout["advantages"]))
    batch = experiment._validated(MemoryLedger(), rollout, config, 0, 0)
    monkeypatch.setitem(ARMS, "other", arm)
    q = torch.tensor(batch.inputs["logprobs"])
    gradients = []
    for name in ("other", same):
        # Ratios on both sides of 4.
        p = (q + torch.linspace(-2, 3, len(q))).requires_grad_()
        loss, _ = experiment._loss(replace(config, arm=name), batch, p, None)
        (gradient,) = torch.autograd.grad(loss, p)
        gradients.append(gradient)
    torch.testing.assert_close(*gradients)
    assert gradients[0].count_nonzero() == int(batch.sampled.sum())


@pytest.mark.parametrize(
    ("arm", "share"),
    # Ratios of 0.6, 0.9, 1, 1.1, 3 and 4.5, where the advantage is 1, and 0.1, 1, 2.5 and 5.5 where it is -1.
    [
        ("reinforce", 0),
        ("token_is", 0),
        ("token_is cap 2", 4 / 10),
        ("token_is cap 4", 2 / 10),
        ("cispo 0/4", 2 / 10),
        ("ppo 0.8/1.2", 3 / 10),
        ("icepop 0.5/5", 2 / 10),
    ],
)
def test_an_arms_truncated_share_is_that_of_the_weights_it_changes(arm: str, share: float) -> None:
    ratios = torch.tensor([0.6, 0.9, 1, 1.1, 3, 4.5, 0.1, 1, 2.5, 5.5])
    advantages, logprobs = [1.0] * 6 + [-1.0] * 4, [-5.0] * 10
    rng = np.random.default_rng(0)
    batch = validated([make(rng, "s", turns=[(3, 10)], advantages=advantages, logprobs=logprobs)])
    p = torch.tensor(batch.inputs["logprobs"])
    p[torch.tensor(batch.sampled)] += ratios.log()
    _, metrics = experiment._loss(Config(arm, 0.0, 0, 1), batch, p, None)
    assert metrics["truncated_fraction:mean"] == pytest.approx(share)


def test_a_run_that_was_stopped_while_it_wrote_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"arm": 1}\n{"ar', encoding="utf-8")
    command.drop_fragment(path)
    assert command.read(path) == [{"arm": 1}]
    command.drop_fragment(tmp_path / "none.jsonl")


def test_a_run_can_be_repeated() -> None:
    torch.manual_seed(0)
    start, config = GPT(), Config("token_is cap 4", 0.01, 1, 3, steps=2)
    assert run(config, start) | {"seconds": 0} == run(config, start) | {"seconds": 0}


@pytest.mark.slow
def test_the_smoke_run_improves_on_its_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["smoke", "--results", str(tmp_path / "none.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        start, end = line.split("accuracy ")[1].split(" (")[0].split(" -> ")
        assert float(end) > float(start) + 0.1
    assert not (tmp_path / "none.jsonl").exists()


def test_the_report_takes_runs_that_ended_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    start = GPT()
    done = run(Config("token_is", 0.01, 8, 1, steps=2), start) | {"steps": 200}
    dead = done | {"seed": 2, "finite": False, "metrics": {}, "accuracies": [0.2]}
    noisy = {"mismatch": "fp8", "silent": True}
    monkeypatch.setattr(report, "PAGES", tmp_path)
    report.report([done, dead, done | noisy, dead | noisy | {"seed": 1}])
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| 8 | 0.01 | token_is | 2 |" in tables
    assert "| 8 | token_is |  | 0.00 (0.00 to 0.00), 1/2 |  |" in tables
    assert "| fp8 | silently | token_is | 0.01 | 2 |" in tables
    assert (tmp_path / "accuracy.svg").stat().st_size > 10_000
    assert (tmp_path / "k3.svg").exists()
