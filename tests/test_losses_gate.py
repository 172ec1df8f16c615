"""Losses train on what ``validate`` returned under the loss's whole contract, and on nothing else."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from _losses import Made, make, several, validated

import losses
from losses import LossError, stable_reinforce
from provenance import Contract, ProvenanceError, ValidatedBatch, ValidationError
from provenance.rules import registry

DEFAULT = Contract.for_loss("stable_reinforce")


def loss_of(batch: Any, made: list[Made]) -> Any:
    return stable_reinforce(batch, torch.tensor(np.concatenate([each.q for each in made])))


def test_without_torch_the_package_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import provenance\n"
        "try: import losses\n"
        "except provenance.MissingDependencyError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "torch is not installed: run pip install 'datum-provenance[losses]'\n"


def test_the_public_names() -> None:
    assert losses.__all__ == sorted(losses.__all__)
    assert all(getattr(losses, name).__doc__ for name in losses.__all__)
    assert issubclass(LossError, ProvenanceError)


def look_alike(batch: ValidatedBatch) -> object:
    return SimpleNamespace(**{name: getattr(batch, name) for name in dir(batch) if name[0] != "_"})


@pytest.mark.parametrize(
    ("forge", "kind"),
    [
        (lambda batch: None, "NoneType"),
        (lambda batch: dict(batch.inputs), "dict"),
        (lambda batch: [batch], "list"),
        (look_alike, "SimpleNamespace"),
        (lambda batch: object.__new__(ValidatedBatch), "ValidatedBatch"),
    ],
)
def test_anything_but_a_validated_batch_is_refused(forge: Callable[[Any], Any], kind: str) -> None:
    made = several(0)
    with pytest.raises(
        LossError,
        match=rf"^batch is a {kind}, expected .* provenance\.validate\(datums, contract='stable_rei",
    ):
        loss_of(forge(validated(made)), made)


def error_rules() -> list[str]:
    return [code for code, rule in registry().items() if rule.severity_for(DEFAULT.loss) == "error"]


@pytest.mark.parametrize("severity", ["warning", "off"])
def test_a_contract_without_one_of_the_error_rules_is_refused(severity: str) -> None:
    made = several(1, 2)
    assert len(error_rules()) > 30
    for code in error_rules():
        batch = validated(made, DEFAULT.with_severity({code: severity}))
        with pytest.raises(LossError, match=rf"weakens {code}, .*provenance\.validate"):
            loss_of(batch, made)


@pytest.mark.parametrize(
    ("name", "looser", "stricter"),
    [
        ("tolerance", 1e-3, 0.0),
        ("foreign_logprobs", 0.6, 0.4),
        ("foreign_run", 5, 3),
        ("window", 86401.0, 7300.0),
        ("skew", 301.0, 0.0),
    ],
)
def test_a_parameter_may_be_stricter_but_not_looser(name: str, looser: float, stricter: float) -> None:
    made = several(2, 2)
    with pytest.raises(LossError, match=f"weakens {name}, "):
        loss_of(validated(made, DEFAULT.with_parameters(**{name: looser})), made)
    assert loss_of(validated(made, DEFAULT.with_parameters(**{name: stricter})), made).loss.isfinite()


def test_warnings_may_be_weighed_as_one_likes() -> None:
    made = several(3, 2)
    contract = DEFAULT.with_severity({"SPN006": "off", "SEQ006": "error"}).with_parameters(
        advantage_limit=1000.0, vocab_size=1000, max_policy_lag=3, learner_version=4
    )
    assert loss_of(validated(made, contract), made).loss.isfinite()


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "custom"])
def test_the_contract_of_another_loss_is_refused(name: str) -> None:
    made = several(4, 2)
    with pytest.raises(
        LossError, match=rf"validated for '{name}', expected 'stable_reinforce': .*validate\("
    ):
        loss_of(validated(made, name), made)


def test_a_mutated_datum_does_not_become_a_batch() -> None:
    made = make(np.random.default_rng(0), "s")
    inputs = made.datum["loss_fn_inputs"]
    advantages = {**inputs["advantages"], "data": [1.0, *inputs["advantages"]["data"][1:]]}
    datum = {**made.datum, "loss_fn_inputs": {**inputs, "advantages": advantages}}
    with pytest.raises(ValidationError, match="ADV001"):
        validated([Made(datum, made.sequences, made.sampled, made.q, made.advantages)])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValidationError, match="FMT005"):
        validated([])
    nothing = validated([], DEFAULT.ignore(["FMT005"]))
    assert len(nothing) == 0
    with pytest.raises(LossError, match="weakens FMT005"):
        stable_reinforce(nothing, torch.zeros(0))


@pytest.mark.parametrize("way", [torch.as_tensor, torch.asarray, torch.from_dlpack])
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_what_torch_writes_to_an_array_reaches_no_loss(way: Any) -> None:
    # torch does not know of arrays that cannot be written to.
    made = several(3)
    batch = validated(made)
    p = [torch.tensor(each.q, dtype=torch.float32) for each in made]
    before = stable_reinforce(batch, p)
    for name in ("advantages", "logprobs"):
        try:
            way(batch.inputs[name]).mul_(10)
        except (BufferError, RuntimeError):
            continue
    for again in (stable_reinforce(batch, p), stable_reinforce(batch.to("cpu"), p)):
        assert torch.equal(again.loss, before.loss)
        assert again.metrics == before.metrics


@pytest.mark.parametrize("name", ["overrides", "severities"])
def test_a_contract_cannot_be_loosened_behind_a_batch(name: str) -> None:
    contract = Contract.of("stable_reinforce").with_severity({"SEQ010": "off"})
    for held in (contract, Contract.of("stable_reinforce"), pickle.loads(pickle.dumps(contract))):
        with pytest.raises(TypeError):
            getattr(held, name)["ADV001"] = "off"
        assert not hasattr(getattr(held, name), "pop")
    assert pickle.loads(pickle.dumps(contract)) == contract


def test_a_kl_term_that_overflows_is_an_error() -> None:
    made = several(3)
    p = [torch.tensor(each.q - 1, dtype=torch.float32) for each in made]
    with pytest.raises(LossError, match="the KL term, kl_coeff 1e\\+39 times k1"):
        stable_reinforce(validated(made), p, kl_coeff=1e39)
