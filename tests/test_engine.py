"""The engine: what is judged, where a fault is, what is counted, and what it takes as data."""

from __future__ import annotations

import copy
import gc
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import provenance
from provenance import (
    Contract,
    ContractError,
    ReadError,
    SchemaError,
    ValidationError,
    Violation,
    check,
    iter_violations,
    validate,
)
from provenance.engine.parts import CheckInParts
from provenance.formats import columns_of
from provenance.loss_spec import LOSSES
from provenance.pipeline import Checker
from provenance.rules import DROP, Case, case
from provenance.testing import assert_valid_dataset

IMAGE = {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1}
NO_SPANS = {"model_input_spans": DROP, "loss_fn_input_spans": DROP}


def run(
    of: Case, data: Any = None, contract: Contract | str | None = None, **changes: Any
) -> provenance.Report:
    circumstances = {
        "ledger": list(of.sequences),
        "session": of.session,
        "now": of.now,
        "loss_config": of.config,
    }
    return check(list(of.datums) if data is None else data, contract or of.loss, **(circumstances | changes))


def places(report: provenance.Report) -> list[tuple[str, int | None, str | None, Any, int | None]]:
    return [(v.code, v.location.row, v.location.field, v.location.index, v.location.length) for v in report]


def floats(*values: float, shape: list[int] | None = None) -> dict[str, Any]:
    return {"data": list(values), "dtype": "float32", "shape": [len(values)] if shape is None else shape}


def ids(*values: int, shape: list[int] | None = None) -> dict[str, Any]:
    return {"data": list(values), "dtype": "int64", "shape": [len(values)] if shape is None else shape}


# Gates


def test_a_datum_that_fails_a_gate_does_not_hide_the_others() -> None:
    faulty = case(
        {
            "datums.0.loss_fn_inputs.logprobs.data.2": 0.25,
            "datums.1.model_input_spans.1.length": 1,
            "datums.1.loss_fn_inputs.logprobs.data.2": 0.25,
            "datums.2.loss_fn_inputs.logprobs.data.2": 0.25,
        },
        copies=3,
    )
    report = run(faulty)
    assert [place[:2] for place in places(report) if place[0] in ("VAL002", "SPN003")] == [
        ("SPN003", 1),
        ("VAL002", 0),
        ("VAL002", 2),
    ]
    assert report.checked["VAL002"] == 10
    assert report.checked["SPN003"] == 3
    assert report.bad_datums == 3


def test_unreadable_datums_do_not_hide_the_others() -> None:
    faulty = case({"datums.0.model_input": DROP, "datums.1.loss_fn_inputs.logprobs.data.2": 0.25}, copies=2)
    report = run(faulty)
    assert [place[:3] for place in places(report) if place[0] != "SEQ006"] == [
        ("FMT004", 0, "model_input"),
        ("VAL002", 1, "logprobs"),
    ]
    assert (report.datums, report.bad_datums) == (2, 2)


SHAPELESS = case({"datums.1.loss_fn_inputs.logprobs": floats(-0.5)}, copies=3)


def test_a_silenced_gate_leaves_its_datums_unchecked() -> None:
    contract = Contract.for_loss("stable_reinforce").ignore(["INP005"])
    report = run(SHAPELESS, contract=contract)
    assert report.valid
    assert not report.counts
    (entry,) = [n for n in report.not_checked if n.code == "INP005"]
    assert "1 datum " in entry.reason
    assert report.checked["VAL001"] == 2 * 15


@pytest.mark.parametrize("severity", ["off", "warning"])
def test_validate_refuses_what_a_softened_gate_kept_from_being_judged(severity: str) -> None:
    contract = Contract.for_loss("stable_reinforce").with_severity({"INP005": severity})
    arguments = {"ledger": list(SHAPELESS.sequences), "session": SHAPELESS.session, "now": SHAPELESS.now}
    with pytest.raises(ValidationError, match="1 of 3 datums could not be judged") as caught:
        validate(SHAPELESS.datums, contract, **arguments)
    assert caught.value.report.datums == 3
    assert len(validate([SHAPELESS.datums[0], SHAPELESS.datums[2]], contract, **arguments)) == 2


def test_one_fault_is_one_violation() -> None:
    # A null logprob is not finite, is no mismatch, and is not positive.
    report = run(case({"loss_fn_inputs.logprobs.data.3": None}))
    assert places(report) == [("VAL001", 0, "logprobs", 3, 1)]


# Places and counts


def test_contiguous_positions_are_one_violation() -> None:
    report = run(case({"loss_fn_inputs.advantages.data": [0.5, 0.5, 1.0, 1.0, 1.0]}))
    assert places(report) == [("ADV001", 0, "advantages", 0, 2)]
    assert report.counts["ADV001"].to_dict() == {"datums": 1, "violations": 1, "elements": 2}
    assert str(next(iter(report)).location) == "row 0: advantages[0:2]"


