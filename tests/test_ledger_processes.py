"""Ledgers that processes share, and processes that die while they write."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from _ledgers import HOUR, NOON, postgresql, sequence

import provenance
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

# Prints a batch's number when it was acknowledged.
ENDLESS = """
ledger, number = SqlLedger(sys.argv[1]), int(sys.argv[3])
while True:
    assert ledger.record(batch("w", number)) == 5
    print(number, flush=True)
    number += 1
"""

# Records own batches and those that all writers have, many at a time, each in an order of its own.
SHARED = """
import random
writer, count = sys.argv[3], int(sys.argv[4])
order = random.Random(writer)
work = [s for number in range(count) for w in (writer, "all") for s in batch(w, number)]
order.shuffle(work)
with SqlLedger(sys.argv[1]) as ledger:
    print(sum(ledger.record(work[start : start + 100]) for start in range(0, len(work), 100)))
"""

# Uses and forgets what the others record, over and over.
PRUNE = """
from _ledgers import NOON, HOUR
import time
pruned, end = 0, time.monotonic() + float(sys.argv[3])
with SqlLedger(sys.argv[1]) as ledger:
    while time.monotonic() < end:
        ids = [i for table in ledger.tables() for i in table.sequence_id if i.startswith("all")]
        ledger.renew(ids[::5], "s", NOON + HOUR)
        pruned += ledger.prune(NOON + HOUR)
print(pruned)
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


def kill_while_writing(path: Path, rounds: int, seed: int) -> None:
    moments = random.Random(seed)
    acknowledged: set[int] = set()
    started = 0
    for _ in range(rounds):
        writer = start(ENDLESS, path, started)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, writer.communicate()
        time.sleep(moments.uniform(0, 0.3))
        writer.send_signal(signal.SIGKILL)
        rest, errors = writer.communicate(timeout=60)
        assert errors == ""
        acknowledged |= {int(line) for line in (first + rest).splitlines() if line}
        with SqlLedger(path, read_only=True) as ledger:  # with the log that the writer left
            batches = assert_whole(ledger)
        assert set(batches.values()) == {5}
        assert acknowledged <= set(batches)
        started = max(batches) + 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(acknowledged) > rounds


def test_a_writer_that_is_killed_leaves_whole_batches(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "x.db", rounds=1, seed=0)


@pytest.mark.slow
def test_a_writer_that_is_killed_many_times(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "x.db", rounds=15, seed=1)


def record_at_once(place: Any, writers: int, count: int) -> None:
    new = results_of([start(SHARED, place, f"p{writer}", count) for writer in range(writers)])
    assert sum(new) == 5 * count * (writers + 1)
    with SqlLedger(place) as ledger:
        assert ledger.stats().sequences == sum(new)
        assert_whole(ledger)
        assert ledger.lookup([f"all-{count - 1}-4", f"p0-{count - 1}-4"], "s").known.all()
        # Five turns of equal text: only one chain of blocks, and the ends of the shorter ones.
        assert ledger.stats().prompts == 4 * count


@pytest.mark.slow
def test_eight_processes_record_into_one_file(tmp_path: Path) -> None:
    record_at_once(tmp_path / "x.db", 8, 30)


@pytest.mark.slow
def test_four_processes_record_into_one_server() -> None:
    record_at_once(postgresql(), 4, 40)


def prune_meanwhile(place: Any) -> None:
    SqlLedger(place).close()
    pruner = start(PRUNE, place, 8)
    while pruner.poll() is None:
        results_of([start(SHARED, place, f"p{writer}", 20) for writer in range(2)])
    assert results_of([pruner])[0] > 0
    with SqlLedger(place) as ledger:
        assert_whole(ledger)
        kept = ledger.stats()
        # Of what is left nothing is superfluous: the sweep finds no block to delete.
        ledger.record([sequence("gone-0-0", prompt_tokens=[], sampled_at=NOON - 9 * HOUR)])
        assert ledger.prune(NOON - HOUR) == 1
        assert ledger.stats().prompt_blocks == kept.prompt_blocks


@pytest.mark.slow
def test_pruning_a_file_beside_writers(tmp_path: Path) -> None:
    prune_meanwhile(tmp_path / "x.db")


@pytest.mark.slow
def test_pruning_a_server_beside_writers() -> None:
    prune_meanwhile(postgresql())


@pytest.mark.parametrize(
    "again",
    [
        lambda path: provenance.check([], ledger=path, session="s"),
        lambda path: SqlLedger(path).close(),
        lambda path: SqlLedger(path, read_only=True).stats(),
        lambda path: provenance.check([], ledger=str(path.with_suffix(".txt")), session="s"),
    ],
    ids=["check", "second", "read only", "by another name"],
)
def test_opening_a_ledger_twice_keeps_its_locks(tmp_path: Path, again: Any) -> None:
    # POSIX drops a process's locks on a file when it closes any descriptor of it.
    path = tmp_path / "x.db"
    path.with_suffix(".txt").symlink_to(path)

    def elsewhere(name: str) -> None:
        record = "with SqlLedger(sys.argv[1]) as ledger:\n    ledger.record([sequence(sys.argv[3])])\n"
        subprocess.run([sys.executable, "-c", WRITER + record, path, HERE, name], check=True)

    with SqlLedger(path) as ledger:
        ledger.record([sequence("a")])
        again(path)
        elsewhere("b")
        assert ledger.record([sequence("c")]) == 1
        elsewhere("d")
        assert ledger.record([sequence("e")]) == 1
    with SqlLedger(path, read_only=True) as ledger:
        assert ledger.lookup(list("abcde"), "s").known.all()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
