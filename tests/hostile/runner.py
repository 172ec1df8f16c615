"""Children that read hostile files, and the file on which one died, hung or gave a wrong answer."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds until an answer, where the machine has much else to do; what computes for long a child ends itself.
_PATIENCE = 120.0
#: Files that one child reads: what one leaves behind should not gather.
_FILES = 2000
_TESTS = Path(__file__).resolve().parents[1]


@dataclass
class Outcome:
    """What came of the files of some readers."""

    readers: Sequence[str]
    files: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)
    """Number of a file -> what it did."""
    peak: int = 0
    """MiB, the libraries and the other readings included."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {word}" for word, count in sorted(self.outcomes.items()))
        lines = [f"{','.join(self.readers)}: {self.files} files: {counts}; peak {self.peak} MiB"]
        alike: dict[str, list[int]] = {}
        for number, what in self.faults.items():
            alike.setdefault(what, []).append(number)
        for what, numbers in alike.items():
            some = ", ".join(map(str, numbers[:5]))
            lines.append(f"  {len(numbers)} faults (files {some}): {what}")
        return "\n".join(lines)


def run(
    readers: Sequence[str],
    count: int,
    first: int,
    folder: Path,
    *,
    module: str = "hostile.readers",
    patience: float = _PATIENCE,
    most: int = 20,
) -> Outcome:
    """Read the files from ``first`` on, readers taking turns; those with a fault stay in the folder.

    Args:
        readers: Names of readers.
        count: How many files.
        first: Number of the first: a file is made from its number and the name of its reader.
        folder: Where files are made.
        module: What holds the table of readers.
        patience: Seconds that a file may take.
        most: Stop after so many faults.
    """
    result = Outcome(readers)
    number, end = first, first + count
    while number < end and len(result.faults) < most:
        last = min(number + _FILES, end)
        number = _child(result, [module, ",".join(readers), str(number), str(last), str(folder)], patience)
    return result


def _child(result: Outcome, arguments: list[str], patience: float) -> int:
    """Read files until the child ends; the number of the next one."""
    first, last = int(arguments[2]), int(arguments[3])
    command = [sys.executable, "-m", "hostile.child", *arguments]
    paths = os.pathsep.join(filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        current, hung = first, False
        with process:
            assert process.stdout is not None
            while select.select([process.stdout], [], [], patience)[0]:
                line = process.stdout.readline()
                if not line:
                    break
                number, done = _noted(result, line)
                current = number + done
            else:
                hung = True
                process.send_signal(signal.SIGABRT)  # the child says where it is
        if current >= last:
            return last
        errors.seek(0)
        told = errors.read().decode(errors="replace")[:1500]
    what = f"no answer within {patience:g} s" if hung else f"ended with {process.returncode}"
    name = result.readers[current % len(result.readers)]
    result.faults[current] = f"{name}: {what}\n{told}"
    result.files += 1
    for path in Path(arguments[4]).glob("hostile.*"):
        path.rename(path.with_name(f"{name}-{current}{path.name.removeprefix('hostile')}"))
    return current + 1


def _noted(result: Outcome, line: str) -> tuple[int, bool]:
    """Take down a line of a child: the number of a file, and whether it was read."""
    number, _, rest = line.strip().partition(" ")
    if not rest:
        return int(number), False
    peak, _, outcome = rest.partition(" ")
    result.files += 1
    result.peak = max(result.peak, int(peak))
    result.outcomes[outcome.partition(" ")[0]] += 1
    if outcome.startswith("fault"):
        result.faults[int(number)] = outcome.partition(" ")[2]
    return int(number), True