def test_a_gap_or_the_next_datum_starts_another_violation() -> None:
    changes = {
        "datums.0.loss_fn_inputs.logprobs.data": [0.5, 0.0, 0.5, -0.375, 0.5],
        "datums.1.loss_fn_inputs.logprobs.data": [0.5, 0.5, -0.125, -0.375, -0.625],
    }
    report = run(case(changes, copies=2))
    assert [place for place in places(report) if place[0] == "VAL002"] == [
        ("VAL002", 0, "logprobs", 0, 1),
        ("VAL002", 0, "logprobs", 2, 1),
        ("VAL002", 0, "logprobs", 4, 1),
        ("VAL002", 1, "logprobs", 0, 2),
    ]
    assert report.counts["VAL002"].to_dict() == {"datums": 2, "violations": 4, "elements": 5}


@pytest.mark.parametrize("max_examples", [0, 1, 3, 100])
def test_counts_are_exact_whatever_is_shown(max_examples: int) -> None:
    faulty = case(
        {f"datums.{row}.loss_fn_inputs.logprobs.data": [0.5, 0.0, 0.5, -0.375, -0.625] for row in range(7)},
        copies=7,
    )
    report = run(faulty, max_examples=max_examples)
    assert report.counts["VAL002"].to_dict() == {"datums": 7, "violations": 14, "elements": 14}
    assert len([v for v in report if v.code == "VAL002"]) == min(max_examples, 14)
    assert report.errors == 14
    assert report.bad_datums == 7


def test_the_first_examples_of_a_rule_are_those_of_the_first_datums() -> None:
    changes = {f"datums.{row}.loss_fn_inputs.logprobs.data.0": 0.5 for row in range(5)}
    assert [v.location.row for v in run(case(changes, copies=5), max_examples=3)] == [0, 1, 2]


def test_judged_elements_are_counted() -> None:
    checked = run(case(copies=2)).checked
    expected = {
        "FMT005": 1,
        "FMT004": 2,
        "INP001": 6,
        "INP002": 6,
        "INP003": 6,
        "INP005": 6,
        "INP006": 2,
        "INP007": 2,
        "TOK001": 20,
        "TOK002": 2,
        "TOK003": 0,
        "TOK005": 4,
        "VAL001": 30,
        "VAL002": 10,
        "VAL003": 0,
        "SPN001": 2,
        "SPN003": 2,
        "SPN005": 8,
        "SPN008": 2,
        "SPN009": 8,
        "SPN010": 0,
        "SEQ001": 2,
        "SEQ002": 8,
        "SEQ003": 10,
        "SEQ004": 6,
        "SEQ005": 4,
        "SEQ006": 6,
        "SEQ007": 2,
        "SEQ010": 2,
        "SEQ011": 2,
        "SEQ012": 0,
        "SES001": 2,
        "SES002": 2,
        "ADV001": 10,
        "ADV002": 6,
        "ADV003": 1,
        "ADV005": 2,
    }
    assert {code: checked.get(code, 0) for code in expected} == expected
    assert not [code for code in checked if code.startswith("CFG") and checked[code]]


def test_what_is_not_judged_is_not_counted_as_valid() -> None:
    whole = run(case()).checked
    part = run(case({"loss_fn_inputs.logprobs.data.3": None})).checked
    assert part["VAL001"] == whole["VAL001"]
    assert part["VAL002"] == whole["VAL002"] - 1
    assert part["SEQ006"] == whole["SEQ006"] - 1


def test_bad_datums_counts_errors_once_and_warnings_never() -> None:
    changes = {
        "datums.0.loss_fn_inputs.logprobs.data.0": 0.5,
        "datums.0.loss_fn_inputs.advantages.data.0": 1.0,
        "datums.1.loss_fn_inputs.advantages.data.2": 0.0,
    }
    report = run(case(changes, copies=3))
    assert report.codes() == {"VAL002", "ADV001", "ADV005"}
    assert (report.datums, report.bad_datums, report.good_datums) == (3, 1, 2)
    assert (report.errors, report.warnings) == (2, 1)
    assert {key: [v.code for v in found] for key, found in report.by_datum().items()} == {
        (None, 0): ["ADV001", "VAL002"],
        (None, 1): ["ADV005"],
    }


FAULTY = case(
    {
        "datums.0.loss_fn_inputs.logprobs.data": [0.5, 0.0, 0.5, -0.375, -0.625],
        "datums.1.model_input.chunks.0.tokens.1": 99,
        "datums.2.model_input_spans.1.length": 1,
        "datums.3.loss_fn_inputs.advantages.data.0": 1.0,
        "datums.3.model_input.chunks.1": {"type": "encoded_text", "tokens": []},
        "sequences.3.logprobs": [-0.125, -0.375],
    },
    copies=4,
    config={"kl_coef": 1},
)


def test_iter_violations_gives_what_check_counts() -> None:
    report = run(FAULTY, max_examples=1000)
    found = list(
        iter_violations(
            FAULTY.datums,
            ledger=list(FAULTY.sequences),
            session=FAULTY.session,
            now=FAULTY.now,
            loss_config=FAULTY.config,
        )
    )
    assert Counter(v.code for v in found) == {code: count.violations for code, count in report.counts.items()}
    assert sorted(map(str, found)) == sorted(map(str, report))
    rows = [v.location.row for v in found if v.code[:3] not in ("CFG", "SEQ") and v.location.row is not None]
    assert rows == sorted(rows)


