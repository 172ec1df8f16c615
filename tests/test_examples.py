"""The shortest complete loop, run as its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "train_tiny.py"


@pytest.mark.slow
def test_the_shortest_loop_learns() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    rewards = [float(reward) for reward in re.findall(r"reward (\d\.\d+)", done.stdout)]
    assert len(rewards) == 6
    assert rewards[0] < 0.2
    assert rewards[-1] > 0.5
    assert done.stderr == ""
