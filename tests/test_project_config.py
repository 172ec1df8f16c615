"""The table [tool.provenance] of the project that a command is run in."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from test_cli import NOW, call, positive, run, write

from provenance.contract import _KEYS
from provenance.loss_spec import LOSSES
from provenance.rules import Parameters

LAX = """
[tool.provenance.severity]
VAL002 = "warning"
ADV004 = "off"
"""
NOTE = "note: the contract is that of {}, laxer than the default in VAL002; --isolated leaves it out\n"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments of a check, in a folder two below the project's, of data that break VAL002 and ADV004."""
    below = tmp_path / "project" / "a" / "b"
    arguments = write(below, positive(1))
    monkeypatch.chdir(below)
    return [os.path.relpath(a) if a.startswith("/") else a for a in arguments]


def configure(text: str, folder: str = "../..") -> None:
    Path(folder, "pyproject.toml").write_text(text, encoding="utf-8")


def found(*arguments: str) -> dict[str, str]:
    """Severity of each rule that is reported."""
    report = json.loads(call("check", *arguments, "--format", "json").stdout)
    return {violation["code"]: violation["severity"] for violation in report["violations"]}


def test_the_nearest_table_is_the_contract(data: list[str]) -> None:
    assert found(*data) == {"VAL002": "error", "ADV004": "warning"}
    configure(LAX)
    assert found(*data) == {"VAL002": "warning"}
    configure("[tool.other]\n", "..")  # has no table, and is passed over
    assert found(*data) == {"VAL002": "warning"}
    configure('[tool.provenance.severity]\nVAL002 = "off"\n', ".")
    assert "VAL002" not in found(*data)


def test_that_it_is_there_is_said(data: list[str]) -> None:
    configure(LAX)
    assert call("check", *data).stderr == NOTE.format("../../pyproject.toml")
    assert call("check", *data, "-q").stderr == ""
    configure("[tool.provenance.parameters]\nvocab_size = 50000\n", ".")
    assert call("check", *data).stderr == (
        "note: the contract is that of pyproject.toml; --isolated leaves it out\n"
    )
    configure('[tool.provenance.severity]\nSPN = "off"\n', ".")
    few = "in SPN001, SPN002, SPN005, SPN003, SPN004, SPN007 and 2 more; --isolated"
    assert few in call("check", *data).stderr


def test_it_can_be_left_out(data: list[str]) -> None:
    configure(LAX)
    done = call("check", *data, "--isolated", "--format", "json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["contract"]["severity"] == {}
    Path("mine.toml").write_text('severity = {ADV = "off"}\n')
    done = call("check", *data, "--config", "mine.toml", "--format", "json")
    assert done.stderr == ""
    assert "VAL002" not in json.loads(done.stdout)["contract"]["severity"]
    done = call("check", *data, "--config", "mine.toml", "--isolated")
    assert done.returncode == 2
    assert "--config names a contract file, and --isolated leaves out all" in done.stderr


def test_what_lies_above_a_repository_is_not_looked_at(data: list[str]) -> None:
    configure(LAX)
    Path("../.git").write_text("gitdir: elsewhere\n")  # as in a worktree
    assert found(*data)["VAL002"] == "error"
    configure(LAX, "..")
    assert found(*data)["VAL002"] == "warning"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool\n", "../../pyproject.toml: not TOML: "),
        ("[tool.provenance]\nseverities = {}\n", "../../pyproject.toml: unknown key 'severities', did you"),
        ("[tool]\nprovenance = 3\n", "pyproject.toml: tool.provenance is 3, expected a table; --isolated"),
        ('[tool.provenance]\nextends = "nothing.toml"\n', "../../nothing.toml: No such file or directory"),
    ],
)
def test_a_broken_one_is_one_line(data: list[str], text: str, message: str) -> None:
    configure(text)
    done = call("check", *data)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert message.partition(";")[0] in call("check", *data, "--config", "../../pyproject.toml").stderr
    assert call("check", *data, "--isolated").returncode == 1


@pytest.mark.parametrize("text", ["", "[tool]\n", "tool = 1\n", "[tool.provenances]\nx = 1\n"])
def test_one_without_the_table_is_none_of_our_business(data: list[str], text: str) -> None:
    configure(text)
    done = call("check", *data)
    assert (done.returncode, done.stderr) == (1, "")


def test_another_loss_contradicts_it(data: list[str]) -> None:
    configure('[tool.provenance]\nextends = "ppo"\n')
    done = call("check", *data, "--loss", "stable_reinforce")
    assert done.returncode == 2
    assert "which is for 'ppo': --isolated leaves it out" in done.stderr
    assert call("check", *data, "--loss", "stable_reinforce", "--isolated").returncode == 1
    configure(LAX)  # extends nothing, and so fits every loss
    assert "contradicts" not in call("check", *data, "--loss", "ppo").stderr


def test_every_command_with_a_contract_reads_it(data: list[str]) -> None:
    configure(LAX)
    note = NOTE.format("../../pyproject.toml")
    inspected = call("inspect", *data)
    assert inspected.stderr == note
    assert "warning VAL002" in inspected.stdout
    made = call("generate", "-n", "2", "--output", "made.jsonl")
    assert made.stderr.startswith(note)
    assert "hint: provenance check made.jsonl --config ../../pyproject.toml " in made.stderr
    assert "--config ../../pyproject.toml" in call("check", *data).stdout  # what inspect is called with
    fuzzed = call("fuzz", "made.jsonl", "--now", NOW, "--mutation", "zeros-negative")
    assert fuzzed.stderr.startswith(note)


def test_a_report_does_not_replace_it(data: list[str]) -> None:
    configure(LAX)
    done = call("check", *data, "--output", "../../pyproject.toml")
    assert done.returncode == 2
    assert Path("../../pyproject.toml").read_text() == LAX


def test_help_and_completion_do_not_look_for_it(data: list[str]) -> None:
    configure("[tool\n")
    assert call("check", "--help").returncode == 0
    done = run("", _PROVENANCE_COMPLETE="bash_complete", COMP_WORDS="provenance check --sel", COMP_CWORD="2")
    assert done.stdout == "plain,--select\n"
    assert done.stderr == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_one_that_cannot_be_read_is_one_line(data: list[str]) -> None:
    configure(LAX)
    Path("../../pyproject.toml").chmod(0)
    done = call("check", *data)
    assert done.returncode == 2
    assert "permission denied" in done.stderr


def test_in_a_real_repository(data: list[str]) -> None:
    subprocess.run(["git", "init", "-q", "../.."], check=True)
    configure(LAX)
    assert found(*data)["VAL002"] == "warning"


def test_the_page_lists_every_key_loss_and_parameter() -> None:
    page = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) ?\|", page, re.MULTILINE))
    for key in _KEYS:
        assert key in rows
    for field in dataclasses.fields(Parameters):
        assert rows[field.name] == ("" if field.default is None else str(field.default))
    assert f"The losses: {', '.join(f'`{name}`' for name in LOSSES)}." in page