def test_iter_violations_reads_as_it_goes() -> None:
    bad = case({"loss_fn_inputs.logprobs.data.0": 0.5}).datums[0]

    def endless() -> Iterator[Any]:
        while True:
            yield bad

    found = iter_violations(endless())
    assert next(found).code == "VAL002"
    found.close()


def test_violations_of_one_datum_are_made_one_by_one() -> None:
    def alive() -> int:
        return sum(type(each) is Violation for each in gc.get_objects())

    tensor = {"data": [1.0, 0.0] * 1_000, "dtype": "float32", "shape": [2_000]}
    changes = {f"loss_fn_inputs.{name}": tensor for name in ("logprobs", "advantages")}
    tokens = {"data": [7] * 2_000, "dtype": "int64", "shape": [2_000]}
    changes |= {"loss_fn_inputs.target_tokens": tokens, "model_input.chunks.0.tokens": [7] * 2_000} | NO_SPANS
    datum = case(changes).datums[0]
    found = iter_violations([datum], Contract.for_loss("importance_sampling").select(["VAL002"]))
    before = alive()
    assert next(found).code == "VAL002"
    assert alive() - before < 10
    assert len(list(found)) == 999


def test_the_report_is_json() -> None:
    report = run(FAULTY)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["valid"] is False
    assert plain["bad_datums"] == report.bad_datums
    assert len(plain["violations"]) == len(report.violations)
    assert plain["counts"]["VAL002"] == {"datums": 1, "violations": 2, "elements": 2}
    assert plain["contract"]["loss"] == "stable_reinforce"


# What is not checked


def test_what_is_missing_is_named_as_not_checked() -> None:
    report = check(list(case().datums), now=case().now)
    reasons = {n.code: n.reason for n in report.not_checked}
    ledger = {code for code in report.severities if code[:3] in ("SEQ", "SES")} - {"SEQ010"} | {"ADV002"}
    assert {
        code for code, reason in reasons.items() if reason == "no ledger of sampled sequences given"
    } == ledger
    assert reasons["INP009"] == "no max_tokens given"
    assert reasons["TOK001"] == "the upper bound of a token id: no vocab_size given"
    assert reasons["SPN008"].startswith("that a sampled span reaches the end of its sequence: ")
    assert set(reasons) == ledger | {"INP009", "TOK001", "SPN008"}
    assert not [code for code in ledger if report.checked.get(code)]
    assert report.checked["SPN008"] == 1


def test_a_missing_session_is_named() -> None:
    report = run(case(), session=None)
    assert {n.code: n.reason for n in report.not_checked}["SES001"] == "no training session given"
    assert not report.checked.get("SES001")
    assert report.checked["SES002"] == 1


def test_with_everything_given_nothing_is_left_unchecked() -> None:
    parameters = {"vocab_size": 100, "max_tokens": 100, "learner_version": 5, "max_policy_lag": 1}
    report = run(case(), contract=Contract.for_loss("stable_reinforce").with_parameters(**parameters))
    assert not report.not_checked
    assert not report.counts


def test_rules_that_are_off_are_not_listed() -> None:
    report = check(list(case().datums), Contract.for_loss("stable_reinforce").select(["VAL"]))
    assert not report.not_checked
    assert {
        code for code, judged in report.checked.items() if judged and code.startswith(("SEQ", "ADV", "SES"))
    } == set()
    assert set(report.severities) == {"VAL001", "VAL002", "VAL003"}


# Data of every kind


def as_lines(datums: Any) -> str:
    return "".join(json.dumps(datum) + "\n" for datum in datums)


def test_patterns_and_several_files(tmp_path: Path) -> None:
    valid = case(copies=4)
    bad = copy.deepcopy(valid.datums[3])
    bad["loss_fn_inputs"]["logprobs"]["data"][0] = 0.5
    (tmp_path / "part-1.jsonl").write_text("\n" + as_lines(valid.datums[:2]), encoding="utf-8")
    (tmp_path / "part-2.jsonl.gz").write_bytes(gzip.compress(as_lines([valid.datums[2]]).encode()))
    provenance.write_datums([bad], tmp_path / "part-3.parquet")
    (tmp_path / "other.jsonl").write_text("not json\n", encoding="utf-8")
    expected = [(str(tmp_path / "part-3.parquet"), 0)]
    for data in (
        str(tmp_path / "part-*"),
        [tmp_path / "part-1.jsonl", str(tmp_path / "part-2*"), tmp_path / "part-3.parquet"],
        str(tmp_path / "**" / "part-*"),
    ):
        report = run(valid, data)
        assert report.datums == 4
        assert [(v.location.file, v.location.row) for v in report] == expected


def test_a_name_with_brackets_is_a_name_before_it_is_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "part[1].jsonl").write_text(as_lines(case().datums), encoding="utf-8")
    assert run(case(), tmp_path / "part[1].jsonl").datums == 1


