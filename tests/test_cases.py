"""The language-neutral cases of ../shared, on every path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from _paths import PATHS, found

import provenance
from provenance import SchemaError, Severity

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "cases"
_FLOATS = {text: float(text) for text in ("NaN", "Infinity", "-Infinity")}


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return _FLOATS.get(value, value) if isinstance(value, str) else value


def _load() -> dict[str, dict[str, Any]]:
    path = FOLDER / "cases.json"
    if not path.exists():
        return {}
    return {case["name"]: _with_floats(case) for case in json.loads(path.read_text(encoding="utf-8"))}


CASES = _load()
OF_DATUMS = [name for name, case in CASES.items() if "file" not in case]
OF_FILES = [name for name, case in CASES.items() if "file" in case]
# A dtype that is none, and shape (1, 5) beside lists of five numbers in one column.
NOT_IN_ARROW = {"dtype_bfloat16", "batched_shape"}
# What the SDK refuses or changes; a request cannot tell an empty list of spans from none.
NOT_IN_SDK = {
    "dtype_bfloat16",
    "empty_sequence_id",
    "none_logprob_element",
    "only_one_span_list",
    "unknown_span_type",
}
NOT_IN_A_REQUEST = {*NOT_IN_SDK, "empty_datum"}

pytestmark = pytest.mark.skipif(not CASES, reason=f"{FOLDER} is not here")


def check(case: dict[str, Any], data: Any) -> provenance.Report:
    return provenance.check(
        data,
        case["loss_fn"],
        ledger=case["sequences"],
        session=case["session"],
        now=case["now"],
        loss_config=case.get("loss_fn_config"),
    )


def assert_expected(case: dict[str, Any], report: provenance.Report) -> None:
    errors, warnings = set(case["expect"]["errors"]), set(case["expect"]["warnings"])
    assert errors <= report.codes(Severity.ERROR)
    assert warnings <= report.codes(Severity.WARNING)
    assert report.valid == (not errors), [str(v) for v in report]


def test_all_cases_are_here() -> None:
    assert len(CASES) == 64


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", OF_DATUMS)
def test_case(name: str, path: str, tmp_path: Path) -> None:
    case = CASES[name]
    expected = check(case, case["datums"])
    assert_expected(case, expected)
    refusal = None
    try:
        report = check(case, PATHS[path](case["datums"], tmp_path))
    except SchemaError as error:
        refusal = error
    if refusal is not None:
        if path == "models":
            assert refusal.code in expected.codes(), refusal
        elif path in ("sdk", "request"):
            assert name in (NOT_IN_SDK if path == "sdk" else NOT_IN_A_REQUEST), refusal
        else:
            assert name in NOT_IN_ARROW, refusal
            assert re.match(r"row \d+: [a-z_]+", str(refusal)), refusal
        pytest.skip(f"refused: {refusal}")
    assert_expected(case, report)
    assert found(report) == found(expected)


@pytest.mark.parametrize("name", OF_FILES)
def test_case_of_a_file(name: str) -> None:
    case = CASES[name]
    path = FOLDER / case["file"]
    report = check(case, path)
    assert_expected(case, report)
    assert report.datums > 0
    for violation in report:
        assert violation.location.file == str(path) or violation.location.row is None
