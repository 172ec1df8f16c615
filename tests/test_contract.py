"""Contracts: defaults of each loss, severities, parameters, files."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance import Contract, ContractError, Severity
from provenance.loss_spec import LOSSES
from provenance.rules import RULESET, Parameters, case, registry

OFF_ELSEWHERE = {"SPN002", "SPN007", "SPN008", "ADV001", "ADV002", "SES002", "SES003", "SES004"}
DEFAULT = Contract.for_loss("stable_reinforce")


@pytest.mark.parametrize("loss", LOSSES)
def test_default_severities(loss: str) -> None:
    contract = Contract.for_loss(loss)
    assert contract.loss.name == loss
    assert not contract.overrides
    assert not contract.weakened()
    assert contract.ruleset == RULESET
    if loss == "stable_reinforce":
        assert set(contract.severities) == set(registry()) - {"INP008", "CFG003"}
        assert contract.severities["SEQ012"] == Severity.ERROR
    else:
        assert not OFF_ELSEWHERE & set(contract.severities)
    if "logprobs" in contract.loss.required and loss != "stable_reinforce":
        assert contract.severities["SEQ012"] == Severity.WARNING
        assert {"SEQ001", "SEQ003", "SEQ004", "SES001", "SPN003", "SPN009"} <= set(contract.severities)


@pytest.mark.parametrize(
    ("loss", "suggestion"),
    [
        ("stable-reinforce", "did you mean 'stable_reinforce'?"),
        ("pop", "did you mean 'ppo'?"),
        ("zzzzzz", "known are cross_entropy"),
    ],
)
def test_an_unknown_loss(loss: str, suggestion: str) -> None:
    with pytest.raises(ContractError, match=f"no loss is called '{loss}'") as caught:
        Contract.for_loss(loss)
    assert suggestion in str(caught.value)
    with pytest.raises(ContractError):
        provenance.check([], loss)


def test_a_contract_is_immutable_and_changes_are_copies() -> None:
    softer = DEFAULT.with_severity({"SPN006": "error"}).with_parameters(vocab_size=10)
    assert not DEFAULT.overrides
    assert DEFAULT.parameters.vocab_size is None
    assert softer.severities["SPN006"] == Severity.ERROR
    with pytest.raises(AttributeError):
        DEFAULT.ruleset = 2  # type: ignore[misc]


def test_severities_by_code_and_family() -> None:
    contract = DEFAULT.with_severity({"SES": "off", "SES001": "warning", "adv": Severity.WARNING})
    assert {code for code in contract.severities if code.startswith("SES")} == {"SES001"}
    assert contract.severities["SES001"] == Severity.WARNING
    assert {contract.severities[code] for code in registry() if code.startswith("ADV")} == {Severity.WARNING}
    assert contract.severities["VAL001"] == Severity.ERROR


def test_a_severity_that_is_the_default_is_no_override() -> None:
    contract = DEFAULT.with_severity({"VAL001": "off"})
    assert set(contract.overrides) == {"VAL001"}
    assert contract.with_severity({"VAL001": "error"}) == DEFAULT


@pytest.mark.parametrize(
    ("severities", "problem"),
    [
        ({"VAL01": "off"}, "no rule is called 'VAL01', did you mean 'VAL001'?"),
        ({"VAL999": "off"}, "no rule is called 'VAL999', did you mean 'VAL"),
        ({"VALS": "off"}, "no rule is called 'VALS', did you mean 'VAL'?"),
        ({"V": "off"}, "no rule is called 'V'"),
        ({"": "off"}, "no rule is called ''"),
        ({"VAL001": "fatal"}, "severity of VAL001 is 'fatal', expected error, warning or off"),
        ({"VAL001": None}, "severity of VAL001 is None"),
        ({"VAL001": True}, "severity of VAL001 is True"),
    ],
    ids=repr,
)
def test_severities_that_are_none(severities: dict[str, Any], problem: str) -> None:
    with pytest.raises(ContractError) as caught:
        DEFAULT.with_severity(severities)
    assert problem in str(caught.value)


def test_select_and_ignore() -> None:
    assert set(DEFAULT.select(["VAL", "SPN003"]).severities) == {"VAL001", "VAL002", "VAL003", "SPN003"}
    assert set(DEFAULT.severities) - set(DEFAULT.ignore(["VAL", "SPN003"]).severities) == {
        *("VAL001", "VAL002", "VAL003", "SPN003")
    }
    assert not DEFAULT.select([]).severities
    assert DEFAULT.ignore([]) == DEFAULT
    for change in (DEFAULT.select, DEFAULT.ignore):
        with pytest.raises(ContractError, match="no rule is called 'XYZ'"):
            change(["XYZ"])


def test_selecting_keeps_severities() -> None:
    assert (
        DEFAULT.with_severity({"VAL001": "warning"}).select(["VAL"]).severities["VAL001"] == Severity.WARNING
    )


def test_selected_rules_alone_are_reported() -> None:
    faulty = case({"loss_fn_inputs.logprobs.data.0": 0.5, "loss_fn_inputs.advantages.data.0": 1.0})
    report = provenance.check(faulty.datums, DEFAULT.select(["VAL002"]))
    assert set(report.counts) == {"VAL002"}
    report = provenance.check(faulty.datums, DEFAULT.ignore(["VAL002"]))
    assert set(report.counts) == {"ADV001"}


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"vocabsize": 5}, "no parameter is called 'vocabsize', did you mean 'vocab_size'?"),
        ({"windows": 5}, "did you mean 'window'?"),
        ({"vocab_size": 1.5}, "parameter vocab_size is 1.5, expected an integer of 1 or more"),
        ({"vocab_size": True}, "parameter vocab_size is True"),
        ({"vocab_size": "100"}, "parameter vocab_size is '100'"),
        ({"vocab_size": 0}, "parameter vocab_size is 0, expected an integer of 1 or more"),
        ({"max_policy_lag": -1}, "parameter max_policy_lag is -1, expected an integer of 0 or more"),
        ({"placeholder_run": None}, "parameter placeholder_run is None"),
        ({"tolerance": None}, "parameter tolerance is None, expected a number of 0 or more"),
        ({"tolerance": -1e-9}, "parameter tolerance is -1e-09"),
        ({"tolerance": float("nan")}, "parameter tolerance is nan"),
        ({"window": float("inf")}, "parameter window is inf"),
        ({"window": [1]}, "parameter window is [1]"),
    ],
    ids=repr,
)
def test_parameters_that_are_none(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ContractError) as caught:
        DEFAULT.with_parameters(**parameters)
    assert problem in str(caught.value)


# What admits more

LOOSER = {
    "tolerance": 1e-3,
    "placeholder_run": 33,
    "logprob_abs": 0.01,
    "logprob_rel": 0.01,
    "foreign_logprobs": 0.6,
    "foreign_run": 5,
    "window": 86401.0,
    "margin": 0,
    "skew": 301,
    "advantage_limit": 101,
}
STRICTER = {
    "vocab_size": 10,
    "max_tokens": 10,
    "tolerance": 0,
    "placeholder_run": 3,
    "logprob_abs": 0,
    "logprob_rel": 0.0,
    "foreign_logprobs": 0.1,
    "foreign_run": 2,
    "window": 10,
    "margin": 7200.0,
    "skew": 0,
    "learner_version": 3,
    "max_policy_lag": 1,
    "advantage_limit": 1.0,
}


def test_every_parameter_is_tried() -> None:
    assert set(STRICTER) == {f.name for f in fields(Parameters)}


OF_WARNINGS = {"placeholder_run", "logprob_abs", "logprob_rel", "margin", "advantage_limit"}


@pytest.mark.parametrize("name", LOOSER)
def test_a_looser_parameter_of_an_error_rule_weakens(name: str) -> None:
    contract = DEFAULT.with_parameters(**{name: LOOSER[name]})
    assert contract.weakened() == (() if name in OF_WARNINGS else (name,))


def test_a_parameter_that_can_be_loosened_names_rules_that_there_are() -> None:
    for declared in fields(Parameters):
        assert set(declared.metadata["rules"]) <= set(registry())
        assert bool(declared.metadata["rules"]) == (declared.metadata["loosens"] != "unset")


@pytest.mark.parametrize("name", STRICTER)
def test_a_stricter_parameter_does_not_weaken(name: str) -> None:
    contract = DEFAULT.with_parameters(**{name: STRICTER[name]})
    assert contract.weakened() == ()
    assert contract.parameters.changed() == {name: STRICTER[name]}


@pytest.mark.parametrize("severity", ["warning", "off"])
def test_a_softened_error_weakens(severity: str) -> None:
    assert DEFAULT.with_severity({"ADV001": severity}).weakened() == ("ADV001",)


def test_what_was_no_error_does_not_weaken() -> None:
    contract = DEFAULT.with_severity({"SPN006": "off", "SPN010": "error"})
    assert contract.weakened() == ()
    assert Contract.for_loss("ppo").with_severity({"ADV001": "off"}).weakened() == ()
    both = DEFAULT.ignore(["SES"]).with_parameters(tolerance=1.0)
    assert set(both.weakened()) == {"SES001", "SES002", "SES004", "tolerance"}


# Custom losses


def test_declared_inputs() -> None:
    contract = Contract.for_loss(
        "custom", inputs={"target_tokens": 1, "bonus": 0, "table": {"rank": 2, "dtype": "int64"}}
    )
    spec = contract.loss
    assert spec.required == ("target_tokens", "bonus", "table")
    assert spec.int64 == {"target_tokens", "table"}
    assert [spec.ranks_of(name) for name in spec.required] == [(1,), (0,), (2,)]
    assert not spec.takes("logprobs")
    assert Contract.for_loss("custom").loss.takes("anything")


@pytest.mark.parametrize(
    ("loss", "inputs", "problem"),
    [
        ("ppo", {"logprobs": 1}, "custom loss only, ppo has its own"),
        ("custom", {"x": 3}, "input x: expected rank 0, 1 or 2"),
        ("custom", {"x": True}, "input x: expected rank 0, 1 or 2"),
        ("custom", {"x": "1"}, "input x: expected rank 0, 1 or 2"),
        ("custom", {"x": {"rnk": 1}}, "input x: expected rank 0, 1 or 2"),
        ("custom", {"x": {"dtype": "float64"}}, "input x: dtype is 'float64', expected int64 or float32"),
    ],
)
def test_declarations_that_are_none(loss: str, inputs: dict[str, Any], problem: str) -> None:
    with pytest.raises(ContractError, match=problem):
        Contract.for_loss(loss, inputs=inputs)


# Files

NUMBERS = st.floats(0, 1e9, allow_nan=False)
PARAMETERS = st.fixed_dictionaries(
    {},
    optional={
        f.name: (
            st.integers(1, 2**40)
            if isinstance(f.default, int) or f.default is None
            else st.one_of(NUMBERS, st.integers(0, 2**40))
        )
        for f in fields(Parameters)
    },
)
SEVERITIES = st.dictionaries(st.sampled_from(sorted(registry())), st.sampled_from(list(Severity)))
NAMES = st.one_of(st.sampled_from(["target_tokens", "logprobs", "reward"]), st.text(min_size=1, max_size=5))
INPUTS = st.dictionaries(
    NAMES,
    st.fixed_dictionaries({"rank": st.integers(0, 2), "dtype": st.sampled_from(["int64", "float32"])}),
    max_size=3,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    loss=st.sampled_from(sorted(LOSSES)),
    severities=SEVERITIES,
    parameters=PARAMETERS,
    declared=st.one_of(st.none(), INPUTS),
)
def test_a_saved_contract_is_loaded_as_it_was(
    loss: str,
    severities: dict[str, Severity],
    parameters: dict[str, Any],
    declared: dict[str, Any] | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    inputs = declared if loss == "custom" else None
    contract = Contract.for_loss(loss, inputs=inputs).with_severity(severities).with_parameters(**parameters)
    path = tmp_path_factory.getbasetemp() / "contract.toml"
    contract.save(path)
    loaded = Contract.load(path)
    assert loaded == contract
    assert loaded.severities == contract.severities
    assert tomllib.loads(contract.to_toml())["extends"] == loss
    assert loaded.to_dict() == contract.to_dict()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_contracts_extend_each_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        "base.toml",
        'extends = "ppo"\n[severity]\nSPN = "off"\nVAL003 = "error"\n[parameters]\nvocab_size = 10\n',
    )
    write(tmp_path, "team/team.toml", 'extends = "../base.toml"\n[severity]\nSPN003 = "error"\n')
    path = write(
        tmp_path, "team/mine.toml", 'extends = "team.toml"\n[parameters]\nmax_tokens = 5\nvocab_size = 20\n'
    )
    contract = Contract.load(path)
    assert contract.loss.name == "ppo"
    assert {code for code in contract.severities if code.startswith("SPN")} == {"SPN003"}
    assert contract.severities["VAL003"] == Severity.ERROR
    assert contract.parameters.changed() == {"vocab_size": 20, "max_tokens": 5}


@pytest.mark.parametrize(
    "files",
    [
        {"a.toml": "a.toml"},
        {"a.toml": "b.toml", "b.toml": "a.toml"},
        {"a.toml": "b.toml", "b.toml": "c.toml", "c.toml": "./b.toml"},
    ],
    ids=["itself", "two", "later"],
)
def test_a_contract_that_extends_itself(files: dict[str, str], tmp_path: Path) -> None:
    for name, base in files.items():
        write(tmp_path, name, f'extends = "{base}"\n')
    with pytest.raises(ContractError, match="extends itself"):
        Contract.load(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('extend = "ppo"', "unknown key 'extend', did you mean 'extends'?"),
        ("extends = 5", "extends is 5, expected the name of a loss or a contract file"),
        ('extends = "pp"', "extends neither a loss nor a contract file: 'pp', did you mean 'ppo'?"),
        ('extends = "gone.toml"', "gone.toml"),
        ("severity = 5", "severity is 5, expected a table"),
        ('[severity]\nVAL01 = "off"', "did you mean 'VAL001'?"),
        ("[severity]\nVAL001 = 1", "severity of VAL001 is 1"),
        ("[parameters]\nwindo = 1", "did you mean 'window'?"),
        ("[parameters]\nwindow = nan", "parameter window is nan"),
        ("ruleset = 0", "ruleset is 0"),
        (f"ruleset = {RULESET + 1}", f"ruleset is {RULESET + 1}"),
        ("ruleset = true", "ruleset is True"),
        ('ruleset = "1"', "ruleset is '1'"),
        ("[inputs]\nx = 1", "custom loss only"),
        ("extends = ", "not TOML"),
        ("\ufeff[severity", "not TOML"),
    ],
)
def test_contract_files_that_are_none(text: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, "contract.toml", text)
    with pytest.raises(ContractError) as caught:
        Contract.load(path)
    assert problem in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_contract_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"missing\.toml"):
        Contract.load(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'extends = "\xff"')
    with pytest.raises(ContractError, match="not TOML"):
        Contract.load(tmp_path / "latin.toml")


def test_an_error_in_a_parent_names_the_parent(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", "[parameters]\nwindow = -1\n")
    path = write(tmp_path, "mine.toml", 'extends = "base.toml"\n')
    with pytest.raises(ContractError) as caught:
        Contract.load(path)
    assert "base.toml" in str(caught.value)


def test_a_table_of_pyproject(tmp_path: Path) -> None:
    ours = '[tool.provenance]\nextends = "cispo"\n[tool.provenance.severity]\nSES = "off"\n'
    text = f'[project]\nname = "x"\n{ours}'
    contract = Contract.load(write(tmp_path, "pyproject.toml", text))
    assert contract.loss.name == "cispo"
    assert "SES001" not in contract.severities
    for other in ("", "[tool.ruff]\n"):
        with pytest.raises(ContractError, match=r"no \[tool.provenance\] table"):
            Contract.load(write(tmp_path, "pyproject.toml", other))


@pytest.mark.parametrize(
    "text", ["tool = 5", "[tool]\nprovenance = 5", "[[tool.provenance]]\nextends = 'ppo'"]
)
def test_a_table_of_pyproject_that_is_none(text: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError):
        Contract.load(write(tmp_path, "pyproject.toml", text))


def test_declared_inputs_from_a_file(tmp_path: Path) -> None:
    text = 'extends = "custom"\n[inputs]\nreward = 0\n[inputs.table]\nrank = 2\ndtype = "int64"\n'
    contract = Contract.load(write(tmp_path, "contract.toml", text))
    assert contract == Contract.for_loss(
        "custom", inputs={"reward": 0, "table": {"rank": 2, "dtype": "int64"}}
    )
    child = Contract.load(write(tmp_path, "child.toml", 'extends = "contract.toml"\n[inputs]\nother = 1\n'))
    assert child.loss.required == ("other",)


def test_a_pinned_rule_set(tmp_path: Path) -> None:
    contract = Contract.load(write(tmp_path, "contract.toml", "ruleset = 1\n"))
    assert contract.ruleset == 1
    assert provenance.check([], contract, allow_empty=True).ruleset == 1


def test_a_rule_that_is_newer_than_the_pin_is_a_warning() -> None:
    newer = replace(registry()["VAL001"], since=RULESET + 1)
    assert DEFAULT.severity_of(newer) == Severity.WARNING
    assert DEFAULT.severity_of(registry()["VAL001"]) == Severity.ERROR
    assert replace(DEFAULT, ruleset=RULESET + 1).severity_of(newer) == Severity.ERROR


def test_a_directory_is_no_contract(tmp_path: Path) -> None:
    with pytest.raises(ContractError):
        Contract.load(tmp_path)
