"""Datums that nothing vouches for: no one takes them for good, and what was not compared is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import provenance
from provenance.pipeline import CheckedStream, Checker
from provenance.rules import case

NOW = "2026-01-02T12:00:00Z"
CASE = case(copies=2)
RECORD, OTHER = CASE.sequences
SESSION = RECORD["session_id"]
CONFLICTING = [RECORD, {**RECORD, "tokens": [*RECORD["tokens"][:-1], 77]}, OTHER]
INCONSISTENT = [{**RECORD, "logprobs": RECORD["logprobs"][:1]}, OTHER]
TWO_SESSIONS = [RECORD, {**RECORD, "session_id": "t"}]
#: The first and the last name a record that may be broken; the one between them another, sound one.
DATUMS = [*CASE.datums, CASE.datums[0]]


@pytest.mark.parametrize(("code", "records"), [("SEQ008", CONFLICTING), ("SEQ007", INCONSISTENT)])
def test_a_datum_whose_record_is_broken_is_not_good(
    code: str, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"ledger": records, "session": SESSION, "now": NOW}
    report = provenance.check(DATUMS, **options)
    assert report.codes("error") == {code}
    assert (report.bad_datums, report.counts[code].violations, report.counts[code].datums) == (2, 1, 0)
    assert report.by_datum().keys() == {(None, 2)}  # SEQ010, of the datum itself
    assert str(report.violations[0]).startswith("ledger: row ")
    checker = Checker("stable_reinforce", **options)
    assert checker.mask(DATUMS).tolist() == [False, True, False]
    # Whichever batch names the record first.
    assert [row for datum in DATUMS for row in checker.mask([datum]).tolist()] == [False, True, False]
    for at_once in (1, 3):
        stream = CheckedStream(iter(DATUMS), checker, on_error="skip", at_once=at_once)
        assert list(stream) == [DATUMS[1]]
        assert stream.report.bad_datums == 2

    path, good, bad = tmp_path / "a.jsonl", tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    path.write_text("".join(json.dumps(datum) + "\n" for datum in DATUMS))
    report = provenance.check(path, write_good=good, write_bad=bad, **options)
    assert report.files[str(path)].bad_datums == report.bad_datums == 2
    assert [json.loads(line) for line in good.read_text().splitlines()] == [DATUMS[1]]
    noted = [json.loads(line)["provenance"] for line in bad.read_text().splitlines()]
    assert [(note["row"], note["codes"]) for note in noted] == [(0, [code]), (2, [code])]
    (message,) = noted[1]["violations"]
    assert message.endswith(f"the record of {RECORD['sequence_id']!r}")


def test_where_the_rule_is_a_warning_its_datums_are_good() -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_severity({"SEQ008": "warning"})
    report = provenance.check(DATUMS, contract, ledger=CONFLICTING, session=SESSION, now=NOW)
    assert (report.valid, report.bad_datums, report.warnings) == (True, 0, 2)  # and SEQ010


@pytest.mark.parametrize(
    ("rule", "severity", "records", "session", "reason"),
    [
        ("SEQ001", "off", [], SESSION, "ids that the ledger does not hold"),
        ("SEQ001", "warning", [], SESSION, "ids that the ledger does not hold"),
        ("SEQ008", "off", CONFLICTING, SESSION, "ids whose records conflict"),
        ("SES001", "off", TWO_SESSIONS, "resumed", "ids that several other sessions have"),
        ("SES001", "warning", TWO_SESSIONS, "resumed", "ids that several other sessions have"),
    ],
)
def test_what_could_not_be_compared_is_said(
    rule: str, severity: str, records: list[dict[str, Any]], session: str, reason: str
) -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_severity({rule: severity})
    report = provenance.check([DATUMS[0]], contract, ledger=records, session=session, now=NOW)
    assert report.valid
    said = [entry.reason for entry in report.not_checked if entry.code == "SEQ002"]
    assert said == [f"{reason}, where {rule} is no error in this contract"]
    # Where it is an error that is what is reported.
    broken = provenance.check([DATUMS[0]], ledger=records, session=session, now=NOW)
    assert rule in broken.codes("error")
    assert "SEQ002" not in {entry.code for entry in broken.not_checked}


def test_gates_that_the_contract_leaves_out_are_not_among_the_checked_rules() -> None:
    report = provenance.check(
        CASE.datums, provenance.Contract.for_loss("stable_reinforce").select(["VAL002"])
    )
    assert set(report.checked) == {"VAL002"}
