"""The fixtures for other people's tests, in tests of theirs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from test_cli import environment

pytest_plugins = ["pytester"]

VALID = """
import provenance
import pytest


def test_datums_and_ledger(provenance_datums, provenance_ledger, provenance_generated):
    dataset = provenance_generated.dataset
    report = provenance.check(
        provenance_datums, ledger=provenance_ledger, session=dataset.session, now=dataset.now
    )
    assert not report.counts
    assert report.datums == 16
    assert "SEQ003" in report.checked


@pytest.mark.provenance(n=3, seed=5, break_="SEQ003", suffix=".jsonl.gz")
def test_files(provenance_files, provenance_generated):
    assert provenance_files.datums.name == "datums.jsonl.gz"
    datums, sequences, session, now = provenance_files
    report = provenance.check(datums, ledger=sequences, session=session, now=now)
    assert report.codes() == {"SEQ003"}
    assert report.datums == 3
    assert provenance_generated.place.field == "model_input"


@pytest.mark.provenance(n=2, break_="SEQ008")
def test_a_broken_ledger(provenance_ledger, provenance_datums, provenance_generated):
    now = provenance_generated.dataset.now
    report = provenance.check(provenance_datums, ledger=provenance_ledger, now=now)
    assert report.codes() == {"SEQ008"}
"""

FUZZED = """
import pytest


def check(dataset):
    return all(datum["model_input_spans"] for datum in dataset.datums)


NAMES = ["spans-lost", "tokenised-again", "zeros-negative"]


def test_good_enough(provenance_fuzz):
    provenance_fuzz(check, only=NAMES).assert_caught(but=["tokenised-again"])


def test_not_good_enough(provenance_fuzz):
    provenance_fuzz(check, only=NAMES).assert_caught()


def test_data_of_my_own(provenance_fuzz, provenance_files):
    assert provenance_fuzz(data=provenance_files.datums, only=["spans-lost"]).ok
"""

ASSERTED = """
import pytest
from provenance.testing import assert_valid_dataset as imported

NOW = "2026-01-02T12:00:00Z"


def test_valid(assert_valid_dataset, provenance_datums, provenance_ledger):
    report = assert_valid_dataset(provenance_datums, ledger=provenance_ledger, session="session-1", now=NOW)
    assert report.valid
    assert "SEQ003" in report.checked
    assert assert_valid_dataset is imported


@pytest.mark.provenance(n=4, break_="SEQ003")
def test_sequence(provenance_files):
    imported(provenance_files.datums, ledger=provenance_files.sequences, now=NOW)


@pytest.mark.provenance(break_="VAL003")
def test_warning(assert_valid_dataset, provenance_datums):
    assert_valid_dataset(provenance_datums)
    assert_valid_dataset(provenance_datums, "stable_reinforce", fail_on="warning", max_examples=0)


def test_no_severity(assert_valid_dataset, provenance_datums):
    assert_valid_dataset(provenance_datums, fail_on="off")


def test_no_file(assert_valid_dataset):
    assert_valid_dataset("nothing.jsonl")
"""

MISUSED = """
import pytest


@pytest.mark.provenance(m=4)
def test_keyword(provenance_datums):
    pass


@pytest.mark.provenance(4)
def test_position(provenance_datums):
    pass


@pytest.mark.provenance(break_="NOPE")
def test_rule(provenance_datums):
    pass
"""


def test_pytest_finds_the_plugin() -> None:
    """Where this fails, the package was installed before it had one: pip install -e . again."""
    (found,) = entry_points(group="pytest11", name="provenance")
    assert found.value == "provenance.pytest_plugin"


def test_data_are_generated(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(VALID)
    pytester.runpytest("--strict-markers", "-W", "error").assert_outcomes(passed=3)


def test_checks_are_fuzzed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FUZZED)
    result = pytester.runpytest("--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*provenance_fuzz(check, only=NAMES).assert_caught()",
            "E *16 datums, seed 0, judged by: check",
            "E *let through  tokenised-again  SEQ003 SEQ004  -  *row * target_tokens*",
            "E *caught 1 of 2 faults; let through: tokenised-again; cried wolf on 0 of 1 harmless change",
        ]
    )
    result.stdout.no_fnmatch_line("*_report.py*raise AssertionError*")


@pytest.mark.parametrize("columns", [60, 120])
def test_a_broken_dataset_fails_with_its_report(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    pytester.makepyfile(test_data=ASSERTED)
    result = pytester.runpytest("--strict-markers", "-k", "valid or sequence")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*imported(provenance_files.datums, ledger=provenance_files.sequences, now=NOW)",
            "E *AssertionError: invalid: 1 of 4 datums has errors, 1 error of 1 rule, *",
            "E *error SEQ003 input-token-mismatch: 1 violation in 1*",
            "E *what a rule means: provenance explain SEQ003",
            "E *not checked",
            "E *SES001*",
            "FAILED *- AssertionError: inva*",
        ]
    )
    report = [line for line in result.outlines if line.startswith("E   ")][1:]
    widest = max(len(line) for line in report if "/" not in line)  # a path stays whole
    assert columns - 15 < widest <= columns
    result.stdout.no_fnmatch_line("*testing.py:*")


def test_what_else_fails_an_assertion(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_data=ASSERTED)
    result = pytester.runpytest("--strict-markers", "-k", "warning or no_")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            '>*fail_on="warning", max_examples=0)',
            "E *AssertionError: 1 warning, which fail_on='warning' does not let pass; valid: 16 datums, *",
            "E *warning VAL003 *: 1 violation in 1 datum*",
            "E *... and 1 more",
            "E *ContractError: fail_on is 'off', expected 'error' or 'warning'",
            "E *ReadError: nothing.jsonl: *",
        ]
    )


def test_the_assertion_needs_no_pytest_and_no_hypothesis() -> None:
    script = (
        "import sys; from provenance.testing import assert_valid_dataset as valid; "
        "valid([{}]) if len(sys.argv) > 1 else print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"pytest", "hypothesis", "pyarrow", "rich"} & set(loaded.stdout.split())
    failed = subprocess.run([sys.executable, "-c", script, "1"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "AssertionError: invalid: 1 of 1 datum has errors" in failed.stderr


def test_misuse_of_the_marker_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MISUSED)
    result = pytester.runpytest("--strict-markers")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.provenance: *unexpected keyword argument 'm'",
            "@pytest.mark.provenance takes keywords only, got (4,)",
            "@pytest.mark.provenance: no rule has the code 'NOPE'; *",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    script = "import pytest, sys; pytest.main(['-q', '-p', 'no:cacheprovider']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1 passed" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    ours = {name for name in loaded if name.partition(".")[0] == "provenance"}
    assert ours == {"provenance", "provenance._version", "provenance.pytest_plugin"}
    assert not loaded & {"numpy", "pydantic", "msgspec", "pyarrow"}
