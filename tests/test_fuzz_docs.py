"""docs/fuzzing.md shows real matrices. `python tests/test_fuzz_docs.py` writes them anew."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import call

PAGE = Path(__file__).parent.parent / "docs" / "fuzzing.md"
FILE = re.compile(r"<!-- file: (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)```\n", re.DOTALL)
CONSOLE = re.compile(r"```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n(?P<text>.*?)```\n", re.DOTALL)


#: With `python`, which is the interpreter of these tests.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def prepare(folder: Path) -> Path:
    """The files that the page shows, and the data."""
    text = PAGE.read_text(encoding="utf-8")
    for block in FILE.finditer(text):
        (folder / block["name"]).write_text(block["text"], encoding="utf-8")
    printed(next(CONSOLE.finditer(text))["command"], folder)
    return folder


def printed(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command.replace("\\\n", ""))
    assert program == "provenance"
    with contextlib.chdir(folder):
        done = call(*arguments)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("docs"))


def compare(folder: Path, *, against: bool) -> int:
    blocks = list(CONSOLE.finditer(PAGE.read_text(encoding="utf-8")))
    chosen = [block for block in blocks if ("--against" in block["command"]) == against]
    for block in chosen:
        shown = printed(block["command"], folder)
        assert block["text"] == shown, "mend it with: python tests/test_fuzz_docs.py"
    return len(chosen)


def test_outputs_are_what_the_commands_print(folder: Path) -> None:
    assert compare(folder, against=False) == 3


@pytest.mark.slow
def test_the_matrix_of_the_script_is_what_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)
    assert compare(folder, against=True) == 1


@pytest.mark.slow
def test_the_tests_pass(folder: Path) -> None:
    names = ["test_pipeline.py", "test_generated.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def write(folder: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for block in CONSOLE.finditer(text):
        command = block["command"]
        text = text.replace(block.group(), f"```console\n$ {command}\n{printed(command, folder)}```\n")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    os.environ["PATH"] = PATH
    with tempfile.TemporaryDirectory() as name:
        write(prepare(Path(name)))
