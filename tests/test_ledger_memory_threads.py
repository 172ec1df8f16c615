"""A ledger that threads share is copied, pickled and forked as it is between two of their calls."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _ledgers import HOUR, NOON, sequence

from provenance import Ledger, MemoryLedger, ParquetLedger
from provenance.sequences import ABSENT, microseconds, table_of_models

TALK = [7] * 300


class Subclass(MemoryLedger):
    note = "class"


def ledger_of_some() -> MemoryLedger:
    ledger = Subclass(sequence(str(i), prompt_tokens=[*TALK, i], tokens=[i, 0]) for i in range(100))
    ledger.note = "own"
    ledger.renew(["3"], "s", NOON + HOUR)
    return ledger


def assert_as_it_was(ledger: Any) -> None:
    """It holds what `ledger_of_some` does, and nothing else."""
    assert (len(ledger), ledger.note) == (100, "own")
    found = ledger.lookup([*map(str, range(100)), "later"], "s")
    assert found.known.tolist() == [True] * 100 + [False]
    assert [found.tokens(i).tolist() for i in range(100)] == [[i, 0] for i in range(100)]
    assert [found.prompt(i).tolist() for i in range(100)] == [[*TALK, i] for i in range(100)]
    expected = [microseconds(NOON + HOUR) if i == 3 else ABSENT for i in range(100)]
    assert found.last_used_at[:100].tolist() == expected
    assert not found.conflicting.any()
    assert [ledger.uses("3", "s"), ledger.uses("4", "s")] == [1, 0]
    stats = ledger.stats()
    assert (stats.prompts, stats.stored_bytes) == (100, 100 * (301 + 2 + 2) * 4)
    assert [home.session_id for home in stats.sessions] == ["s"]


def write_more(ledger: MemoryLedger) -> None:
    ledger.renew(["3", "4"], "s", NOON + 2 * HOUR)
    ledger.load(table_of_models([sequence("5", tokens=[1, 2])]))  # a conflict
    ledger.record([sequence("later", prompt_tokens=[*TALK, 1], tokens=[9, 9])])
    ledger.record([sequence("3", "t", prompt_tokens=[*TALK[:-1], 8])])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_and_its_original_are_two(copied: Callable[[Any], Any]) -> None:
    for number in (0, 1):
        ledger = ledger_of_some()
        both = [ledger, copied(ledger)]
        write_more(both[number])
        assert_as_it_was(both[1 - number])
        # A prompt that only the other holds.
        assert both[1 - number].record([sequence("new", prompt_tokens=[*TALK[:-1], 8])]) == 1
        assert [each.stats().prompts for each in both] == [101, 101]


def test_what_is_written_while_it_is_pickled_is_not_in_the_pickle() -> None:
    ledger = ledger_of_some()
    steps = iter([write_more, lambda it: it.prune(NOON + 99 * HOUR), lambda it: it.record([sequence("new")])])

    class Slow(pickle.Pickler):
        def persistent_id(self, part: Any) -> None:
            if isinstance(part, str) and part in ("_uses", "_rows", "7"):
                next(steps, lambda _: None)(ledger)

    buffer = io.BytesIO()
    Slow(buffer).dump(ledger)
    assert next(steps, None) is None
    assert_as_it_was(pickle.loads(buffer.getvalue()))


def test_a_pickle_waits_for_who_writes() -> None:
    ledger = ledger_of_some()
    with ThreadPoolExecutor(1) as pool:
        with ledger._lock:
            pickled = pool.submit(pickle.dumps, ledger)
            with pytest.raises(TimeoutError):
                pickled.result(0.1)
        assert_as_it_was(pickle.loads(pickled.result(30)))


def test_it_is_pickled_between_two_records_of_other_threads() -> None:
    ledger, done = MemoryLedger(), threading.Event()

    def record() -> None:
        for i in range(200):
            ledger.record([sequence(f"{i}-{k}", prompt_tokens=[i], tokens=[i, k]) for k in range(3)])
        done.set()

    with ThreadPoolExecutor(1) as pool:
        recording = pool.submit(record)
        while not done.wait(0.002):
            again = pickle.loads(pickle.dumps(ledger))
            assert len(again) % 3 == 0
            assert again.stats().sequences == len(again) == 3 * again.stats().prompts
        recording.result()


def test_nobody_waits_for_the_iterator_of_what_is_recorded() -> None:
    ledger = MemoryLedger([sequence()])
    with ThreadPoolExecutor(1) as pool:
        given = (sequence(f"b{len(pool.submit(ledger.lookup, ['a'], 's').result(30))}") for _ in range(2))
        assert ledger.record(given) == 1


# Forks

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
# Python's own, of 3.12 and later, about what the locks are there for.
among_threads = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def parquet(folder: Path) -> ParquetLedger:
    record = {
        "sequence_id": "a",
        "session_id": "s",
        "prompt_tokens": [11],
        "tokens": [21],
        "logprobs": [-0.5],
    }
    record |= {"sampled_at": NOON, "record_stability_info": True}
    pq.write_table(pa.Table.from_pylist([record]), folder / "sequences.parquet")
    return ParquetLedger(folder / "sequences.parquet")


@forks
@among_threads
@pytest.mark.parametrize("make", [lambda _: MemoryLedger([sequence()]), parquet], ids=["memory", "parquet"])
def test_a_child_can_ask_what_another_thread_was_writing_to(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    ledger, inside, let_go = make(tmp_path), threading.Event(), threading.Event()

    def write() -> None:
        with ledger._lock:
            inside.set()
            let_go.wait(30)

    def child() -> None:
        with ThreadPoolExecutor(1) as pool:  # its own threads may ask too
            assert pool.submit(ledger.lookup, ["a"], "s").result(4).known.all()

    thread = threading.Thread(target=write)
    thread.start()
    inside.wait(30)
    threading.Timer(0.2, let_go.set).start()
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(5)
    hung = process.exitcode is None
    process.kill()
    thread.join()
    assert not hung
    assert process.exitcode == 0
    assert ledger.lookup(["a"], "s").known.all()


@forks
@among_threads
def test_the_ledger_that_forks_is_free_again_in_both() -> None:
    ledger = MemoryLedger([sequence()])
    with ledger._lock:
        process = multiprocessing.get_context("fork").Process(target=ledger.record, args=([sequence("b")],))
        process.start()
        process.join(30)
    assert process.exitcode == 0
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ledger.record, [sequence("b")]).result(30) == 1


FORKING = """
    import os, threading
    from concurrent.futures import ThreadPoolExecutor
    from provenance import MemoryLedger
    from provenance.ledger._forks import new_lock

    outer, late = new_lock(), []
    forking, held, stop = threading.Event(), threading.Event(), threading.Event()

    def make_and_ask():  # as a ParquetLedger does
        while not stop.is_set():
            with outer:
                MemoryLedger().lookup(["a"], "s")

    def wait_inside():
        with outer:
            inner = new_lock()
            forking.wait(30)
            stop.wait(0.2)  # by now the fork waits
            late.append(new_lock())
            with late[0], inner:
                pass
            pool.submit(hold_late)
            held.wait(30)

    def hold_late():
        with late[0]:
            held.set()
            stop.wait(0.2)

    def fork():
        forking.set()
        pid = os.fork()
        if pid == 0:
            with outer:
                MemoryLedger().lookup(["a"], "s")
            os._exit(0 if late[0].acquire(timeout=5) else 1)
        return os.waitpid(pid, 0)[1]

    with ThreadPoolExecutor(4) as pool:
        pool.submit(wait_inside)
        assert fork() == 0
        busy = [pool.submit(make_and_ask), pool.submit(make_and_ask)]
        assert [fork() for _ in range(20)] == [0] * 20
        two = [pool.submit(lambda: [fork() for _ in range(10)]) for _ in range(2)]
        assert [each.result() for each in two] == [[0] * 10] * 2
        stop.set()
        for each in busy:
            each.result()
    print("done")
"""


@forks
def test_forks_wait_for_ledgers_that_wait_for_others() -> None:
    # In a process of its own, which can be ended where its threads wait for each other.
    run = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORKING)]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_a_ledger_that_is_gone_leaves_no_lock() -> None:
    from provenance.ledger import _forks

    before = len(_forks._living)
    kept: list[Ledger] = [MemoryLedger() for _ in range(5)]
    assert len(_forks._living) == before + 5
    kept.clear()
    assert len(_forks._living) == before
