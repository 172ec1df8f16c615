"""The examples of docs/pipelines.md run, in their order, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "pipelines.md"


@pytest.mark.slow
def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    pytest.importorskip("polars")
    text = PAGE.read_text(encoding="utf-8")
    for command in re.findall(r"^    provenance (.*)$", text, re.MULTILINE):
        run(["-m", "provenance", *shlex.split(command)], tmp_path)
    script = tmp_path / "examples.py"
    script.write_text("".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf-8")
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert shown
    assert run([str(script)], tmp_path) == shown


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
