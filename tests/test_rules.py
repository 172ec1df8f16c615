"""The registry against the contract's table, and declarations that must fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from provenance.contract import Contract
from provenance.loss_spec import LOSSES
from provenance.models._base import RULE_NAMES
from provenance.report import Severity
from provenance.rules import RULESET, Rule, _rule, case, registry, rule


class Entry(NamedTuple):
    """One line of the contract's table of rules."""

    name: str
    severity: str
    needs: tuple[str, ...]
    given: tuple[str, ...]
    evidence: str


E, W = "error", "warning"
LEDGER = ("ledger",)
RECORDED = ("SEQ002", "SEQ008")

# Where `given` says more than the contract: a null (VAL001) and a wrong rank (INP004) make what follows
# meaningless, and what is unpaired, unmeasured or unknown is reported once.
TABLE = {
    "FMT001": Entry("invalid-json", E, (), (), "ours"),
    "FMT002": Entry("not-utf8", E, (), (), "ours"),
    "FMT003": Entry("duplicate-key", E, (), (), "ours"),
    "FMT004": Entry("wrong-type", E, (), (), "documented"),
    "FMT005": Entry("empty-dataset", E, (), (), "ours"),
    "INP001": Entry("missing-loss-input", E, (), (), "documented"),
    "INP002": Entry("unknown-loss-input", E, (), (), "observed"),
    "INP003": Entry("wrong-dtype", E, (), (), "documented"),
    "INP004": Entry("wrong-rank", E, (), (), "documented"),
    "INP005": Entry("length-mismatch", E, (), ("INP004",), "documented"),
    "INP006": Entry("empty-datum", E, (), (), "observed"),
    "INP007": Entry("integer-loss-input", W, (), (), "observed"),
    "INP008": Entry("invalid-ratio-mask", E, (), ("INP005", "VAL001"), "documented"),
    "INP009": Entry("datum-too-long", E, ("max_tokens",), (), "observed"),
    "TOK001": Entry("token-out-of-range", E, (), (), "observed"),
    "TOK002": Entry("empty-text-chunk", W, (), (), "observed"),
    "TOK003": Entry("unknown-chunk-length", E, (), (), "documented"),
    "TOK004": Entry("untrainable-chunk", E, (), (), "observed"),
    "TOK005": Entry("target-not-shifted", E, (), ("TOK001", "VAL001"), "ours"),
    "TOK006": Entry("target-not-next-input", W, (), ("TOK001", "VAL001"), "ours"),
    "VAL001": Entry("non-finite-value", E, (), (), "observed"),
    "VAL002": Entry("positive-logprob", E, (), ("VAL001",), "ours"),
    "VAL003": Entry("placeholder-logprobs", W, (), ("VAL001",), "ours"),
    "SPN001": Entry("unpaired-spans", E, (), (), "documented"),
    "SPN002": Entry("missing-spans", E, (), ("SPN001",), "documented"),
    "SPN003": Entry("untiled-input", E, (), ("INP005", "SPN005", "TOK003"), "documented"),
    "SPN004": Entry("untiled-targets", E, (), ("INP004", "SPN005"), "documented"),
    "SPN005": Entry("invalid-span", E, (), (), "documented"),
    "SPN006": Entry("zero-length-span", W, (), (), "observed"),
    "SPN007": Entry("no-sampled-target", E, (), ("INP006", "SPN002"), "documented"),
    "SPN008": Entry("partial-sequence", E, (), ("SEQ002",), "documented"),
    "SPN009": Entry("misaligned-spans", E, (), (), "ours"),
    "SPN010": Entry("discontiguous-spans", W, (), (), "ours"),
    "SEQ001": Entry("unknown-sequence", E, LEDGER, (), "documented"),
    "SEQ002": Entry("span-out-of-range", E, LEDGER, ("SEQ001",), "documented"),
    "SEQ003": Entry("input-token-mismatch", E, LEDGER, (*RECORDED, "TOK001"), "ours"),
    "SEQ004": Entry("sampled-target-mismatch", E, LEDGER, (*RECORDED, "TOK001", "TOK005", "VAL001"), "ours"),
    "SEQ005": Entry(
        "prompt-target-mismatch", W, LEDGER, (*RECORDED, "TOK001", "TOK005", "VAL001"), "observed"
    ),
    "SEQ006": Entry("logprob-mismatch", W, LEDGER, (*RECORDED, "VAL001", "VAL002"), "documented"),
    "SEQ007": Entry("inconsistent-record", E, LEDGER, (), "ours"),
    "SEQ008": Entry("conflicting-records", E, LEDGER, (), "ours"),
    "SEQ009": Entry("modified-sampling", W, LEDGER, (), "observed"),
    "SEQ010": Entry("repeated-sequence", W, (), (), "ours"),
    "SEQ011": Entry("context-mismatch", W, LEDGER, ("SEQ002", "SEQ003"), "ours"),
    "SEQ012": Entry("foreign-logprobs", E, LEDGER, (*RECORDED, "VAL001"), "ours"),
    "SEQ013": Entry("unknown-prompt-source", W, LEDGER, (), "ours"),
    "SES001": Entry("wrong-session", E, ("ledger", "session"), (), "documented"),
    "SES002": Entry("expired-sequence", E, LEDGER, ("SES001",), "documented"),
    "SES003": Entry("expiring-sequence", W, LEDGER, ("SES002",), "ours"),
    "SES004": Entry("future-sequence", E, LEDGER, (), "ours"),
    "SES005": Entry("stale-policy", W, ("ledger", "learner_version", "max_policy_lag"), (), "ours"),
    "ADV001": Entry("unsourced-advantage", E, (), ("SPN002", "VAL001"), "documented"),
    "ADV002": Entry("unrecorded-advantage", E, LEDGER, ("ADV001", "SEQ001"), "documented"),
    "ADV003": Entry("no-signal", W, (), (), "ours"),
    "ADV004": Entry("large-advantage", W, (), ("VAL001",), "ours"),
    "ADV005": Entry("edge-without-advantage", W, (), ("VAL001",), "ours"),
    "CFG001": Entry("invalid-loss-config", E, (), (), "documented"),
    "CFG002": Entry("unknown-loss-config", E, (), (), "observed"),
    "CFG003": Entry("epsilon-as-threshold", W, (), ("CFG001",), "ours"),
}
GATES = {
    *("FMT001", "FMT002", "FMT003", "FMT004"),
    *("INP001", "INP003", "INP004", "INP005", "INP006"),
    *("TOK003", "SPN001", "SPN003", "SPN004", "SPN005"),
}
PARTLY = {"TOK001": {"vocab_size"}, "SPN008": {"ledger"}}
OFF_ELSEWHERE = {"SPN002", "SPN007", "SPN008", "ADV001", "ADV002", "SES002", "SES003", "SES004"}
RULES = pytest.mark.parametrize("code", TABLE)


