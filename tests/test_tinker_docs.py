"""The examples of docs/tinker.md run, in their order, against a server on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from _server import running

DOCS = Path(__file__).parent.parent / "docs" / "tinker.md"


def test_the_examples_run(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    script = tmp_path / "examples.py"
    script.write_text("".join(blocks), encoding="utf-8")
    with running() as server:
        known = {"BASE_URL": server.url, "API_KEY": "tml-nobody", "TELEMETRY": "0"}
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env={**os.environ, **{f"TINKER_{name}": value for name, value in known.items()}},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "{'loss:sum': 4.0}\n{'VAL002'}\n"
        assert len(server.trained) == 1
