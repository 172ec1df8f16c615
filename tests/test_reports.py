"""Reports as text and JSON, on reports made by hand: nothing here needs the engine."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from provenance.report import Count, Location, NotChecked, Report, Severity, Violation
from provenance.reports.json import dumps, report_to_json, violation_to_line
from provenance.reports.statistics import statistics, statistics_to_text
from provenance.reports.text import count, escape, plain, report_to_text, verdict, wrap

ERROR, WARNING = Severity.ERROR, Severity.WARNING
NO_LEDGER = "no ledger of sampled sequences given"


def violation(code: str, name: str, severity: Severity, message: str, **where: Any) -> Violation:
    return Violation(code=code, name=name, severity=severity, location=Location(**where), message=message)


def report(**changes: Any) -> Report:
    valid: dict[str, Any] = {
        "datums": 20_000,
        "positions": 10_000_000,
        "bad_datums": 0,
        "counts": {},
        "checked": {"VAL001": 30_000_000, "VAL002": 10_000_000, "ADV001": 10_000_000, "VAL003": 0},
        "violations": (),
        "not_checked": (),
        "severities": {"VAL001": ERROR, "VAL002": ERROR, "ADV001": ERROR, "ADV003": ERROR, "VAL003": WARNING},
        "contract": {"loss": "stable_reinforce"},
        "session": None,
        "now": "2026-01-02T12:00:00Z",
        "version": "0.1.0",
        "ruleset": 1,
    }
    return Report(**(valid | changes))


def broken(**changes: Any) -> Report:
    positive = [
        violation(
            "VAL002",
            "positive-logprob",
            ERROR,
            "0.25 > 0.0001 (sampled span 2 of sequence 's:7')",
            file="part-0.parquet",
            row=50 + i,
            field="logprobs",
            index=9,
            length=1 + i,
            sequence_id="s:7",
        )
        for i in range(2)
    ]
    zeros = violation(
        "VAL003",
        "placeholder-logprobs",
        WARNING,
        "64 logprobs are all 0.0",
        file="part-1.jsonl",
        row=0,
        line=1,
        field="logprobs",
        index=0,
        length=64,
    )
    return report(
        **{
            "bad_datums": 3,
            "counts": {"VAL003": Count(1, 1, 1), "VAL002": Count(3, 14, 17)},
            "violations": (zeros, *positive),
            "not_checked": (
                *(NotChecked(code, NO_LEDGER) for code in ("SEQ001", "SEQ003", "SEQ002")),
                NotChecked("SES001", "no training session given"),
                NotChecked("VAL001", "vocab_size is not given"),
            ),
        }
        | changes
    )


def test_a_report_groups_by_rule_with_errors_first() -> None:
    text = report_to_text(broken())
    message = "VAL002 positive-logprob: 0.25 > 0.0001 (sampled span 2 of sequence 's:7')"
    rest = "14 errors of 1 rule, 1 warning, 4 rules checked, 4 not checked, 1 checked in part"
    assert text.splitlines() == [
        "error VAL002 positive-logprob: 14 violations in 3 datums, 17 positions",
        f"  part-0.parquet: row 50: logprobs[9]: {message}",
        f"  part-0.parquet: row 51: logprobs[9:11]: {message}",
        "  ... and 12 more",
        "",
        "warning VAL003 placeholder-logprobs: 1 violation in 1 datum",
        "  part-1.jsonl: line 1: logprobs[0:64]: VAL003 placeholder-logprobs: 64 logprobs are all 0.0",
        "",
        "what a rule means: provenance explain VAL002 VAL003",
        "",
        "not checked",
        "  no ledger of sampled sequences given: SEQ001, SEQ002, SEQ003",
        "  no training session given: SES001",
        "  vocab_size is not given: VAL001",
        "",
        f"invalid: 3 of 20,000 datums have errors, {rest}",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "valid: 20,000 datums, 10,000,000 positions, 4 rules checked"),
        (
            {"counts": {"VAL003": Count(2, 2, 2)}},
            "valid: 20,000 datums, 10,000,000 positions, 4 rules checked, 2 warnings",
        ),
        (
            {"datums": 1, "positions": 1, "checked": {"VAL001": 1}},
            "valid: 1 datum, 1 position, 1 rule checked",
        ),
        (
            {"datums": 1, "bad_datums": 1, "counts": {"VAL002": Count(1, 1, 1)}},
            "invalid: 1 of 1 datum has errors, 1 error of 1 rule, 4 rules checked",
        ),
        (
            {"counts": {"ADV003": Count(0, 1, 1)}},
            "invalid: 1 error of 1 rule outside the datums, 20,000 datums, 4 rules checked",
        ),
    ],
)
def test_verdict(changes: dict[str, Any], expected: str) -> None:
    assert verdict(report(**changes)) == expected


def test_a_valid_report_is_one_line() -> None:
    assert report_to_text(report()) == verdict(report())


INSPECT = "the first of these: provenance inspect part-0.parquet --row 50 --ledger sequences.db"


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"violations": ()}, {"counts": {}, "violations": ()}, {"not_checked": ()}]
)
def test_no_width_breaks_a_word_or_loses_one(changes: dict[str, Any], coloured: bool, width: int) -> None:
    paint = (lambda text, role: f"\x1b[1m{text}\x1b[0m") if coloured else plain
    shown = report_to_text(broken(**changes), hints=[INSPECT], width=width, paint=paint)
    assert ("\x1b" in shown) == coloured
    text = re.sub(r"\x1b\[\dm", "", shown)
    whole = report_to_text(broken(**changes), hints=[INSPECT])
    assert text.split() == whole.split()
    for line in text.splitlines():
        # Only a single word may be wider than the terminal, and a command, which is copied as it stands.
        command = line.startswith("  provenance ")
        assert len(line) <= width or len(line.split()) == 1 or command or width < 20 + 4
        assert line == line.rstrip()
    assert "\n\n\n" not in text
    assert (INSPECT in whole) == ("counts" not in changes)


def test_what_is_wrapped_is_no_item() -> None:
    """Headings, hints and the verdict go on at the margin, violations and reasons below themselves."""
    lines = report_to_text(broken(), hints=[INSPECT], width=40).splitlines()
    assert lines[:5] == [
        "error VAL002 positive-logprob: 14",
        "violations in 3 datums, 17 positions",
        "  part-0.parquet: row 50: logprobs[9]:",
        "      VAL002 positive-logprob: 0.25 >",
        "      0.0001 (sampled span 2 of sequence",
    ]
    at = lines.index("what a rule means:")
    assert lines[at : at + 4] == [
        "what a rule means:",
        "  provenance explain VAL002 VAL003",
        "the first of these:",
        "  provenance inspect part-0.parquet --row 50 --ledger sequences.db",
    ]
    assert lines[-3:] == [
        "14 errors of 1 rule, 1 warning, 4 rules",
        "checked, 4 not checked, 1 checked in",
        "part",
    ]


def test_a_hint_cannot_steer_the_terminal() -> None:
    assert r"look: a\x1b[2J\r\n" in report_to_text(broken(), hints=[f"look: {HOSTILE}"])


def test_wide_terminals_keep_a_violation_on_one_line() -> None:
    assert report_to_text(broken(), width=200) == report_to_text(broken())


def test_colour_changes_nothing_but_colour() -> None:
    coloured = report_to_text(broken(), width=60, paint=lambda text, role: f"\x1b[{len(role)}m{text}\x1b[0m")
    assert re.sub(r"\x1b\[\d+m", "", coloured) == report_to_text(broken(), width=60)
    assert coloured.count("\x1b[5mVAL002") >= 2


HOSTILE = "a\x1b[2J\r\n\x9b31m\u202eb\udcff\u2028"


def test_data_cannot_steer_the_terminal() -> None:
    found = violation(
        "VAL002",
        "positive-logprob",
        ERROR,
        f"got {HOSTILE}",
        file=HOSTILE,
        row=0,
        field=HOSTILE,
        sequence_id="s\x07",
    )
    text = report_to_text(
        broken(violations=(found,), not_checked=(NotChecked("SEQ001", f"no {HOSTILE}"),)), width=80
    )
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"\x1b[2J\r\n\x9b31m\u202eb\udcff\u2028" in text
    assert r"(sequence 's\x07')" in text.replace("\n      ", " ")


def test_escape_leaves_ordinary_text_alone() -> None:
    assert escape("Größe 'x' 日本 🙂") == "Größe 'x' 日本 🙂"


def test_a_huge_value_is_cut() -> None:
    found = violation("VAL002", "positive-logprob", ERROR, "x" * 311_054, file="f", row=0)
    text = report_to_text(broken(violations=(found,)))
    assert max(map(len, text.splitlines())) < 700
    assert "... (311,0" in text


def test_many_reasons_are_summed_up() -> None:
    reasons = tuple(NotChecked("SPN003", f"row {i} has an image of unknown length") for i in range(500))
    lines = report_to_text(report(not_checked=reasons)).splitlines()
    assert "  ... and for 480 more reasons" in lines
    assert len(lines) < 30


@pytest.mark.parametrize(("number", "text"), [(0, "0 datums"), (1, "1 datum"), (20_000, "20,000 datums")])
def test_plurals(number: int, text: str) -> None:
    assert count(number, "datum") == text


def test_wrapping_indents_what_follows() -> None:
    assert wrap("alpha beta gamma-delta", 16, indent=2, hang=3) == ["  alpha beta", "     gamma-delta"]


def test_json_is_the_report_as_a_dict() -> None:
    assert json.loads(report_to_json(broken())) == broken().to_dict()


def test_json_has_no_nan_and_is_ascii() -> None:
    loose = replace(report(), contract={"parameters": {"window": math.inf, "x": [math.nan, -math.inf, 1.5]}})
    text = report_to_json(replace(loose, session=HOSTILE))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(text, parse_constant=refuse)
    assert read["contract"] == {"parameters": {"window": "Infinity", "x": ["NaN", "-Infinity", 1.5]}}
    assert read["session"] == HOSTILE
    assert text.isascii()
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_violation_is_one_line() -> None:
    found = replace(broken().violations[1], message=HOSTILE)
    line = violation_to_line(found)
    assert "\n" not in line
    assert json.loads(line) == found.to_dict()


def test_dumps_refuses_what_is_no_json() -> None:
    with pytest.raises(TypeError):
        dumps({"x": object()})


def test_statistics_count_the_most_frequent_first() -> None:
    counts = {"ADV003": Count(0, 1, 1), "VAL003": Count(1, 1_200_000, 1_200_000), "VAL002": Count(3, 1, 17)}
    text = statistics_to_text(broken(counts=counts))
    assert text.splitlines()[:-1] == [
        "violations  datums  severity  rule",
        " 1,200,000       1  warning   VAL003 placeholder-logprobs",
        "         1       -  error     ADV003 no-signal",
        "         1       3  error     VAL002 positive-logprob",
        "",
    ]
    assert text.splitlines()[-1] == verdict(broken(counts=counts))
    assert statistics(broken(counts=counts))[0] == {
        "code": "VAL003",
        "name": "placeholder-logprobs",
        "severity": "warning",
        "datums": 1,
        "violations": 1_200_000,
        "elements": 1_200_000,
    }


@pytest.mark.parametrize("width", [40, 80, 200])
def test_statistics_fit_the_terminal(width: int) -> None:
    lines = statistics_to_text(broken(), width=width).splitlines()
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    assert [line.split()[3] for line in lines[1:3]] == ["VAL002", "VAL003"]
    assert lines[1].endswith("positive-logprob") == (width > 40)


def test_statistics_of_valid_data_are_the_verdict() -> None:
    assert statistics_to_text(report()) == verdict(report())
    assert statistics(report()) == []
