"""The blocks of a page of docs/, and what they print when they are run.

A page is run as one script, in a folder of its own, in the order of the page:

- ``python`` blocks share their names; the ``text`` block right after one is what it prints, and without one
  it prints nothing.
- ``console`` blocks hold commands after ``$``, each with what it prints, or with nothing, which is not
  compared then. Exit status 0 and 1 are fine.
- A block whose title is a file name is written to that file first; one whose title says ``not tested:`` and
  why is left alone.

In what a block shows, a line ``...`` stands for any number of lines, and moments and ages for any others.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
NOT_RUN = "not tested: "
FENCE = re.compile(
    r"^(?P<head>```(?P<language>\S*)(?: title=\"(?P<title>[^\"\n]*)\")?)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n(?P<shown>(?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
FILE = re.compile(r"[\w.-]+\.\w+")
#: What differs from one run to the next: times, and ages.
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z|\d+:\d{2}:\d{2}(\.\d+)?(?= ago)")

_END = "---- end of a step ----\n"
_PRELUDE = """
import subprocess as _subprocess, sys as _sys

def _shell(command):
    done = _subprocess.run(["bash", "-c", command], stdout=-1, stderr=-2, text=True)
    _sys.stdout.write(done.stdout)
    if done.returncode not in (0, 1):
        _sys.exit(f"{command}: exit status {done.returncode}\\n{done.stdout}")
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    text: str
    line: int


@dataclass(frozen=True)
class Step:
    """One thing that is run: the code of a block, or a command."""

    code: str
    shown: str | None
    """What the page says it prints; None where the page does not say."""
    place: tuple[int, int]
    """Where in the page that stands, or would stand."""


def blocks_of(text: str) -> list[Block]:
    return [
        Block(found["language"], found["title"] or "", found["text"], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def block(page: str, start: str) -> str:
    """The text of the one block of a page that starts so."""
    found = [
        each.text
        for each in blocks_of((DOCS / page).read_text(encoding="utf-8"))
        if each.text.startswith(start)
    ]
    assert len(found) == 1, f"docs/{page}: {len(found)} blocks start with {start!r}"
    return found[0]


def steps_of(text: str) -> Iterator[Step]:
    fences = list(FENCE.finditer(text))
    for fence, after in zip_longest(fences, fences[1:]):
        if fence["title"]:
            continue
        if fence["language"] == "python":
            output = after if after and after["head"] == "```text" else None
            between = text[fence.end() : output.start()].strip() if output else ""
            if output is None or between:
                yield Step(fence["text"], "", (fence.end(), fence.end()))
            else:
                yield Step(fence["text"], output["text"], output.span("text"))
        elif fence["language"] == "console":
            for found in COMMAND.finditer(fence["text"]):
                start, end = (fence.start("text") + offset for offset in found.span("shown"))
                yield Step(f"_shell({found['command']!r})\n", found["shown"] or None, (start, end))


def run(page: str, folder: Path, environment: Mapping[str, str]) -> list[tuple[Step, str]]:
    """Run a page; what each of its steps printed."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in blocks_of(text):
        if FILE.fullmatch(block.title):
            (folder / block.title).write_text(block.text, encoding="utf-8")
    steps = list(steps_of(text))
    script = folder / "page.py"
    end = f"print({_END!r}, end='', flush=True)\n"
    script.write_text(_PRELUDE + "".join(f"{step.code}\n{end}" for step in steps), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"docs/{page}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    *printed, rest = done.stdout.split(_END)
    assert not rest
    return list(zip(steps, printed, strict=True))


def agrees(shown: str, printed: str) -> bool:
    """Whether a page may show this for what was printed."""
    pattern = re.escape(timeless(shown)).replace(re.escape("...\n"), r"(?:[^\n]*\n)*")
    return re.fullmatch(pattern, timeless(printed)) is not None


def timeless(text: str) -> str:
    return MOMENT.sub("<moment>", text)


def write(page: str, ran: list[tuple[Step, str]]) -> None:
    """Put what was printed into the page, where it shows something else and leaves nothing out."""
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    for step, printed in reversed(ran):
        start, end = step.place
        if step.shown is not None and "...\n" not in step.shown and not agrees(step.shown, printed):
            block = (
                printed if step.shown or not text[:start].endswith("```") else f"\n\n```text\n{printed}```"
            )
            text = text[:start] + block + text[end:]
    path.write_text(text, encoding="utf-8")
