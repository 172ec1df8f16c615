"""Whatever code and commands docs/ shows are run, and print what it shows.

`python tests/test_docs_blocks.py [PAGE...]` writes what they print into the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from _docs import DOCS, FENCE, FILE, NOT_RUN, PAGES, agrees, blocks_of, run, steps_of, write

#: What a page needs beside the package; it is skipped where that is missing.
NEEDS = {
    "pipelines.md": ("datasets", "polars", "torch"),
    "reports.md": ("jinja2", "vl_convert"),
    "tinker.md": ("tinker",),
    "tutorial.md": ("torch",),
}
#: The pages that the quick suite runs; the others take longer.
QUICK = {"building.md", "configuration.md", "notebooks.md", "writing-a-rule.md"}
#: What would be code that nobody runs.
ALIASES = {"", "bash", "py", "pycon", "python3", "sh", "shell", "zsh"}
#: A command that stands where nobody runs it.
BARE = re.compile(r"^    (?:provenance|python3?|pip|pytest|nox|npx) ", re.MULTILINE)


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def runnable() -> list[object]:
    pages = [page for page in PAGES if any(steps_of(text_of(page)))]
    return [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in pages]


@contextmanager
def circumstances(page: str) -> Iterator[Mapping[str, str]]:
    """The environment variables under which a page is run."""
    if page != "tinker.md":
        yield {}
        return
    from _server import running

    with running() as server:
        yield {"TINKER_BASE_URL": server.url, "TINKER_API_KEY": "tml-nobody", "TINKER_TELEMETRY": "0"}


@pytest.mark.parametrize("page", runnable())
def test_a_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    for name in NEEDS.get(page, ()):
        pytest.importorskip(name)
    with circumstances(page) as environment:
        ran = run(page, tmp_path, environment)
    for step, printed in ran:
        if step.shown is not None and not agrees(step.shown, printed):
            assert step.shown == printed, f"mend it with: python tests/test_docs_blocks.py {page}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    text = text_of(page)
    blocks = blocks_of(text)
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks), "a fence that is not understood"
    for block in blocks:
        where = f"line {block.line}: {block.language!r} {block.title!r}"
        assert block.language not in ALIASES, where
        assert not block.title or FILE.fullmatch(block.title) or len(block.title) > len(NOT_RUN), where
        assert not block.title or FILE.fullmatch(block.title) or block.title.startswith(NOT_RUN), where
        assert block.language != "console" or block.text.startswith("$ "), f"{where}: no command after $"
    bare = BARE.search(FENCE.sub("", text))
    assert bare is None, f"{bare and bare.group()!r} is no ```console block"


def test_what_differs_is_noticed() -> None:
    assert agrees("a\n...\nz\n", "a\nb\nc\nz\n")
    assert agrees("at 2026-01-02T10:00:00Z\n", "at 2027-01-02T10:00:00.5Z\n")
    assert not agrees("a\n...\nz\n", "a\nb\nc\n")
    assert not agrees("1.5\n", "1x5\n")
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\nThen:\n\n```console\n$ true \\\n  a\n$ b\nc\n```\n"
    two_lines = "true \\\n  a"
    shown = [("print(1)\n", "1\n"), (f"_shell({two_lines!r})\n", None), ("_shell('b')\n", "c\n")]
    assert [(step.code, step.shown) for step in steps_of(page)] == shown


if __name__ == "__main__":
    import sys
    import tempfile

    for page in sys.argv[1:] or PAGES:
        if any(steps_of(text_of(page))):
            with tempfile.TemporaryDirectory() as name, circumstances(page) as environment:
                write(page, run(page, Path(name), environment))
