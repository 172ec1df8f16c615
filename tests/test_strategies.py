"""Strategies: valid by construction under every contract, broken in one way, and readable when shrunk."""

from __future__ import annotations

import subprocess
import sys

import pytest
from _fuzz import KINDS, any_batch, batches, examples
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import provenance
from provenance import strategies
from provenance.builder import build_datums
from provenance.rules import registry as rules

LOSSES = ("stable_reinforce", "ppo", "gspo", "cross_entropy", "custom")
#: Contracts that leave little room.
NARROW = {
    "one-token": {"vocab_size": 1},
    "one-position": {"max_tokens": 1},
    "four-positions": {"max_tokens": 4},
    "small-advantages": {"advantage_limit": 0.1},
    "short-window": {"window": 3700},
    "no-placeholder": {"placeholder_run": 0, "foreign_run": 0, "foreign_logprobs": 0.0, "logprob_abs": 0.0},
    "no-lag": {"learner_version": 3, "max_policy_lag": 0},
}


def assert_valid(dataset: provenance.mutations.Dataset) -> None:
    report = dataset.report()
    assert not report.counts, [str(v) for v in report]
    assert report.datums == len(dataset.datums) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_valid(kind: str) -> None:
    for dataset in examples(batches(kind), 4):
        assert_valid(dataset)


@pytest.mark.parametrize("name", NARROW)
def test_batches_are_valid_under_narrow_contracts(name: str) -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_parameters(**NARROW[name])
    for dataset in examples(strategies.batches(contract=contract, images=True), 4):
        assert_valid(dataset)


@pytest.mark.slow
@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_batch())
def test_every_batch_is_valid(dataset: provenance.mutations.Dataset) -> None:
    assert_valid(dataset)


@pytest.mark.parametrize("loss", LOSSES)
def test_datums_are_valid(loss: str) -> None:
    for datum in examples(strategies.datums(contract=loss, images=True), 4):
        report = provenance.check([datum], loss)
        assert not report.counts, [str(v) for v in report]


def test_trajectories_and_ledgers_belong_together() -> None:
    for trajectory in examples(strategies.trajectories(), 4):
        sequences = [turn.sequence for turn in trajectory.turns]
        report = provenance.check(
            build_datums(trajectory), ledger=sequences, session=strategies.SESSION, now=strategies.NOW
        )
        assert not report.counts, [str(v) for v in report]
    for ledger in examples(strategies.ledgers(trajectories=2), 4):
        assert len(ledger) > 0
        assert {session.session_id for session in ledger.stats().sessions} == {strategies.SESSION}


def test_sequences_have_what_was_asked_for() -> None:
    found = examples(strategies.sequences(prompt=3, completion=2), 20)
    assert {sequence.prompt_tokens.size for sequence in found} == {1, 2, 3}
    assert {sequence.tokens.size for sequence in found} == {1, 2}


@pytest.mark.parametrize("code", rules())
def test_broken_breaks_one_rule(code: str) -> None:
    for dataset in examples(strategies.broken(code), 2):
        report = dataset.report()
        assert set(report.counts) == {code}, [str(v) for v in report]


@pytest.mark.slow
@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_broken_always_breaks_one_rule(data: st.DataObject) -> None:
    code = data.draw(st.sampled_from(sorted(rules())))
    report = data.draw(strategies.broken(code)).report()
    assert set(report.counts) == {code}, [str(v) for v in report]


def test_broken_refuses_what_is_no_rule() -> None:
    with pytest.raises(provenance.ContractError, match="no rule has the code 'SEQ'"):
        strategies.broken("SEQ")


def test_sizes_are_refused_that_hold_nothing() -> None:
    with pytest.raises(provenance.SchemaError, match="turns is 0, expected an integer of 1 or more"):
        strategies.datums(turns=0)


def test_examples_shrink_to_something_a_person_can_read() -> None:
    quiet = settings(database=None, derandomize=True, deadline=None, max_examples=50)
    datum = find(strategies.datums(), lambda found: found.model_input.length >= 3, settings=quiet)
    shown = datum.model_dump(mode="json")
    assert shown["model_input"] == {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]}
    inputs = {name: tensor["data"] for name, tensor in shown["loss_fn_inputs"].items()}
    assert inputs["target_tokens"] == [2, 3, 4]
    assert inputs["advantages"][-1] == 1.0
    assert set(inputs["logprobs"]) <= {0.0, -0.5}
    assert [span["sequence_id"] for span in shown["model_input_spans"]] == ["a:0"] * len(
        shown["model_input_spans"]
    )


def test_without_hypothesis_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['hypothesis'] = None\nimport provenance.mutations, provenance.strategies"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "hypothesis is not installed: run pip install 'datum-provenance[testing]'"
    )
