"""Processes that record into one ledger."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from provenance import SqlLedger

HERE = str(Path(__file__).parent)

# Each batch is one transaction of 5 sequences whose prompts grow, as those of turns do.
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from _ledgers import sequence
from provenance import SqlLedger

def batch(writer, number):
    return [
        sequence(f"{writer}-{number}-{turn}", prompt_tokens=range(number, number + 150 * turn), seed=number)
        for turn in range(5)
    ]
"""


def start(code: str, place: object, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER + code, str(place), HERE, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results_of(processes: list[subprocess.Popen[str]]) -> list[int]:
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [err for _, err in outputs] == [""] * len(processes)
    return [int(out) for out, _ in outputs]


def assert_whole(ledger: SqlLedger) -> dict[int, int]:
    """Every sequence can be read with its prompt; returns how many of each batch of writer w there are."""
    batches: dict[int, int] = {}
    for table in ledger.tables():
        for i, name in enumerate(table.sequence_id):
            writer, number, turn = name.split("-")
            expected = list(range(int(number), int(number) + 150 * int(turn)))
            assert table.prompt(i).tolist() == expected, name
            if writer == "w":
                batches[int(number)] = batches.get(int(number), 0) + 1
    return batches