def test_the_registry_has_the_rules_of_the_contract() -> None:
    assert set(registry()) == set(TABLE)
    assert len(TABLE) == 59


@RULES
def test_rule_says_what_the_contract_says(code: str) -> None:
    found = registry()[code]
    entry = Entry(found.name, found.severity, found.needs, tuple(sorted(found.given)), found.evidence)
    assert entry == TABLE[code]._replace(given=tuple(sorted(TABLE[code].given)))


@RULES
def test_rule_is_a_gate_where_the_contract_says_so(code: str) -> None:
    assert registry()[code].gate == (code in GATES)
    assert set(registry()[code].partly) == PARTLY.get(code, set())


@RULES
def test_rule_weighs_elsewhere_what_the_contract_says(code: str) -> None:
    expected = (
        Severity.OFF
        if code in OFF_ELSEWHERE
        else Severity.WARNING
        if code == "SEQ012"
        else Severity(TABLE[code].severity)
    )
    assert registry()[code].elsewhere == expected


@RULES
def test_rule_documents_itself(code: str) -> None:
    found = registry()[code]
    assert found.summary.endswith(".")
    assert "\n\n" in found.doc
    assert f"Evidence: {found.evidence}" in " ".join(found.doc.split())


@RULES
def test_rule_has_examples_that_its_contract_checks(code: str) -> None:
    found = registry()[code]
    assert found.good
    assert found.bad
    for example in (*found.good, *found.bad):
        assert code in Contract.for_loss(example.loss).severities