def test_rows_and_lines_start_anew_in_each_file(tmp_path: Path) -> None:
    bad = case({f"datums.{row}.loss_fn_inputs.logprobs.data.0": 0.5 for row in (0, 1)}, copies=2)
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("\n" + as_lines(bad.datums), encoding="utf-8")
    report = run(bad, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    found = [
        (Path(v.location.file or "").name, v.location.row, v.location.line)
        for v in report
        if v.code == "VAL002"
    ]
    assert found == [("a.jsonl", 0, 2), ("a.jsonl", 1, 3), ("b.jsonl", 0, 2), ("b.jsonl", 1, 3)]
    repeated = [(Path(v.location.file or "").name, v.location.row) for v in report if v.code == "SEQ010"]
    assert repeated == [("b.jsonl", 0), ("b.jsonl", 1)]


@pytest.mark.parametrize("content", ["", "\n \n"], ids=["empty", "blank"])
def test_an_empty_dataset_is_an_error_unless_allowed(content: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(content, encoding="utf-8")
    for data in (path, [], iter(())):
        report = check(data)
        assert places(report) == [("FMT005", None, None, None, None)]
        assert not report.valid
    for data in (path, [], iter(())):
        report = check(data, allow_empty=True)
        assert report.valid
        assert report.datums == 0


def test_one_empty_file_among_others_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(as_lines(case().datums), encoding="utf-8")
    assert not run(case(), str(tmp_path / "*.jsonl")).counts


def test_an_empty_arrow_file_is_an_empty_dataset(tmp_path: Path) -> None:
    for suffix in (".parquet", ".arrow", ".arrows"):
        provenance.write_datums([], tmp_path / f"empty{suffix}")
        assert set(check(tmp_path / f"empty{suffix}").counts) == {"FMT005"}


@pytest.mark.parametrize(
    "now",
    [
        "2026-01-03T10:00:00Z",
        "2026-01-03t10:00:00z",
        "2026-01-03 10:00:00Z",
        "2026-01-03T10:00:00.000Z",
        "2026-01-03T12:00:00+02:00",
        "2026-01-03T04:30:00-05:30",
        datetime(2026, 1, 3, 10, tzinfo=UTC),
        datetime(2026, 1, 3, 12, tzinfo=timezone(timedelta(hours=2))),
    ],
    ids=str,
)
def test_now_in_every_form(now: Any) -> None:
    report = run(case(), now=now)
    assert report.now == "2026-01-03T10:00:00Z"
    # Exactly a day after the last use: valid, with nothing left.
    assert set(report.counts) == {"SES003"}


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        ("2026-01-03T10:00:00", "RFC 3339"),
        ("2026-01-03", "RFC 3339"),
        ("yesterday", "RFC 3339"),
        ("", "RFC 3339"),
        ("2026-02-30T10:00:00Z", "does not exist"),
        ("2026-01-03T25:00:00Z", "does not exist"),
        (datetime(2026, 1, 3, 10), "no offset"),  # noqa: DTZ001 - that it is naive is the point
    ],
    ids=str,
)
def test_a_time_that_is_none_is_refused(now: Any, problem: str) -> None:
    with pytest.raises(ContractError, match=problem):
        check([], now=now)


@pytest.mark.parametrize("value", [-1, None, "a", 2.5, True], ids=repr)
def test_a_number_of_examples_that_is_none_is_refused(value: Any) -> None:
    checks = (
        lambda: check([], max_examples=value),
        lambda: assert_valid_dataset([], max_examples=value),
        lambda: Checker(max_examples=value),
        lambda: CheckInParts(ledger=False, max_examples=value),
    )
    for each in checks:
        problem = f"^max_examples is {re.escape(repr(value))}, expected an integer of 0 or more$"
        with pytest.raises(ContractError, match=problem):
            each()


def test_without_now_the_clock_is_asked() -> None:
    before = datetime.now(UTC)
    report = check([], allow_empty=True)
    assert before <= datetime.fromisoformat(report.now) <= datetime.now(UTC)


@pytest.mark.parametrize(
    "data", [5, None, b"datums.jsonl", object(), 2.5], ids=lambda data: type(data).__name__
)
def test_data_that_are_none_are_refused(data: Any) -> None:
    with pytest.raises(SchemaError, match=f"cannot check a {type(data).__name__}"):
        check(data)


@pytest.mark.parametrize("ledger", [5, b"x", {"sequence_id": "a"}, 1.5], ids=repr)
def test_ledgers_that_are_none_are_refused(ledger: Any) -> None:
    with pytest.raises(SchemaError, match=f"cannot use a {type(ledger).__name__} as a ledger"):
        check([], ledger=ledger)


@pytest.mark.parametrize("name", ["missing.jsonl", "nothing-*.jsonl", "datums.csv", "missing.parquet", "."])
def test_files_that_cannot_be_read_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=name.replace("*", r"\*").replace(".", r"\.")):
        check(str(tmp_path / name) if name != "." else ".")
    with pytest.raises(ReadError):
        check([], ledger=tmp_path / name)


