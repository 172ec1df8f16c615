"""Where users check: the hook for pre-commit and the action for GitHub, each run as its host runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import provenance
from provenance.rules import case
from provenance.rules._examples import NOW

ROOT = Path(__file__).parent.parent
#: Names that a shell would make commands of, and one that would be an option.
HOSTILE = [
    "$(touch pwned).jsonl",
    "`touch pwned`.jsonl",
    "a; touch pwned; .jsonl",
    "a && touch pwned .jsonl",
    "a b' \" \\.jsonl",
    "--output=pwned.jsonl",
    "${{ github.token }}.jsonl",
]


def tool(name: str) -> str:
    """Path of a command, which may stand beside this interpreter; skips where there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if "No matching distribution" in done.stdout + done.stderr:
        pytest.skip("pip reaches no packages")
    return done


def action() -> Mapping[str, Any]:
    yaml = pytest.importorskip("yaml")
    parsed: Mapping[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return parsed


def write(folder: Path, name: str, *, valid: bool = True) -> str:
    changes = {} if valid else {"loss_fn_inputs.logprobs.data": [0.5, 0.0, -0.125, 0.5, 0.5]}
    provenance.write_datums(case(changes).datums, folder / name)
    return name


# --- the hook -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_manifest_of_the_hook_is_valid() -> None:
    done = run([tool("pre-commit"), "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")], ROOT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, as pre-commit clones it."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git = [tool("git"), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        done = run([*git, *command], folder)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_hook_checks_the_files_that_are_committed(project: Path, tmp_path: Path) -> None:
    pre_commit = tool("pre-commit")
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, "good.jsonl")
    write(folder, "good.parquet")
    write(folder, "bad.jsonl", valid=False)
    (folder / "readme.md").write_text("no data")
    commit(folder)

    def outcome(*files: str) -> subprocess.CompletedProcess[str]:
        command = [pre_commit, "try-repo", str(project), "provenance-check", "--files", *files]
        return run(command, folder, PRE_COMMIT_HOME=str(tmp_path / "cache"), PRE_COMMIT_COLOR="never")

    done = outcome("good.jsonl", "good.parquet", "readme.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
    done = outcome("good.jsonl", "bad.jsonl")
    assert done.returncode == 1
    assert "bad.jsonl: line 1: logprobs[0]: VAL002 positive-logprob" in done.stdout
    assert "(no files to check)Skipped" in outcome("readme.md").stdout


# --- the action -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_action_is_valid() -> None:
    schema = ["--builtin-schema", "vendor.github-actions"]
    done = run([tool("check-jsonschema"), *schema, str(ROOT / "action.yml")], ROOT)
    assert done.returncode == 0, done.stdout


def test_no_input_of_the_action_is_in_its_script() -> None:
    (step,) = action()["runs"]["steps"]
    assert "${{" not in step["run"]
    given = {value for value in step["env"].values() if "inputs." in value}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in action()["inputs"]}


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the step as GitHub does: https://docs.github.com/actions/using-workflows (shell: bash)."""
    (step,) = action()["runs"]["steps"]
    assert step["shell"] == "bash"
    given = {name: declared.get("default", "") for name, declared in action()["inputs"].items()} | inputs
    env = {name.upper(): value for name, value in given.items()}
    script = folder.parent / "script.sh"
    script.write_text(step["run"])
    shell = [tool("bash"), "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    (folder.parent / "temporary").mkdir(exist_ok=True)
    env |= {"ACTION": str(ROOT), "RUNNER_TEMP": str(folder.parent / "temporary")}
    env["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    return run(shell, folder, **env)


@pytest.mark.slow
def test_the_action_checks_files_whatever_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in HOSTILE:
        write(folder, name)
    write(folder, "bad.jsonl", valid=False)
    sequences = "$(touch pwned) sequences.jsonl"
    provenance.write_sequences(case().sequences, folder / sequences)
    session, output = "$(touch pwned); --output=pwned", "`touch pwned`.json"
    done = run_action(
        folder,
        data="\r\n".join([*HOSTILE, "", "ba?.jsonl"]),
        ledger=sequences,
        session=session,
        format="json",
        output=output,
        args=f"--now\n{NOW}\n--ignore\nSEQ010,SES001",
        python=sys.executable,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads((folder / output).read_text())
    assert report["session"] == session
    assert report["datums"] == len(HOSTILE) + 1
    assert {violation["file"] for violation in report["violations"]} == {"bad.jsonl"}
    assert report["checked"]["SEQ001"] > 0
    assert "pwned" not in names(folder)
    assert names(folder.parent / "temporary") == []


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
