"""SARIF: place, rule, exact counts and fingerprints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from _machine import checked, reports, silenced
from hypothesis import given, settings
from test_report_files import write
from test_reports import report, violation

from provenance.report import Count, Report, Severity
from provenance.reports.sarif import report_to_sarif

ERROR, WARNING = Severity.ERROR, Severity.WARNING
MANY = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of which one is sound, and the others are not."""
    return write(tmp_path_factory.mktemp("files"), ".jsonl")


@pytest.fixture(scope="module")
def found(paths: list[str]) -> Report:
    return checked(paths)


def test_sarif_has_place_rule_and_exact_counts(found: Report, paths: list[str]) -> None:
    folder = str(Path(paths[0]).parent)
    (run,) = json.loads(report_to_sarif(found, root=folder))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted(found.severities)
    results = [result for result in run["results"] if result["ruleId"] == "VAL002"]
    assert len(run["results"]) == len(found.violations)
    assert results[1]["level"] == "error"
    assert rules[results[1]["ruleIndex"]]["id"] == "VAL002"
    (place,) = results[1]["locations"]
    artifact = run["artifacts"][place["physicalLocation"]["artifactLocation"]["index"]]
    assert place == {
        "physicalLocation": {
            "artifactLocation": {"uri": "faulty.jsonl", "index": run["artifacts"].index(artifact)},
            "region": {"startLine": 1},
        },
        "logicalLocations": [
            {"name": "logprobs[3:5]", "fullyQualifiedName": "rows[0].logprobs[3:5]", "kind": "value"}
        ],
    }
    assert artifact["properties"]["counts"]["VAL002"] == {"datums": 2, "violations": 4, "elements": 6}
    assert run["properties"]["bad_datums"] == found.bad_datums == 7
    assert run["properties"]["counts"] == found.to_dict()["counts"]
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 1)
    notes = {
        rules[note["associatedRule"]["index"]]["id"]: note["message"]["text"]
        for note in invocation["toolConfigurationNotifications"]
    }
    assert notes["INP009"] == "INP009 not checked: no max_tokens given"


def test_sarif_tells_what_rules_that_are_off_kept_from_the_others(paths: list[str]) -> None:
    (run,) = json.loads(report_to_sarif(silenced(paths)))["runs"]
    reason = "without a shape that other rules could look at"
    assert run["invocations"][0]["toolConfigurationNotifications"] == [
        {
            "level": "note",
            "message": {"text": f"{code} not checked: no error in this contract; {datums} {reason}"},
        }
        for code, datums in (("FMT001", "1 datum"), ("INP005", "3 datums"))
    ]


def test_sarif_gives_the_exit_code_of_the_command() -> None:
    warned = report(counts={"VAL003": Count(1, 1, 1)})
    codes = [
        json.loads(report_to_sarif(warned, fail_on=severity))["runs"][0]["invocations"][0]["exitCode"]
        for severity in (ERROR, WARNING)
    ]
    assert codes == [0, 1]


def test_sarif_fingerprints_tell_places_apart_and_outlive_messages(found: Report) -> None:
    def prints(of: Report, **root: str) -> list[str]:
        results = json.loads(report_to_sarif(of, **root))["runs"][0]["results"]
        return [result["partialFingerprints"]["place/v1"] for result in results]

    assert len(set(prints(found))) == len(found.violations)
    reworded = replace(found, violations=tuple(replace(v, message="other") for v in found))
    assert prints(reworded) == prints(found)
    moved = [replace(v, location=replace(v.location, file=f"/b{v.location.file}")) for v in found]
    assert prints(replace(found, violations=tuple(moved), files={}), root="/b") == prints(found, root="/")


def test_sarif_quotes_what_a_name_or_a_message_may_hold() -> None:
    names = ["a b#%?.jsonl", "/x/\u00fc\udcff.jsonl", "c:d.jsonl", "<stdin>"]
    kept = [violation("VAL002", "positive-logprob", ERROR, "{0} [a](http://b)", file=file) for file in names]
    found = report(counts={"VAL002": Count(4, 4, 4)}, violations=tuple(kept))
    (run,) = json.loads(report_to_sarif(found))["runs"]
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == [
        *("a%20b%23%25%3F.jsonl", "file:///x/%C3%BC%FF.jsonl", "c%3Ad.jsonl")
    ]
    assert run["results"][0]["message"]["text"].endswith("positive-logprob: {{0}} [a] (http://b)")
    assert run["results"][3]["locations"] == []


@MANY
@given(found=reports())
def test_sarif_takes_any_text(found: Report) -> None:
    text = report_to_sarif(found)
    assert text.isascii()
    (run,) = json.loads(text)["runs"]
    assert len(run["results"]) == len(found.violations)
    for result in run["results"]:
        assert result["message"]["text"].isprintable()