@pytest.mark.parametrize("content", [b"PAR1 and no more", b"", b"\x00" * 100], ids=["cut", "empty", "zeros"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_containers_that_are_broken_are_refused(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(content)
    with pytest.raises(ReadError, match="broken"):
        check(path)


def test_a_line_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(as_lines(case().datums), encoding="utf-8")
    size = path.stat().st_size - 1
    assert run(case(), path, max_line=size).datums == 1
    with pytest.raises(ReadError, match=r"long\.jsonl"):
        run(case(), path, max_line=size - 1)


@pytest.mark.parametrize("datum", [1, "text", None, [1, 2]], ids=repr)
def test_what_is_no_datum_is_a_fault_of_its_row(datum: Any) -> None:
    report = run(case(), [case().datums[0], datum])
    assert [place[:2] for place in places(report)] == [("FMT004", 1)]
    assert report.datums == 2


def test_one_datum_alone_and_generators() -> None:
    (datum,) = case().datums
    for data in (
        datum,
        provenance.Datum.model_validate(datum),
        (d for d in [datum]),
        (datum,),
        columns_of([datum]),
    ):
        report = run(case(), data)
        assert report.datums == 1
        assert not report.counts


def table_of(datums: Any, folder: Path) -> pa.Table:
    provenance.write_datums(datums, folder / "table.parquet")
    return pq.read_table(folder / "table.parquet")


def test_arrow_tables_and_batches(tmp_path: Path) -> None:
    bad = case({"datums.2.loss_fn_inputs.logprobs.data.0": 0.5}, copies=4)
    table = table_of(bad.datums, tmp_path)
    for data in (
        table,
        table.to_batches(max_chunksize=3),
        table.to_batches(max_chunksize=3)[0],
        [table.slice(0, 1), *table.slice(1).to_batches(), bad.datums[3]],
        pa.concat_tables([table.slice(i, 1) for i in range(4)]),
    ):
        report = run(bad, data)
        assert [place for place in places(report) if place[0] == "VAL002"] == [
            ("VAL002", 2, "logprobs", 0, 1)
        ]


def test_mixed_data_number_their_rows_on(tmp_path: Path) -> None:
    bad = case({f"datums.{row}.loss_fn_inputs.logprobs.data.0": 0.5 for row in range(6)}, copies=6)
    datums = bad.datums
    table = table_of(datums[2:4], tmp_path)
    report = run(bad, [datums[0], provenance.Datum.model_validate(datums[1]), table, datums[4], datums[5]])
    assert [v.location.row for v in report if v.code == "VAL002"] == [0, 1, 2, 3, 4, 5]
    assert report.datums == 6


def test_many_datums_are_numbered_across_batches() -> None:
    valid, bad = case().datums[0], case({"loss_fn_inputs.logprobs.data.0": 0.5}).datums[0]
    data = [bad if row in (5, 1023, 1024, 2100) else valid for row in range(2500)]
    report = run(case(), data)
    assert [v.location.row for v in report if v.code == "VAL002"] == [5, 1023, 1024, 2100]
    assert report.datums == 2500
    # Every datum but the first trains on a sequence that an earlier one trained on.
    assert report.counts["SEQ010"].datums == 2499
    assert report.counts["VAL002"].datums == 4


# Ledgers


def sequence_in(session: str, **changes: Any) -> dict[str, Any]:
    return {**case().sequences[0], "session_id": session, **changes}


def test_an_id_of_several_sessions_is_that_of_the_training_session() -> None:
    other = sequence_in("session-2", tokens=[7, 7, 7])
    for ledger in ([sequence_in("session-1"), other], [other, sequence_in("session-1")]):
        assert not run(case(), ledger=ledger).counts
        wrong = run(case(), ledger=ledger, session="session-2")
        assert wrong.codes() == {"SEQ003", "SEQ004"}


def test_an_id_of_one_other_session_is_looked_at_and_named() -> None:
    report = run(case({"model_input.chunks.0.tokens.0": 99}), session="session-9")
    assert report.codes() == {"SES001", "SEQ003"}
    (violation,) = [v for v in report if v.code == "SES001"]
    assert violation.message == "'s:1' belongs to session 'session-1', training session is 'session-9'"


@pytest.mark.parametrize("session", [None, "session-9"])
def test_an_ambiguous_id_is_compared_with_nothing(session: str | None) -> None:
    ledger = [sequence_in("session-1"), sequence_in("session-2", tokens=[7, 7, 7])]
    report = run(case(), ledger=ledger, session=session)
    assert report.codes() == (set() if session is None else {"SES001"})
    assert [
        report.checked[code] for code in ("SEQ002", "SEQ003", "SEQ004", "SEQ006", "SES002", "ADV002")
    ] == [0] * 6
    assert report.checked["SEQ001"] == 1


def test_records_of_sequences_that_nobody_names_are_not_judged() -> None:
    stray = sequence_in("session-1", sequence_id="s:stray", logprobs=[0.5])
    report = run(case(), ledger=[*case().sequences, stray])
    assert not report.counts
    assert report.checked["SEQ007"] == 1


@pytest.mark.parametrize(
    "change", [{"session_id": 5}, {"tokens": "abc"}, {"sampled_at": "2026-01-02T10:00:00"}], ids=repr
)
def test_faults_of_a_ledger_are_found(change: dict[str, Any], tmp_path: Path) -> None:
    ledger = [sequence_in("session-1"), sequence_in("session-1", **({"sequence_id": "s:2"} | change))]
    (violation,) = run(case(), ledger=ledger)
    assert violation.code == "FMT004"
    assert violation.location.row == 1
    path = tmp_path / "sequences.jsonl"
    path.write_text(as_lines(ledger), encoding="utf-8")
    report = run(case(), ledger=path)
    (violation,) = report
    assert (violation.code, violation.location.file, violation.location.line) == ("FMT004", str(path), 2)
    assert report.bad_datums == 0
    assert not report.valid


def test_a_ledger_in_every_form(tmp_path: Path) -> None:
    plain = [*case().sequences, sequence_in("session-1", sequence_id="s:sibling")]
    models = [provenance.SampledSequence.model_validate(s) for s in plain]
    paths = [tmp_path / f"sequences{suffix}" for suffix in (".jsonl", ".jsonl.zst", ".parquet", ".arrow")]
    for path in paths:
        provenance.write_sequences(plain, path)
    for ledger in (
        plain,
        models,
        iter(plain),
        provenance.MemoryLedger(models),
        *paths,
        [paths[0], str(paths[2])],
    ):
        report = run(case(), ledger=ledger)
        assert not report.counts
        assert report.checked["SEQ004"] == 3


# Losses


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_takes_its_inputs_and_no_others(loss: str) -> None:
    spec, valid = LOSSES[loss], case(loss=loss)
    report = run(valid)
    assert report.valid, [str(v) for v in report]
    assert not report.warnings
    for name in spec.required:
        without = case({f"loss_fn_inputs.{name}": DROP}, loss=loss)
        assert [place[:3] for place in places(run(without))] == [("INP001", 0, name)]
    for name in spec.optional:
        assert not run(case({f"loss_fn_inputs.{name}": floats(*[1.0] * 5)}, loss=loss)).counts
    stray = run(case({"loss_fn_inputs.mask": floats(*[1.0] * 5)}, loss=loss))
    assert places(stray) == ([("INP002", 0, "mask", None, None)] if spec.declared else [])


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_knows_its_options(loss: str) -> None:
    values = {
        "kl_coeff": 0.0,
        "clip_low_threshold": 0.8,
        "clip_high_threshold": 1.2,
        "beta": 0.1,
        "loss_id": "mine",
    }
    known = LOSSES[loss].config
    assert not run(case(loss=loss), loss_config={key: values[key] for key in known}).counts
    unknown = run(case(loss=loss), loss_config={key: values[key] for key in values if key not in known})
    assert {v.location.field for v in unknown if v.code == "CFG002"} == set(values) - set(known)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "stable_reinforce"])
def test_other_losses_take_datums_without_spans(loss: str) -> None:
    report = run(case(NO_SPANS, loss=loss))
    assert not report.counts
    mixed = case(
        {"datums.0.model_input_spans": DROP, "datums.0.loss_fn_input_spans": DROP}, loss=loss, copies=2
    )
    report = run(mixed)
    assert not report.counts
    if loss != "custom":
        assert report.checked["SEQ003"] == 5
        assert report.checked["SEQ001"] == 1


def test_stable_reinforce_needs_spans() -> None:
    assert places(run(case(NO_SPANS))) == [("SPN002", 0, "loss_fn_input_spans", None, None)]


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo", "dro", "gspo"])
def test_spans_are_judged_under_other_losses_too(loss: str) -> None:
    report = run(
        case({"loss_fn_inputs.target_tokens.data.4": 99, "loss_fn_inputs.advantages.data.0": 0.5}, loss=loss)
    )
    assert set(report.counts) == {"SEQ004"}


def test_wide_targets_have_pairs_as_indices() -> None:
    changes = {
        "loss_fn_inputs.target_tokens": ids(*[12, 0, 13, 0, 21, 9, 22, -7, 2, 0], shape=[5, 2]),
        "loss_fn_inputs.weights": floats(*[0.0] * 4, 1.0, 0.5, 1.0, float("nan"), 1.0, 0.0, shape=[5, 2]),
    }
    report = run(case(changes, loss="cross_entropy"))
    assert places(report) == [
        ("TOK001", 0, "target_tokens", (3, 1), 1),
        ("VAL001", 0, "weights", (3, 1), 1),
    ]
    for code in ("SEQ004", "SEQ005", "TOK005", "TOK006"):
        assert not report.checked.get(code), code
    assert report.checked["VAL001"] == 20


def csr(rows: list[dict[int, float]], width: int, dtype: str) -> dict[str, Any]:
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    return {
        "data": [row[k] for row in rows for k in sorted(row)],
        "dtype": dtype,
        "shape": [len(rows), width],
        "sparse_crow_indices": starts,
        "sparse_col_indices": [k for row in rows for k in sorted(row)],
    }


def test_sparse_tensors_are_placed_where_their_values_are() -> None:
    nan = float("nan")
    changes = {
        "loss_fn_inputs.target_tokens": csr([{0: 12}, {0: 13}, {0: 21, 2: 9}, {1: -7}, {0: 2}], 3, "int64"),
        "loss_fn_inputs.weights": csr([{}, {}, {0: 1.0, 2: 0.5}, {1: 1.0}, {0: nan}], 3, "float32"),
    }
    report = run(case(changes, loss="cross_entropy"))
    assert places(report) == [
        ("TOK001", 0, "target_tokens", (3, 1), 1),
        ("VAL001", 0, "weights", (4, 0), 1),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"sparse_col_indices": [0, 0, 0, 3, 1, 0]},
        {"sparse_crow_indices": [0, 1, 2, 4, 5]},
        {"sparse_col_indices": None},
        {"shape": [5]},
        {"data": [12, 13, 21]},
    ],
    ids=repr,
)
def test_broken_sparse_tensors_have_the_wrong_rank(change: dict[str, Any]) -> None:
    tensor = csr([{0: 12}, {0: 13}, {0: 21, 2: 9}, {1: 7}, {0: 2}], 3, "int64") | change
    report = run(case({"loss_fn_inputs.target_tokens": tensor, **NO_SPANS}, loss="cross_entropy"))
    assert places(report) == [("INP004", 0, "target_tokens", None, None)]


