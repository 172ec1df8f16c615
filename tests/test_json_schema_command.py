"""``provenance schema``: what it prints and writes, and what it says to misuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from test_cli import call

from provenance.cli import commands
from provenance.json_schema import TYPES

SCHEMAS = Path(__file__).parent.parent / "schemas"


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["datum"], "datum.json"),
        ([], "bundle.json"),
        (["--profile", "openapi"], "openapi.json"),
    ],
)
def test_command_prints_what_the_files_hold(arguments: list[str], file: str) -> None:
    done = call("schema", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (SCHEMAS / file).read_text()


def test_command_prints_columns() -> None:
    done = call("schema", "sequence", "--format", "arrow")
    assert done.stdout.splitlines()[:3] == [
        "sequence_id: string",
        "session_id: string",
        "prompt_tokens: list<item: int32>",
    ]
    whole = call("schema", "--format", "arrow").stdout
    assert whole.startswith("# datum\ndatum_id: string\n")
    assert whole.endswith("# sequence\n" + done.stdout)


@pytest.mark.parametrize(
    ("arguments", "files_written"),
    [
        (["tensor"], ["tensor.json"]),
        (["datum", "--profile", "openapi"], ["datum.openapi.json"]),
        (["--format", "arrow"], ["datum.arrows", "sequence.arrows"]),
    ],
)
def test_command_writes_files(arguments: list[str], files_written: list[str], tmp_path: Path) -> None:
    done = call("schema", *arguments, "--output", tmp_path / "new")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == files_written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datums"], "no type is called 'datums'; known are datum, "),
        (
            ["report", "--format", "arrow"],
            "no type with columns is called 'report'; known are datum, sequence",
        ),
        (["datum", "--check"], "--check looks at all files, leave out TYPE"),
        (["--format", "arrow", "--profile", "openapi"], "--profile is for JSON"),
        (["--output", ""], "'' is no folder; leave the option out to print"),
        (["--output", "-"], "'-' is no folder; leave the option out to print"),
        (["--check", "--output", ""], "'' is no folder"),
    ],
)
def test_misuse_gets_one_line(arguments: list[str], message: str) -> None:
    done = call("schema", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_types_are_completed() -> None:
    completer = ShellComplete(commands, {}, "provenance", "_PROVENANCE_COMPLETE")
    assert [item.value for item in completer.get_completions(["schema"], "se")] == ["sequence"]
    assert [item.value for item in completer.get_completions(["schema"], "")] == list(TYPES)


def test_bundle_loads_nothing_heavy() -> None:
    script = "import sys, provenance.json_schema as s; s.bundle(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"pyarrow", "torch", "hypothesis", "sqlalchemy", "rich", "jsonschema"} & set(loaded.split())
