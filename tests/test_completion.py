"""What a shell completes, asked of a real bash where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import call

from provenance.loss_spec import LOSSES
from provenance.rules import registry

BASH = shutil.which("bash")
ADV = sorted(code for code in registry() if code.startswith("ADV"))
FAMILIES = sorted({code[:3] for code in registry()})
#: Completes the words that follow it as bash does when Tab is pressed after the last.
ASK = """
source "$1"; shift
compopt() { printf 'compopt %s %s\\n' "$1" "$2"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_provenance_completion provenance
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("shell", "first"),
    [("bash", "_provenance_completion"), ("zsh", "#compdef provenance"), ("fish", "function")],
)
def test_the_script_ends_with_how_to_install_it(shell: str, first: str) -> None:
    done = call("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(first)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("# To install, ")
    assert f"provenance completion {shell}" in last


@pytest.mark.parametrize("arguments", [["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]])
def test_other_shells_are_refused(arguments: list[str]) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH with the command as this interpreter runs it, and the script for bash."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "provenance"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m provenance "$@"\n')
    command.chmod(0o755)
    (folder / "script").write_text(call("completion", "bash").stdout)
    return folder


COMPLETED = {
    "commands": (["compl"], ["completion"]),
    "options": (["check", "--stat"], ["--statistics"]),
    "a family after a comma": (["check", "--ignore", "SPN,ad"], [f"SPN,{code}" for code in ("ADV", *ADV)]),
    "all families": (["check", "--select", ""], [*FAMILIES, *sorted(registry())]),
    "losses": (["check", "--loss", ""], list(LOSSES)),
    "losses of rules": (["rules", "--loss", "pp"], ["ppo"]),
    "codes to explain": (["explain", "VAL001", "val"], [c for c in sorted(registry()) if c[:3] == "VAL"]),
    "names to explain": (["explain", "positive"], ["positive-logprob"]),
    "shells": (["completion", "z"], ["zsh"]),
    "files": (["check", "data"], ["compopt -o default", ""]),
    "ledgers": (["inspect", "x.jsonl", "--ledger", "s"], ["compopt -o default", ""]),
    "no command": (["chekc", "--sel"], [""]),
}


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("name", COMPLETED)
def test_bash_completes(name: str, program: Path) -> None:
    words, expected = COMPLETED[name]
    done = subprocess.run(
        [BASH or "bash", "-c", ASK, "bash", str(program / "script"), "provenance", *words],
        env=os.environ | {"PATH": f"{program}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")