SEEN = {
    "model_input.chunks": [
        {"type": "encoded_text", "tokens": [11]},
        IMAGE,
        {"type": "encoded_text", "tokens": [13, 21, 22]},
    ],
    "loss_fn_inputs.target_tokens.data.0": 0,
    "sequences.0.prompt_tokens.1": -1,
}


def test_images_take_positions() -> None:
    report = run(case(SEEN))
    assert not report.counts
    # The image has no id to judge and no target to compare.
    assert report.checked["TOK001"] == 4 + 5
    assert report.checked["SEQ005"] == 1
    wrong = run(case({**SEEN, "model_input.chunks.2.tokens.0": 99}))
    assert ("SEQ003", 0, "model_input", 2, 1) in places(wrong)


def test_an_image_where_the_record_has_text_is_a_mismatch() -> None:
    report = run(case({**SEEN, "sequences.0.prompt_tokens.1": 12}))
    assert ("SEQ003", 0, "model_input", 1, 1) in places(report)


def test_an_image_of_several_positions() -> None:
    seen = {
        **SEEN,
        "model_input.chunks.1": {**IMAGE, "expected_tokens": 3},
        "model_input_spans.0.length": 5,
        "loss_fn_input_spans.0.length": 4,
        "loss_fn_inputs.target_tokens": ids(0, 0, 0, 13, 21, 22, 2),
        "loss_fn_inputs.logprobs": floats(0.0, 0.0, 0.0, 0.0, -0.125, -0.375, -0.625),
        "loss_fn_inputs.advantages": floats(0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0),
        "sequences.0.prompt_tokens": [11, -1, -1, -1, 13],
    }
    report = run(case(seen))
    assert not report.counts, [str(v) for v in report]
    assert report.positions == 7


