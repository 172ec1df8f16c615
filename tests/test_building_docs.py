"""docs/building.md shows what its code prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "building.md"


def test_the_page_shows_what_its_code_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert shown
    exec(compile(code, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == shown
