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
from _writers import HERE, WRITER, assert_whole, results_of, start

import provenance
from provenance import SqlLedger

# Prints a batch's number when it was acknowledged.
ENDLESS = """
ledger, number = SqlLedger(sys.argv[1]), int(sys.argv[3])
while True:
    assert ledger.record(batch("w", number)) == 5
    print(number, flush=True)
    number += 1
"""

# Records own batches and those that all writers have, many at a time, in an order of its own, and uses them.
SHARED = """
import random
writer, count = sys.argv[3], int(sys.argv[4])
order = random.Random(writer)
work = [s for number in range(count) for w in (writer, "all") for s in batch(w, number)]
order.shuffle(work)
parts = [work[start : start + 100] for start in range(0, len(work), 100)]
new = 0
with SqlLedger(sys.argv[1]) as ledger:
    for part in parts:
        new += ledger.record(part)
        if sys.argv[5:] == ["renew"]:
            ledger.renew([s.sequence_id for s in part], "s", part[0].sampled_at)
print(new)
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


def kill_while_writing(place: Any, rounds: int, seed: int) -> None:
    moments = random.Random(seed)
    acknowledged: set[int] = set()
    started = 0
    for _ in range(rounds):
        writer = start(ENDLESS, place, started)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first, writer.communicate()
        time.sleep(moments.uniform(0, 0.3))
        writer.send_signal(signal.SIGKILL)
        rest, errors = writer.communicate(timeout=60)
        assert errors == ""
        acknowledged |= {int(line) for line in (first + rest).splitlines() if line}
        with SqlLedger(place, read_only=True) as ledger:  # of a file, with the log that the writer left
            batches = assert_whole(ledger)
        assert set(batches.values()) == {5}
        assert acknowledged <= set(batches)
        started = max(batches) + 2  # a server may be about to commit one more
    assert len(acknowledged) > rounds


def assert_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_writer_that_is_killed_leaves_whole_batches(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "x.db", rounds=1, seed=0)
    assert_sound(tmp_path / "x.db")


@pytest.mark.slow
def test_a_writer_that_is_killed_many_times(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "x.db", rounds=15, seed=1)
    assert_sound(tmp_path / "x.db")


@pytest.mark.slow
def test_a_writer_to_a_server_that_is_killed_many_times() -> None:
    kill_while_writing(postgresql(), rounds=10, seed=2)


def record_at_once(place: Any, writers: int, count: int) -> None:
    new = results_of([start(SHARED, place, f"p{writer}", count, "renew") for writer in range(writers)])
    assert sum(new) == 5 * count * (writers + 1)
    with SqlLedger(place) as ledger:
        assert ledger.stats().sequences == sum(new)
        assert ledger.stats().used_again == 5 * count
        assert ledger.uses("all-0-0", "s") == writers
        assert_whole(ledger)
        assert ledger.lookup([f"all-{count - 1}-4", f"p0-{count - 1}-4"], "s").known.all()
        # Five turns of equal text: only one chain of blocks, and the ends of the shorter ones.
        assert ledger.stats().prompts == 4 * count


@pytest.mark.slow
def test_eight_processes_record_into_one_file(tmp_path: Path) -> None:
    record_at_once(tmp_path / "x.db", 8, 30)


@pytest.mark.slow
def test_eight_processes_record_into_one_server() -> None:
    record_at_once(postgresql(), 8, 40)


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


# Looks up what others record and prune, and says how much of it was there and how much was not.
LOOK_UP = """
import random, time
end = time.monotonic() + float(sys.argv[3])
there, gone = 0, 0
with SqlLedger(sys.argv[1]) as ledger:
    while time.monotonic() < end:
        wanted = [(number, turn) for number in random.sample(range(200), 100) for turn in range(5)]
        table = ledger.lookup([f"all-{number}-{turn}" for number, turn in wanted], "s")
        for i, (number, turn) in enumerate(wanted):
            if table.known[i]:
                assert table.prompt(i).tolist() == list(range(number, number + 150 * turn)), (number, turn)
                assert table.tokens(i).tolist() == [21, 22]
            else:
                assert not table.prompt_length[i] and not table.token_length[i]
        there, gone = there + int(table.known.sum()), gone + int((~table.known).sum())
print(there if gone else 0)
"""

# Records the same again and again, so that what it names may be what is being deleted.
AGAIN = """
import time
end, new = time.monotonic() + float(sys.argv[3]), 0
with SqlLedger(sys.argv[1]) as ledger:
    while time.monotonic() < end:
        new += sum(ledger.record(batch("all", number)) for number in range(200))
print(new)
"""


def look_up_meanwhile(place: Any) -> None:
    SqlLedger(place).close()
    scripts = [PRUNE, AGAIN, LOOK_UP, LOOK_UP]
    pruned, *others = results_of([start(script, place, 8) for script in scripts])
    assert pruned > 100
    assert all(others)
    with SqlLedger(place) as ledger:
        assert_whole(ledger)


@pytest.mark.slow
def test_looking_up_in_a_file_that_is_pruned(tmp_path: Path) -> None:
    look_up_meanwhile(tmp_path / "x.db")


@pytest.mark.slow
def test_looking_up_in_a_server_that_is_pruned() -> None:
    look_up_meanwhile(postgresql())


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