IMAGE = {"type": "image", "format": "png", "data": "iVBORw0KGgo="}


def unmeasured(chunks: list[dict[str, Any]], rows: int = 8, **inputs: Any) -> provenance.Report:
    """The report on a datum of images of unknown length among text, without spans."""
    values = {
        "target_tokens": {"data": [0] * rows, "dtype": "int64", "shape": [rows]},
        "weights": {"data": [1.0] * rows, "dtype": "float32", "shape": [rows]},
    }
    return check([{"model_input": {"chunks": chunks}, "loss_fn_inputs": values | inputs}], "cross_entropy")


def test_an_image_of_unknown_length_has_the_room_that_the_targets_leave() -> None:
    text = {"type": "encoded_text", "tokens": [0, 0, -7]}
    found = unmeasured([text, IMAGE, text])
    assert [(v.code, v.location.index) for v in found] == [("TOK001", 2), ("TOK001", 7)]
    assert found.positions == 8
    # Which text stands behind which target is not known well enough to hold them against each other.
    one = {"type": "encoded_text", "tokens": [1]}
    assert not unmeasured([one, IMAGE, one]).codes()
    assert unmeasured([text, IMAGE], rows=2).codes() == {"INP005"}
    short = {"data": [1.0] * 5, "dtype": "float32", "shape": [5]}
    assert [(v.code, v.location.field) for v in unmeasured([IMAGE], weights=short)] == [("INP005", "weights")]


def test_a_shape_without_values_makes_no_room() -> None:
    claims = {"data": [], "dtype": "int64", "shape": [10**12, 0]}
    found = unmeasured([IMAGE], target_tokens=claims)
    assert found.positions < 100
    assert not found.valid


