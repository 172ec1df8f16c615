"""`provenance check --format`: the documents of the command, and the summary of a job."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from test_cli import call, names, on_terminal
from test_report_files import write

from provenance.report import Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING
FORMATS = ("json", "junit", "github", "sarif")
#: Exit code for data with a warning.
FAIL_ON = {"error": 0, "warning": 1}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of which one is sound, and the others are not."""
    return write(tmp_path_factory.mktemp("files"), ".jsonl")


@pytest.fixture
def no_github(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_github")
@pytest.mark.parametrize("format_", [*FORMATS, "html"])
def test_formats_of_the_command(format_: str, paths: list[str], tmp_path: Path) -> None:
    if format_ == "html":
        pytest.importorskip("jinja2")
        pytest.importorskip("vl_convert")
    output = tmp_path / "report"
    # The time, which reports hold, is the clock's otherwise.
    arguments = ["check", *paths, "--now", "2026-01-02T12:00:00Z", "--format", format_]
    done = call(*arguments, "--output", output)
    assert done.returncode == 1
    assert done.stderr.startswith("note: invalid: 7 of 11 datums have errors")
    assert output.read_text() == call(*arguments).stdout
    assert names(tmp_path) == ["report"]
    assert call("check", paths[0], "nowhere.jsonl", "--format", format_, "--output", output).returncode == 2
    assert output.read_text() == call(*arguments).stdout


@pytest.mark.usefixtures("no_github")
@pytest.mark.parametrize("format_", FORMATS)
def test_formats_keep_the_exit_code(format_: str, paths: list[str]) -> None:
    codes = {
        fail_on: call("check", paths[0], "--format", format_, "--fail-on", fail_on) for fail_on in FAIL_ON
    }
    assert {fail_on: done.returncode for fail_on, done in codes.items()} == FAIL_ON
    if format_ == "junit":
        failures = {fail_on: ET.fromstring(done.stdout).attrib["failures"] for fail_on, done in codes.items()}
        assert failures == {"error": "0", "warning": "1"}


@pytest.mark.parametrize("format_", ["jsonl", "junit", "github", "sarif", "html"])
def test_statistics_are_no_document(format_: str, paths: list[str]) -> None:
    done = call("check", *paths, "--statistics", "--format", format_)
    assert done.returncode == 2
    assert f"--statistics is for --format text and json, not {format_}" in done.stderr


def test_a_page_is_not_for_a_terminal(paths: list[str]) -> None:
    code, seen = on_terminal(["check", paths[0], "--format", "html"], stream="stdout")
    assert (code, seen) == (2, "")


@pytest.mark.parametrize("module", ["jinja2", "vl_convert"])
def test_a_page_that_cannot_be_made_is_refused_before_the_check(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = call("check", "nowhere.jsonl", "--format", "html", "--output", "page.html")
    assert done.returncode == 2
    assert done.stderr == f"error: {module} is not installed: run pip install 'datum-provenance[html]'\n"


def test_the_summary_of_a_step_is_added_to(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    call("check", paths[0])
    assert not summary.exists()
    done = call("check", paths[0], "--format", "github")
    assert (done.returncode, done.stderr) == (0, "")
    once = summary.read_text()
    assert once.startswith("<h3>provenance check</h3>\n<p>valid: 2 datums")
    call("check", paths[0], "--format", "github")
    assert summary.read_text() == f"{once}\n{once}"


@pytest.mark.parametrize(
    ("free", "shown"), [(0, "no room left"), (1_000, "no room left"), (10_000, ""), (1 << 20, "")]
)
def test_the_summary_of_a_step_never_grows_beyond_what_github_takes(
    free: int, shown: str, paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    before = "x" * ((1 << 20) - free)
    summary.write_text(before)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = call("check", *paths, "--format", "github")
    assert done.returncode == 1
    assert shown in done.stderr
    assert bool(done.stderr) == bool(shown)
    assert len(summary.read_bytes()) <= 1 << 20
    assert (summary.read_text() == before) == bool(shown)


def test_a_summary_that_cannot_be_written_changes_no_verdict(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    done = call("check", paths[0], "--format", "github")
    assert done.returncode == 0
    assert done.stderr == f"note: {tmp_path}: the summary of this step is not written: is a directory\n"


def test_files_are_named_from_the_workspace(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(paths[0]).parent
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(folder)
    file = f"{folder.name}/sound.jsonl"
    assert f",file={file},line=2::" in call("check", "sound.jsonl", "--format", "github").stdout
    sarif = json.loads(call("check", "sound.jsonl", "--format", "sarif").stdout)
    assert [artifact["location"]["uri"] for artifact in sarif["runs"][0]["artifacts"]] == [file]
