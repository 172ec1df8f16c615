"""What does the SQLite ledger cost, in time and in space, beside a naive table of the same sequences?

The floor is a table with one row a sequence, its whole prompt in it, filled by sqlite3's `executemany` and
read by its `fetchall`: same primary key, same pragmas, same transactions of 128 sequences. The ledger records
models and answers with tables. One process and eight at once, which record (or look up) an eighth each;
seconds are from the moment all of them are ready. The data are those of the other benchmarks: 30 % of the
datums have 2 to 5 turns, most prompts are shared by 8. Space is measured again on conversations of 8 turns.

    python benchmarks/ledger.py [--sequences N] [--tokens N] [--dir PATH]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data
from provenance import SampledSequence, SqlLedger

BATCH, LOOKUP, WRITERS = 128, 1024, 8
#: Conversations, their turns, and the tokens of first prompt, of an answer, and of what is said between.
TALKS, TURNS, FIRST, ANSWER, BETWEEN = 256, 8, 400, 120, 80
CREATE = """CREATE TABLE sequences (
    sequence_id TEXT, session_id TEXT, sampled_at INTEGER, last_used_at INTEGER,
    record_stability_info INTEGER, policy_version TEXT, temperature REAL, top_p REAL, seed INTEGER,
    prompt BLOB, tokens BLOB, logprobs BLOB,
    PRIMARY KEY (sequence_id, session_id))"""

Row = tuple[Any, ...]


def sequences_of(count: int, tokens: float) -> list[SampledSequence]:
    """The first ``count`` sequences of datums with ``tokens`` positions on average."""
    found: list[SampledSequence] = []
    number = 0
    while len(found) < count:
        block = _data.draw(number, _data.BLOCK, tokens)
        lists = (np.split(r.values, np.cumsum(r.lengths)[:-1]) for r in block.recorded.values())
        times = (datetime.fromtimestamp(second, UTC) for second in block.sampled_at.tolist())
        for place, *arrays, moment, seed in zip(
            block.order.tolist(), *lists, times, block.seed.tolist(), strict=True
        ):
            prompt, sampled, logprobs = arrays
            found.append(
                SampledSequence(
                    sequence_id=block.ids[place],
                    session_id=_data.SESSION,
                    prompt_tokens=prompt,
                    tokens=sampled,
                    logprobs=logprobs,
                    sampled_at=moment,
                    record_stability_info=True,
                    policy_version="step-12",
                    temperature=1.0,
                    top_p=1.0,
                    seed=seed,
                )
            )
        number += 1
    return found[:count]


def row_of(s: SampledSequence) -> Row:
    arrays = (s.prompt_tokens.tobytes(), s.tokens.tobytes(), s.logprobs.tobytes())
    moment = int(s.sampled_at.timestamp() * 1e6)
    parameters = (s.policy_version, s.temperature, s.top_p, s.seed)
    return (s.sequence_id, s.session_id, moment, None, True, *parameters, *arrays)


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=300, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def insert(path: Path, rows: Sequence[Row]) -> None:
    with closing(connect(path)) as connection:
        statement = f"INSERT INTO sequences VALUES ({', '.join('?' * 12)}) ON CONFLICT DO NOTHING"
        for batch in chunks(rows, BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, batch)
            connection.execute("COMMIT")


def record(path: Path, sequences: Sequence[SampledSequence]) -> None:
    with SqlLedger(path) as ledger:
        for batch in chunks(sequences, BATCH):
            assert ledger.record(batch) == len(batch)


def fetch(path: Path, ids: Sequence[str]) -> None:
    with closing(connect(path)) as connection:
        for batch in chunks(ids, LOOKUP):
            marks = ", ".join("?" * len(batch))
            query = f"SELECT * FROM sequences WHERE session_id = ? AND sequence_id IN ({marks})"
            assert len(connection.execute(query, [_data.SESSION, *batch]).fetchall()) == len(batch)


def look_up(path: Path, ids: Sequence[str]) -> None:
    ledger = SqlLedger(path, read_only=True)
    for batch in chunks(ids, LOOKUP):
        assert ledger.lookup(batch, _data.SESSION).known.all()


def rate(
    work: Callable[[Path, Sequence[Any]], None], path: Path, items: Sequence[Any], processes: int
) -> float:
    """Items a second of processes that take an equal share each."""
    context = multiprocessing.get_context("fork")  # a child finds its items in memory
    ready = context.Barrier(processes + 1)
    share = -(-len(items) // processes)

    def child(part: Sequence[Any]) -> None:
        ready.wait()
        work(path, part)

    started = [context.Process(target=child, args=[part]) for part in chunks(items, share)]
    for process in started:
        process.start()
    ready.wait()
    start = time.perf_counter()
    for process in started:
        process.join()
    seconds = time.perf_counter() - start
    assert all(process.exitcode == 0 for process in started)
    return len(items) / seconds


def size_of(path: Path) -> int:
    with closing(connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def print_sizes(what: str, stored: int, whole: int, sampled: int) -> None:
    figures = (
        f"{stored / sampled:.1f} bytes a sampled token, {stored / whole:.2f}x of naive {whole / sampled:.1f}"
    )
    print(f"stored, {what}: {figures}")


def conversations() -> list[SampledSequence]:
    """Eight of each first prompt; every later prompt extends the turn before."""
    random = np.random.default_rng(0)
    found = []
    firsts = random.integers(0, 150_000, (TALKS // 8, FIRST), np.int32)
    for talk in range(TALKS):
        prompt = firsts[talk // 8]
        for turn in range(TURNS):
            tokens = random.integers(0, 150_000, ANSWER, np.int32)
            found.append(
                SampledSequence(
                    sequence_id=f"{talk}:{turn}",
                    session_id=_data.SESSION,
                    prompt_tokens=prompt,
                    tokens=tokens,
                    logprobs=-random.exponential(1, ANSWER).astype(np.float32),
                    sampled_at="2026-01-02T12:00:00Z",
                    record_stability_info=True,
                )
            )
            prompt = np.concatenate([prompt, tokens, random.integers(0, 150_000, BETWEEN, np.int32)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=100_000)
    parser.add_argument("--tokens", type=float, default=500, help="positions of a datum on average")
    parser.add_argument(
        "--dir", help="where the databases are written; default is the folder for temporary files"
    )
    options = parser.parse_args()
    sequences = sequences_of(options.sequences, options.tokens)
    rows = [row_of(sequence) for sequence in sequences]
    sampled = sum(len(sequence.tokens) for sequence in sequences)
    prompts = sum(len(sequence.prompt_tokens) for sequence in sequences)
    print(f"{len(sequences):,} sequences, {sampled:,} sampled tokens, {prompts:,} tokens of prompts")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        naive, ledger = Path(folder), Path(folder)
        for processes in (1, WRITERS):
            naive, ledger = Path(folder, f"naive{processes}.db"), Path(folder, f"ledger{processes}.db")
            with closing(connect(naive)) as connection:
                connection.execute(CREATE)
            SqlLedger(ledger).close()
            floor, recorded = rate(insert, naive, rows, processes), rate(record, ledger, sequences, processes)
            print(
                f"{processes} writing: {recorded:,.0f} records/s, "
                f"{recorded / floor:.2f}x of naive {floor:,.0f}/s"
            )
        ids = [row[0] for row in rows]
        np.random.default_rng(0).shuffle(ids)
        for processes in (1, WRITERS):
            floor, found = rate(fetch, naive, ids, processes), rate(look_up, ledger, ids, processes)
            print(
                f"{processes} reading: {found:,.0f} lookups/s, {found / floor:.2f}x of naive {floor:,.0f}/s"
            )
        print_sizes("these", size_of(ledger), size_of(naive), sampled)
        talks = conversations()
        naive, ledger = Path(folder, "naive.db"), Path(folder, "ledger.db")
        with closing(connect(naive)) as connection:
            connection.execute(CREATE)
        insert(naive, [row_of(sequence) for sequence in talks])
        record(ledger, talks)
        print_sizes(f"{TURNS} turns", size_of(ledger), size_of(naive), ANSWER * len(talks))


if __name__ == "__main__":
    main()
