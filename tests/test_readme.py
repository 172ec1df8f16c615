"""README.md shows the real output of real commands. `python tests/test_readme.py` writes it anew."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import provenance

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
OUTPUT = re.compile(r"<!-- output: (?P<command>.*?) -->\n```text\n(?P<text>.*?)```\n", re.DOTALL)


#: What differs from one run to the next: times, and ages.
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z|\d+:\d{2}:\d{2}(\.\d+)?(?= ago)")


def timeless(text: str) -> str:
    return MOMENT.sub("<moment>", text)


def output_of(command: str, folder: Path) -> str:
    program, *arguments = shlex.split(command)
    assert program == "provenance"
    done = subprocess.run(
        [sys.executable, "-m", "provenance", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    output_of("provenance demo", folder)
    return folder


def test_output_blocks_are_what_the_commands_print(demo: Path) -> None:
    blocks = list(OUTPUT.finditer(README.read_text(encoding="utf-8")))
    assert len(blocks) == 2
    for block in blocks:
        shown, printed = timeless(block["text"]), timeless(output_of(block["command"], demo))
        assert shown == printed, "mend it with: python tests/test_readme.py"


def test_python_blocks_run(
    demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(demo)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    script = demo / "readme.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(script))
    runpy.run_path(str(script))  # as who reads on and tries it again
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("False 7 {")
    assert printed[-1].startswith("<ValidatedBatch of 2 datums, 10 positions")


def test_the_contract_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "contract.toml"
    path.write_text(block, encoding="utf-8")
    contract = provenance.Contract.load(path)
    assert contract.parameters.vocab_size == 151936
    assert "SEQ010" not in contract.severities


def write(folder: Path) -> None:
    text = README.read_text(encoding="utf-8")
    for block in OUTPUT.finditer(text):
        shown = block.group().replace(
            f"```text\n{block['text']}```", f"```text\n{output_of(block['command'], folder)}```"
        )
        text = text.replace(block.group(), shown)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
