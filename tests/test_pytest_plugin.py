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
