"""Fuzzing a check: which faults it catches, by contract and by function."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import provenance
from provenance import mutations
from provenance.fuzz import FuzzReport, Verdict, fuzz, report_to_text, summary
from provenance.generate import NOW, SESSION, generate
from provenance.json_schema import documents
from provenance.ledger.sql import SqlLedger
from provenance.loss_spec import LOSSES
from provenance.models import Datum, SampledSequence
from provenance.mutations import Dataset

CONTRACT = provenance.Contract.for_loss("stable_reinforce")
DATASET = generate(12, seed=1).dataset
GIVEN: dict[str, Any] = {"ledger": DATASET.sequences, "session": SESSION, "now": NOW}
HARMLESS = [each.name for each in mutations.registry().values() if not each.fires]


def verdicts(report: FuzzReport) -> dict[str, str]:
    return {trial.mutation: trial.verdict.value for trial in report.trials}


@pytest.fixture(scope="module")
def whole() -> FuzzReport:
    return fuzz(DATASET)


# By contract


def test_the_whole_contract_catches_all(whole: FuzzReport) -> None:
    assert whole.ok
    assert [trial.mutation for trial in whole.trials] == list(mutations.registry())
    assert whole.faults == whole.caught > 60
    assert (whole.let_through, whole.cried_wolf, whole.no_verdict) == ([], [], [])
    for trial in whole.trials:
        declared = mutations.registry()[trial.mutation]
        assert (trial.family, trial.summary) == (declared.family, declared.summary)
        if trial.verdict in (Verdict.CAUGHT, Verdict.WARNED):
            assert set(trial.expected) == set(declared.fires)
            assert set(trial.expected) <= set(trial.by) <= {*declared.fires, *declared.may}
            errors = [code for code in trial.by if CONTRACT.severities[code] == "error"]
            assert (trial.verdict == Verdict.CAUGHT) == bool(errors)
        elif trial.verdict == Verdict.PASSED:
            assert (trial.mutation in HARMLESS, trial.expected, trial.by) == (True, (), ())
        else:
            assert (trial.verdict, trial.by, trial.place) == (Verdict.NOT_APPLICABLE, (), None)
            assert trial.note


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_every_contract_catches_all(loss: str) -> None:
    for seed, images in ((0, False), (1, True)):
        report = fuzz(generate(8, seed=seed, contract=loss, images=images).dataset, seed=seed)
        assert report.ok, report_to_text(report)
        assert report.faults >= 10


def test_a_trial_is_what_apply_does(whole: FuzzReport) -> None:
    name = "tokenised-again"
    (trial,) = [trial for trial in whole.trials if trial.mutation == name]
    copy = DATASET.copy()
    ((_, place),) = mutations.apply(copy, [name], seed=0)
    assert trial.place == place.location()
    assert set(trial.by) == set(copy.report().counts)


def test_the_data_are_left_as_they_were() -> None:
    before = DATASET.copy()
    fuzz(DATASET, only=["no-datums", "record-lost", "trained-in-another-session", "option-is-true"])
    assert before == DATASET


def test_the_same_seed_gives_the_same_report() -> None:
    names = ["tokenised-again", "advantage-residue", "record-lost"]
    assert fuzz(DATASET, only=names) == fuzz(DATASET, only=names)
    assert fuzz(DATASET, only=names, seed=1) != fuzz(DATASET, only=names)


def test_a_softened_contract_lets_through() -> None:
    names = ["stop-token-dropped", "sampled-run-split", "tokenised-again", "last-target-replaced"]
    soft = CONTRACT.with_severity({"SPN008": "off", "SEQ003": "warning", "SEQ004": "warning"})
    report = fuzz(DATASET.datums, soft, only=names, **GIVEN)
    assert verdicts(report) == {
        "sampled-run-split": "let through",
        "tokenised-again": "warned",
        "last-target-replaced": "warned",
        "stop-token-dropped": "let through",
    }
    assert {trial.note for trial in report.trials} == {"", "SPN008: off in this contract"}
    strict = fuzz(DATASET.datums, soft, only=names, fail_on="error", **GIVEN)
    assert strict.let_through == [trial.mutation for trial in strict.trials]
    notes = {trial.mutation: (trial.by, trial.note) for trial in strict.trials}
    assert notes["tokenised-again"] == (("SEQ003", "SEQ004"), "SEQ003, SEQ004: a warning")


def test_without_a_ledger_identity_is_let_through() -> None:
    report = fuzz(DATASET.datums, only=["tokenised-again", "record-lost", "sampled-target-edited"])
    assert verdicts(report) == {
        "record-lost": "not applicable",
        "tokenised-again": "let through",
        "sampled-target-edited": "caught",
    }
    notes = {trial.mutation: trial.note for trial in report.trials}
    assert notes["tokenised-again"] == "SEQ003, SEQ004: no ledger of sampled sequences given"
    assert notes["record-lost"] == "nothing to break that way without a ledger"


def test_what_is_no_fault_for_the_loss_is_not_applicable() -> None:
    dataset = generate(8, contract="ppo").dataset
    report = fuzz(dataset, only=["spans-lost", "epsilon-as-threshold", "advantages-everywhere"])
    assert verdicts(report) == {
        "advantages-everywhere": "not applicable",
        "epsilon-as-threshold": "warned",
        "spans-lost": "not applicable",
    }
    assert report.trials[-1].note == "no fault for ppo, whose contract has no SPN002"


def test_warnings_that_were_there_before_do_not_count() -> None:
    dataset = DATASET.copy()
    mutations.apply(dataset, ["prompt-targets-zeroed", "empty-text-chunk"], seed=1)
    assert {"SEQ005", "TOK002"} <= dataset.report().codes()
    report = fuzz(dataset, only=["prompt-targets-zeroed", "empty-text-chunk", *HARMLESS])
    assert report.names("warned") == ["empty-text-chunk", "prompt-targets-zeroed"]
    assert not report.cried_wolf
    assert report.harmless == len(HARMLESS)


def test_a_record_may_be_missing_where_that_is_a_warning() -> None:
    dataset = DATASET.copy()
    mutations.apply(dataset, ["sibling-not-recorded"], seed=0)
    report = fuzz(dataset.datums, only=["zeros-negative", "record-lost"], **GIVEN)
    assert verdicts(report) == {"record-lost": "caught", "zeros-negative": "passed"}


def test_broken_data_are_refused() -> None:
    broken = generate(5, break_="VAL002").dataset
    with pytest.raises(
        provenance.ValidationError, match=r"the data break VAL002 before .*: row \d: logprobs"
    ):
        fuzz(broken)


# By function


def lengths_agree(dataset: Dataset) -> bool:
    return all(
        len({len(tensor["data"]) for tensor in datum["loss_fn_inputs"].values()}) == 1
        for datum in dataset.datums
    )


def builds_models(dataset: Dataset) -> None:
    for datum in dataset.datums:
        Datum.model_validate(datum)


def suspicious(dataset: Dataset) -> bool:
    return dataset.datums == DATASET.datums


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (lengths_agree, {"loss-input-truncated": ("caught", ("False",)), "spans-lost": ("let through", ())}),
        (
            builds_models,
            {
                "span-of-unknown-kind": ("caught", ("SchemaError",)),
                "text-for-a-list": ("caught", ("SchemaError",)),
                "optional-fields-null": ("passed", ()),
            },
        ),
        (suspicious, {"zeros-negative": ("passed", ()), "datums-reordered": ("cried wolf", ("False",))}),
    ],
)
def test_a_function_is_asked(
    check: Callable[[Dataset], bool | None], expected: dict[str, tuple[str, tuple[str, ...]]]
) -> None:
    report = fuzz(DATASET, against=check, only=expected)
    found = {trial.mutation: (trial.verdict.value, trial.by) for trial in report.trials}
    assert found == expected
    assert report.judge == check.__qualname__


def test_a_function_that_refuses_the_unbroken_data_is_refused() -> None:
    with pytest.raises(provenance.ValidationError, match="the check returns False for the unbroken data"):
        fuzz(DATASET, against=lambda _: False)
    with pytest.raises(provenance.ValidationError, match="the check raises IndexError: pop from"):
        fuzz(DATASET, against=lambda _: [].pop())


def test_assert_caught_shows_the_matrix() -> None:
    report = fuzz(DATASET, against=lengths_agree, only=["spans-lost", "loss-input-truncated"])
    with pytest.raises(
        AssertionError, match=r"(?s)let through  spans-lost .*caught 1 of 2 faults; let through"
    ):
        report.assert_caught()
    report.assert_caught(but=["spans-lost"])
    with pytest.raises(AssertionError, match="no exceptions any more: loss-input-truncated"):
        report.assert_caught(but=["spans-lost", "loss-input-truncated"])
    with pytest.raises(provenance.SchemaError, match="did you mean 'spans-lost'"):
        report.assert_caught(but=["span-lost"])


# Data


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".parquet"])
def test_files_are_read(suffix: str, tmp_path: Path) -> None:
    first, second, sequences = (tmp_path / f"{name}{suffix}" for name in ("a", "b", "s"))
    provenance.write_datums(DATASET.datums[:5], first)
    provenance.write_datums(DATASET.datums[5:], second)
    provenance.write_sequences(DATASET.sequences or (), sequences)
    names = ["first-token-replaced", "line-truncated", "record-lost", "datum-repeated"]
    places = set()
    for seed in (0, 5):
        report = fuzz([first, second], ledger=sequences, session=SESSION, now=NOW, only=names, seed=seed)
        assert report.ok
        assert len(report.names("not applicable")) == ("jsonl" not in suffix)
        by_name = {trial.mutation: trial.place for trial in report.trials}
        edited, added = by_name["first-token-replaced"], by_name["datum-repeated"]
        assert edited is not None
        assert edited.row is not None
        assert edited.line == (edited.row + 1 if "jsonl" in suffix else None)
        places.add(edited.file)
        assert added is not None
        assert (added.file, added.row) == (None, 12)
    assert places == {str(first), str(second)}


def test_a_ledger_may_be_a_database_or_models(tmp_path: Path) -> None:
    models = [SampledSequence.model_validate(record) for record in DATASET.sequences or ()]
    with SqlLedger(tmp_path / "ledger.db") as ledger:
        ledger.record(models)
    datums = [Datum.model_validate(datum) for datum in DATASET.datums]
    names = ["record-lost", "tokenised-again", "stale-by-a-second", "recorded-logprobs-cut"]
    others = {"session": SESSION, "now": NOW, "only": names}
    one = fuzz(datums, ledger=tmp_path / "ledger.db", **others)
    assert one.ok
    assert one.faults == 4
    assert fuzz(datums, ledger=models, **others).trials == one.trials


def test_the_first_datums_are_taken_and_the_records_they_name() -> None:
    seen: list[Dataset] = []
    report = fuzz(DATASET.datums, datums=3, against=seen.append, only=["zeros-negative"], **GIVEN)  # type: ignore[arg-type]
    assert (report.datums, report.more) == (3, True)
    assert seen[0].datums == DATASET.datums[:3]
    named = {span["sequence_id"] for datum in seen[0].datums for span in datum["model_input_spans"]}
    assert {record["sequence_id"] for record in seen[0].sequences or ()} == named
    assert fuzz(DATASET, datums=12, only=["zeros-negative"]).more is False
    assert "the first 3 datums" in report_to_text(report)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"data": 3}, provenance.SchemaError, "cannot break a int: give paths"),
        ({"data": [3]}, provenance.SchemaError, "data\\[0\\] is a int, expected a Datum or a dict"),
        ({"data": []}, provenance.SchemaError, "there is no datum to break"),
        ({"data": DATASET, "session": "s"}, provenance.SchemaError, "session is given, and the dataset says"),
        ({"data": DATASET, "datums": 0}, provenance.SchemaError, "datums is 0, expected an integer of 1"),
        ({"data": DATASET, "timeout": math.nan}, provenance.SchemaError, "timeout is nan, expected a number"),
        ({"data": DATASET, "seed": -1}, provenance.SchemaError, "seed is -1, expected an integer of 0 or"),
        ({"data": DATASET, "only": ["spanslost"]}, provenance.SchemaError, "did you mean 'spans-lost'"),
        ({"data": DATASET, "against": 3}, provenance.SchemaError, "against is 3, expected a function or"),
        ({"data": "missing.jsonl"}, provenance.ReadError, "missing.jsonl: no such file"),
        ({"data": [{}], "now": "today"}, provenance.ContractError, "time 'today' is not RFC 3339"),
    ],
)
def test_misuse_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fuzz(**arguments)


def test_records_that_contradict_each_other_are_refused() -> None:
    conflicting = generate(5, break_="SEQ008").dataset
    with pytest.raises(provenance.LedgerError, match="is recorded with several contents \\(SEQ008\\)"):
        fuzz(conflicting.datums, ledger=conflicting.sequences, session=SESSION)
    records = DATASET.sequences or []
    elsewhere = [{**record, "session_id": other} for record in records for other in ("a", "b")]
    with pytest.raises(provenance.LedgerError, match="in several sessions: give the training session"):
        fuzz(DATASET.datums, ledger=elsewhere)


# The report


def test_the_json_form_keeps_its_schema(whole: FuzzReport) -> None:
    found = whole.to_dict()
    jsonschema.validate(found, documents.schema("fuzz-report"))
    assert json.loads(json.dumps(found)) == found
    assert list(found)[:7] == [
        "ok",
        "faults",
        "caught",
        "let_through",
        "harmless",
        "cried_wolf",
        "no_verdict",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120, None])
def test_the_matrix_fits(width: int | None, whole: FuzzReport) -> None:
    text = report_to_text(whole, width=width)
    assert text.splitlines()[-1].endswith("not applicable")
    assert all(trial.mutation in text for trial in whole.trials)
    if width == 40:  # a verdict and a name are shown whole
        assert max(map(len, text.splitlines())) <= 55
    elif width is not None:
        assert max(map(len, text.splitlines())) <= width
    else:
        (line,) = [line for line in text.splitlines() if " tokenised-again " in line]
        assert line.split()[:6] == ["caught", "tokenised-again", "SEQ003", "SEQ004", "SEQ003", "SEQ004"]
        assert ": target_tokens[" in line


def test_what_data_say_cannot_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m.jsonl"
    DATASET.write(path)
    report = fuzz(path, only=["spans-lost"])
    assert "\x1b" in str(report.trials[0].place)
    assert "\\x1b[31m.jsonl: line " in report_to_text(report)
    assert "\x1b" not in report_to_text(report)


def test_the_outcome_names_what_went_wrong() -> None:
    report = fuzz(DATASET, against=lambda dataset: len(dataset.datums) == 12)
    assert len(report.let_through) > 50
    text = summary(report)
    assert text.startswith("caught 2 of ")
    assert (
        f"let through: {', '.join(report.let_through[:8])} and {len(report.let_through) - 8} more; " in text
    )
    assert "; cried wolf on 0 of 7 harmless changes; " in text


def test_progress_counts_the_mutations() -> None:
    seen: list[tuple[int, int, str]] = []
    fuzz(DATASET, only=HARMLESS[:3], on_progress=lambda *step: seen.append(step))
    assert seen == [(number, 3, name) for number, name in enumerate(HARMLESS[:3])]