@RULES
def test_message_is_lower_case_and_has_no_full_stop(code: str) -> None:
    message = registry()[code].message
    assert not message.endswith(".")
    assert message[0] == "{" or message[0].islower()


def test_the_registry_places_each_rule_after_those_it_is_given() -> None:
    codes = list(registry())
    for code, found in registry().items():
        assert all(codes.index(needed) < codes.index(code) for needed in found.given)


def test_names_are_unique() -> None:
    assert len({found.name for found in registry().values()}) == len(registry())


def test_models_name_rules_as_the_registry_does() -> None:
    assert RULE_NAMES
    assert {code: registry()[code].name for code in RULE_NAMES} == RULE_NAMES


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_has_no_rule_about_what_it_does_not_take(loss: str) -> None:
    spec, severities = LOSSES[loss], Contract.for_loss(loss).severities
    for code, field in (("VAL002", "logprobs"), ("ADV004", "advantages"), ("INP008", "sequence_ratio_mask")):
        assert (code in severities) == (loss != "custom" and spec.takes(field))
    for code, key in (("CFG003", "clip_high_threshold"),):
        assert (code in severities) == (key in spec.config)


def test_a_custom_loss_has_few_rules() -> None:
    families = {code[:3] for code in Contract.for_loss("custom").severities}
    assert {"VAL001", "INP006"} <= set(Contract.for_loss("custom").severities)
    assert families == {"FMT", "INP", "VAL", "CFG"}


# Declarations that must fail


@pytest.fixture
def scratch_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Rule]]:
    """A registry that takes declarations and is put away afterwards."""
    scratch = dict(_rule._registry)
    monkeypatch.setattr(_rule, "_registry", scratch)
    return scratch


def declare(doc: str | None = "One line.\n\nAnd why.", name: str = "a_test_rule", **changes: Any) -> None:
    def body(batch: Any, field: str) -> Any:
        raise AssertionError("never judged")

    body.__name__, body.__doc__ = name, doc
    arguments: dict[str, Any] = {
        "code": "TST001",
        "at": "datum",
        "over": ("model_input",),
        "message": "wrong",
        "evidence": "ours",
        "good": [case()],
        "bad": [case({"model_input": None})],
    }
    arguments |= changes
    rule(arguments.pop("code"), **arguments)(body)


def test_a_complete_declaration_is_registered(scratch_registry: dict[str, Rule]) -> None:
    declare()
    assert registry()["TST001"].name == "a-test-rule"
    assert registry()["TST001"].summary == "One line."


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"code": "VAL001"}, "code is used already"),
        ({"code": "VAL1"}, "three capital letters and three digits"),
        ({"code": "val999"}, "three capital letters and three digits"),
        ({"name": "non_finite_value"}, "name 'non-finite-value' is used already"),
        ({"doc": None}, "docstring"),
        ({"doc": "One line alone."}, "docstring"),
        ({"good": []}, "good example"),
        ({"bad": []}, "bad example"),
        ({"over": ()}, "'over'"),
        ({"needs": ("leger",)}, "leger"),
        ({"partly": {"vocabulary": "a part"}}, "vocabulary"),
        ({"since": RULESET + 1}, "'since'"),
        ({"since": 0}, "'since'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_an_incomplete_declaration_fails(
    scratch_registry: dict[str, Rule], changes: dict[str, Any], problem: str
) -> None:
    before = dict(scratch_registry)
    with pytest.raises(TypeError, match=problem):
        declare(**changes)
    assert scratch_registry == before


@pytest.mark.parametrize("given", ["TST999", "TST001"], ids=["unknown", "itself"])
def test_a_rule_that_is_given_what_does_not_exist_fails(
    scratch_registry: dict[str, Rule], given: str
) -> None:
    declare(given=(given,))
    with pytest.raises(TypeError, match=f"TST001.*{given}"):
        registry()


def test_rules_that_are_given_each_other_fail(scratch_registry: dict[str, Rule]) -> None:
    declare(given=("TST002",))
    declare(code="TST002", name="another_test_rule", given=("TST001",))
    with pytest.raises(TypeError, match="leads back"):
        registry()


def test_the_scratch_registry_was_put_away() -> None:
    assert not [code for code in registry() if code.startswith("TST")]