def test_an_image_of_unknown_length_is_no_batch_yet() -> None:
    unknown = {**NO_SPANS, "model_input.chunks.1": {"type": "image", "format": "png", "data": "iVBORw0KGgo="}}
    report = run(case(unknown, loss="importance_sampling"))
    assert report.valid
    assert (
        "1 datum with an image without expected_tokens"
        in {n.code: n.reason for n in report.not_checked}["INP005"]
    )
    with pytest.raises(ValidationError, match=r"1 of 1 datums have an image of unknown length"):
        validate(
            list(case(unknown, loss="importance_sampling").datums),
            "importance_sampling",
            ledger=[],
            session="s",
        )


@pytest.mark.parametrize(
    "absent", [None, DROP, {"data": None, "dtype": "float32"}], ids=["null", "none", "null data"]
)
def test_absent_inputs_are_missing_in_their_datum_alone(absent: Any) -> None:
    report = run(case({"datums.1.loss_fn_inputs.logprobs": absent}, copies=3))
    assert [place[:3] for place in places(report)] == [("INP001", 1, "logprobs")]
    assert report.checked["VAL002"] == 10


def test_an_optional_input_of_some_datums() -> None:
    some = case(
        {"datums.1.loss_fn_inputs.clip_low_threshold": floats(*[0.8] * 4, float("nan"))}, loss="ppo", copies=3
    )
    assert places(run(some)) == [("VAL001", 1, "clip_low_threshold", 4, 1)]


# Custom losses

CUSTOM = Contract.for_loss(
    "custom", inputs={"target_tokens": 1, "bonus": 0, "table": {"rank": 2}, "kinds": {"dtype": "int64"}}
)
CUSTOM_INPUTS = {
    "loss_fn_inputs": {
        "target_tokens": ids(12, 13, 21, 22, 2),
        "bonus": floats(0.5, shape=[]),
        "table": floats(*[0.5] * 10, shape=[5, 2]),
        "kinds": ids(0, 1, 2, 3, 4),
    }
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"loss_fn_inputs.bonus": DROP}, [("INP001", 0, "bonus", None, None)]),
        ({"loss_fn_inputs.bonus": floats(0.5)}, [("INP004", 0, "bonus", None, None)]),
        ({"loss_fn_inputs.table.shape": [2, 5]}, [("INP005", 0, "table", None, None)]),
        ({"loss_fn_inputs.table": floats(*[0.5] * 5)}, [("INP004", 0, "table", None, None)]),
        ({"loss_fn_inputs.kinds": floats(*[1.0] * 5)}, [("INP003", 0, "kinds", None, None)]),
        ({"loss_fn_inputs.bonus.data": [float("inf")]}, [("VAL001", 0, "bonus", 0, 1)]),
        ({"loss_fn_inputs.table.data.3": float("inf")}, [("VAL001", 0, "table", (1, 1), 1)]),
        ({"loss_fn_inputs.logprobs": floats(*[0.0] * 5)}, [("INP002", 0, "logprobs", None, None)]),
        ({"loss_fn_inputs.target_tokens.data.0": -100}, []),
    ],
    ids=lambda value: next(iter(value), "valid") if isinstance(value, dict) else None,
)
def test_a_declared_custom_loss(changes: dict[str, Any], expected: list[Any]) -> None:
    custom = case({**NO_SPANS, **CUSTOM_INPUTS, **changes}, loss="custom")
    assert places(run(custom, contract=CUSTOM)) == expected


def test_an_undeclared_custom_loss_takes_anything_finite() -> None:
    custom = case({**NO_SPANS, **CUSTOM_INPUTS}, loss="custom")
    assert not run(custom).counts
    broken = case({**NO_SPANS, **CUSTOM_INPUTS, "loss_fn_inputs.table.data.3": float("nan")}, loss="custom")
    assert places(run(broken)) == [("VAL001", 0, "table", (1, 1), 1)]


# Progress


def test_progress_rises_to_the_size_of_all_files(tmp_path: Path) -> None:
    many = case({f"datums.{row}.loss_fn_inputs.logprobs.data.0": 0.5 for row in range(0, 60, 7)}, copies=60)
    provenance.write_datums(many.datums[:20], tmp_path / "1.jsonl")
    provenance.write_datums(many.datums[20:40], tmp_path / "2.parquet")
    provenance.write_datums(many.datums[40:], tmp_path / "3.jsonl.gz")
    provenance.write_sequences(many.sequences, tmp_path / "sequences.jsonl")
    seen: list[provenance.Progress] = []
    report = run(
        many, str(tmp_path / "[1-3].*"), ledger=tmp_path / "sequences.jsonl", on_progress=seen.append
    )
    assert len(seen) >= 3
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert {progress.bytes_total for progress in seen} == {total}
    for before, after in itertools.pairwise(seen):
        assert before.bytes_read <= after.bytes_read
        assert before.datums <= after.datums
        assert before.violations <= after.violations
    assert seen[-1].bytes_read == total
    assert (seen[-1].datums, seen[-1].violations) == (60, report.errors + report.warnings)


def test_progress_of_objects_has_no_size() -> None:
    seen: list[provenance.Progress] = []
    run(case(), on_progress=seen.append)
    assert [(p.bytes_read, p.bytes_total, p.datums) for p in seen] == [(0, None, 1)]
