"""JUnit XML: a case for each rule and file, and what it says of what was not judged."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from _machine import checked, reports, silenced
from hypothesis import given, settings
from test_report_files import write
from test_reports import broken, report, violation

from provenance.report import Count, FileCount, Report, Severity
from provenance.reports.junit import report_to_junit
from provenance.reports.text import escape
from provenance.rules import registry

ERROR, WARNING = Severity.ERROR, Severity.WARNING
MANY = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of which one is sound, and the others are not."""
    return write(tmp_path_factory.mktemp("files"), ".jsonl")


@pytest.fixture(scope="module")
def found(paths: list[str]) -> Report:
    return checked(paths)


def cases_of(xml: str) -> dict[tuple[str, str], ET.Element]:
    """The cases by name of the suite and code."""
    suites = ET.fromstring(xml).iter("testsuite")
    return {(s.attrib["name"], c.attrib["name"][:6]): c for s in suites for c in s.iter("testcase")}


def outcome(case: ET.Element) -> str:
    return next((child.tag for child in case if child.tag != "system-out"), "passed")


def test_junit_has_a_case_for_each_rule_and_file(found: Report, paths: list[str]) -> None:
    cases = cases_of(report_to_junit(found))
    assert {suite for suite, _ in cases} == {"dataset", *found.files}
    whole = {"ADV003", "CFG001", "CFG002", "FMT005", "SEQ007", "SEQ008"}
    for suite in ("dataset", *found.files):
        expected = whole if suite == "dataset" else set(found.severities) - whole
        assert {code for name, code in cases if name == suite} == expected
    failed = {key for key, case in cases.items() if outcome(case) == "failure"}
    faulty, unreadable, shapeless = paths[1:4]
    assert failed == {(faulty, "VAL001"), (faulty, "VAL002"), (unreadable, "FMT001"), (shapeless, "INP005")}
    failure = cases[faulty, "VAL002"][0]
    words = "4 violations in 2 datums, 6 elements: A logprob is above 0, which no probability has."
    assert failure.attrib == {"type": "error", "message": words}
    assert failure.text is not None
    assert failure.text.split("\n") == [
        *(escape(str(v)) for v in found if v.code == "VAL002"),
        " ".join(registry()["VAL002"].doc.partition("\n")[2].split()),
        "More: provenance explain VAL002",
    ]


def test_junit_skips_what_was_not_judged(found: Report, paths: list[str]) -> None:
    cases = cases_of(report_to_junit(found))
    sound, shapeless = paths[0], paths[3]
    assert outcome(cases[sound, "VAL001"]) == "passed"
    assert outcome(cases[shapeless, "INP001"]) == "passed"
    for skipped, reason in (
        (cases[sound, "INP009"], "no max_tokens given"),
        (cases[shapeless, "VAL001"], "there is nothing here that it judges"),
        (cases["dataset", "CFG001"], "there is nothing here that it judges"),
    ):
        assert outcome(skipped) == "skipped"
        assert skipped[0].attrib == {"message": reason}
    assert "no vocab_size given" in (cases[sound, "TOK001"].findtext("system-out") or "")
    assert outcome(cases[sound, "TOK001"]) == "passed"


def test_junit_skips_what_rules_that_are_off_kept_from_the_others(paths: list[str]) -> None:
    cases = cases_of(report_to_junit(silenced(paths)))
    assert {code for suite, code in cases if suite == "dataset"} == {"FMT001", "INP005"}
    skipped = cases["dataset", "INP005"][0]
    reason = "no error in this contract; 3 datums without a shape that other rules could look at"
    assert (skipped.tag, skipped.attrib) == ("skipped", {"message": reason})
    assert {code for suite, code in cases if suite in paths} == {"VAL001"}


def test_junit_fails_for_warnings_on_request_only(found: Report, paths: list[str]) -> None:
    faulty = (paths[1], "SEQ010")
    passed = cases_of(report_to_junit(found))[faulty]
    assert outcome(passed) == "passed"
    assert (passed.findtext("system-out") or "").startswith("warning: 4 violations in 4 datums: ")
    failed = cases_of(report_to_junit(found, fail_on=WARNING))[faulty]
    assert [(child.tag, child.attrib["type"]) for child in failed] == [("failure", "warning")]


def test_junit_totals(found: Report) -> None:
    root = ET.fromstring(report_to_junit(found))
    for suite in root:
        cases = list(suite.iter("testcase"))
        assert int(suite.attrib["tests"]) == len(cases)
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == sum(outcome(case) == tag for case in cases)
    assert int(root.attrib["tests"]) == len(list(root.iter("testcase")))
    assert root.attrib["failures"] == "4"
    properties = {p.attrib["name"]: p.attrib["value"] for p in root[0].iter("property")}
    assert (properties["datums"], properties["bad_datums"], properties["loss"]) == (
        "11",
        "7",
        "stable_reinforce",
    )


def test_junit_without_files_is_one_suite_with_exact_counts() -> None:
    cases = cases_of(report_to_junit(broken()))
    assert {suite for suite, _ in cases} == {"dataset"}
    lines = (cases["dataset", "VAL002"][0].text or "").split("\n")
    assert lines[-3] == "... and 12 more, of which the report holds no example"
    assert outcome(cases["dataset", "ADV001"]) == "passed"


def test_junit_puts_what_is_of_no_file_beside_the_files() -> None:
    at = {"file": "sequences.jsonl", "row": 0, "line": 1}
    found = report(
        counts={"FMT001": Count(0, 1, 1)},
        severities={"FMT001": ERROR},
        violations=(violation("FMT001", "invalid-json", ERROR, "no JSON", **at),),
        files={"datums.jsonl": FileCount(1, 0, {}, frozenset({"FMT001"}))},
    )
    cases = cases_of(report_to_junit(found))
    assert outcome(cases["datums.jsonl", "FMT001"]) == "passed"
    assert outcome(cases["dataset", "FMT001"]) == "failure"
    assert "sequences.jsonl: line 1" in (cases["dataset", "FMT001"][0].text or "")


@MANY
@given(found=reports())
def test_junit_takes_any_text(found: Report) -> None:
    xml = report_to_junit(found)
    assert xml.isascii()
    root = ET.fromstring(xml)
    assert [suite.attrib["name"] for suite in root][1:] == [escape(file) for file in found.files]
    lines = [line for failure in root.iter("failure") for line in (failure.text or "").split("\n")]
    errors = [v for v in found if v.severity == ERROR]
    assert sum("VAL002 positive-logprob: " in line for line in lines) == len(errors)
