"""The ledger in SQLite: what it stores, what it opens, what it says when it cannot."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _ledgers import HOUR, NOON, sequence

import provenance
from provenance import LedgerError, SqlLedger, formats
from provenance.ledger.place import is_database
from provenance.ledger.sql import _sqlite
from provenance.rules import case
from provenance.sequences import SequenceTable, table_of_models


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with SqlLedger(tmp_path / "sequences.db") as opened:
        yield opened


def blocks_of(ledger: SqlLedger) -> int:
    return ledger.stats().prompt_blocks


def content(table: SequenceTable) -> list[tuple[Any, ...]]:
    return sorted(
        (
            table.session_id[i],
            table.sequence_id[i],
            table.prompt(i).tobytes(),
            table.tokens(i).tobytes(),
            table.sampled_logprobs(i).tobytes(),
            *(str(getattr(table, name)[i]) for name in NAMES),
        )
        for i in range(len(table))
    )


NAMES = (
    "sampled_at",
    "last_used_at",
    "record_stability_info",
    "model",
    "policy_version",
    "stop_reason",
    "temperature",
    "top_p",
    "top_k",
    "seed",
)


def all_of(ledger: SqlLedger, session: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(row for table in ledger.tables(session) for row in content(table))


# What it stores


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 255, 256, 257, 1000])
def test_prompts_of_any_length_come_back(ledger: SqlLedger, length: int) -> None:
    prompt = np.arange(length) - 1
    ledger.record([sequence(prompt_tokens=prompt)])
    assert ledger.lookup(["a"], "s").prompt(0).tolist() == prompt.tolist()
    assert blocks_of(ledger) == -(-length // 128)


def test_later_turns_share_the_blocks_of_earlier_ones_in_any_order(ledger: SqlLedger) -> None:
    text = np.random.default_rng(0).integers(0, 150_000, 2000)
    turns = [sequence(f"turn {end}", prompt_tokens=text[:end]) for end in range(200, 2001, 200)]
    for turn in turns[::2] + turns[::-2]:
        ledger.record([turn])
    assert all(
        ledger.lookup([turn.sequence_id], "s").prompt(0).tolist() == turn.prompt_tokens.tolist()
        for turn in turns
    )
    ends = {end for end in range(200, 2001, 200) if end % 128}
    assert blocks_of(ledger) == 2000 // 128 + len(ends)
    assert ledger.stats().prompts == 10


def test_prompts_that_differ_in_one_token_are_kept_apart(ledger: SqlLedger) -> None:
    prompts = [[1] * 500, [2] + [1] * 499, [1] * 499 + [2], [1] * 200 + [2] + [1] * 299]
    ledger.record(sequence(f"{i}", prompt_tokens=prompt) for i, prompt in enumerate(prompts))
    found = ledger.lookup(["0", "1", "2", "3"], "s")
    assert [found.prompt(i).tolist() for i in range(4)] == prompts


def test_equal_prompts_have_one_address(ledger: SqlLedger) -> None:
    ledger.record(sequence(f"{i}", prompt_tokens=[5] * 300, tokens=[i, i]) for i in range(8))
    ledger.record([sequence("other", prompt_tokens=[5] * 299)])
    (table,) = ledger.tables()
    starts = dict(zip(table.sequence_id, table.prompt_start, strict=True))
    assert len(set(starts.values())) == 2
    assert starts["0"] == starts["7"] != starts["other"]


def test_pruning_deletes_the_blocks_that_nothing_names_and_no_others(ledger: SqlLedger) -> None:
    text = np.arange(1000)
    ledger.record(
        [
            sequence("old", prompt_tokens=text, sampled_at=NOON - HOUR),
            sequence("new", prompt_tokens=text[:300]),
            sequence("alone", prompt_tokens=text[::-1], sampled_at=NOON - HOUR),
        ]
    )
    assert blocks_of(ledger) == 8 + 1 + 8
    assert ledger.prune(NOON) == 2
    assert blocks_of(ledger) == 3
    assert ledger.lookup(["new"], "s").prompt(0).tolist() == text[:300].tolist()
    assert ledger.prune(NOON + HOUR) == 1
    assert blocks_of(ledger) == 0


EXTREMES = {
    "seed": [-(2**63) + 1, 2**63 - 1],
    "top_k": [-(2**31), 2**31 - 1],
    "temperature": [0.1, 3e38],
    "top_p": [1 / 3, 1e-45],
    "sampled_at": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
    "last_used_at": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"],
    "sequence_id": ["\U0001f600 '\";--%", " ", "a" * 10_000],
    "model": [""],
    "tokens": [[0, 2**31 - 1]],
    "logprobs": [[-0.0, -3e38]],
    "prompt_tokens": [[-1, 2**31 - 1]],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in EXTREMES.items() for v in values])
def test_extreme_values_come_back_and_repeat(ledger: SqlLedger, field: str, value: Any) -> None:
    extreme = sequence(**{field: value})
    assert [ledger.record([extreme]), ledger.record([extreme])] == [1, 0]
    found = ledger.lookup([extreme.sequence_id], "s")
    assert content(found) == content(table_of_models([extreme]))


@pytest.mark.parametrize("field", ["sequence_id", "session_id", "model", "policy_version", "stop_reason"])
@pytest.mark.parametrize("text", ["a\0", "\ud800"])
def test_text_that_no_database_holds_is_refused(ledger: SqlLedger, field: str, text: str) -> None:
    table = table_of_models([sequence("fine"), sequence("odd")])
    getattr(table, field)[1] = text
    with pytest.raises(LedgerError, match=rf"has a {field} .* which a database cannot keep; nothing was"):
        ledger.record_tables([table])
    assert ledger.stats().sequences == 0


def broken(**changes: Any) -> SequenceTable:
    table = table_of_models([sequence("good"), sequence("bad")])
    for name, value in changes.items():
        getattr(table, name)[1] = value
    return table


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (broken(logprob_length=1), "has not as many logprobs as tokens"),
        (broken(sampled_at=2**62), "has a time outside of the years 1 to 9999"),
        (broken(last_used_at=-(2**62)), "has a time outside of the years 1 to 9999"),
        (
            formats.table_of([{**sequence("bad").model_dump(), "logprobs": [-1.0, None]}])[0],
            "null or not finite",
        ),
    ],
)
def test_tables_that_no_model_could_hold_are_refused(
    ledger: SqlLedger, table: SequenceTable, reason: str
) -> None:
    with pytest.raises(
        LedgerError, match=f"sequence 'bad' of session 's' .*{reason}.*; nothing was recorded"
    ):
        ledger.record_tables([table_of_models([sequence("first")]), table])
    assert ledger.stats().sequences == 0


def test_tables_stream_what_was_recorded(ledger: SqlLedger, monkeypatch: Any) -> None:
    monkeypatch.setattr("provenance.ledger.sql._ledger._TABLE_ROWS", 400)
    given = [
        sequence(f"{i}", "st"[i % 2], sampled_at=NOON + i % 7 * HOUR, prompt_tokens=[i % 3] * 150, seed=i)
        for i in range(500)
    ]
    assert ledger.record(given) == 500
    expected = content(table_of_models(given))
    assert all_of(ledger) == expected
    assert all_of(ledger, "t") == [row for row in expected if row[0] == "t"]
    assert [len(table) for table in ledger.tables()] == [400, 100]
    assert all_of(ledger, "nobody") == all_of(ledger, "\0") == []


def test_many_ids_at_once(ledger: SqlLedger) -> None:
    assert ledger.record(sequence(f"{i}", "st"[i % 2]) for i in range(1200)) == 1200
    ids = [f"{i}" for i in range(1500)]
    found = ledger.lookup(ids, "s")
    assert found.known.sum() == 1200
    assert found.session_id[:2].tolist() == ["s", "t"]
    assert ledger.renew(ids[:1200:2], "s", NOON + HOUR) == 600
    assert ledger.record(sequence(f"{i}", "st"[i % 2]) for i in range(1201)) == 1


def test_an_id_of_many_sessions_is_looked_up_without_loading_them(ledger: SqlLedger) -> None:
    tokens = np.arange(2500)
    for part in range(10):
        sessions = range(part * 50, part * 50 + 50)
        ledger.record(sequence("a", f"{i}", tokens=tokens, logprobs=-tokens) for i in sessions)
    ledger.lookup(["a"], "7")
    gc.collect()
    tracemalloc.start()
    try:
        assert ledger.lookup(["a"], None).ambiguous.all()
        assert not ledger.lookup(["a"], "7").ambiguous.any()
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_last_uses_and_sessions(ledger: SqlLedger) -> None:
    ledger.record(
        [sequence("b"), sequence("a", "t", sampled_at=NOON - HOUR), sequence("c", sampled_at=NOON + HOUR)]
    )
    ledger.record([sequence("d", record_stability_info=False)])
    assert list(ledger.last_uses(NOON + HOUR)) == [("a", "t", NOON - HOUR), ("b", "s", NOON)]
    assert list(ledger.last_uses(NOON + HOUR, "s")) == [("b", "s", NOON)]
    assert ledger.sessions() == ["s", "t"]


# What it opens


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE things (x)")


def of_version(version: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        SqlLedger(path).close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE provenance_ledger SET version = ?", [version])

    return make


def without_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def cut(path: Path) -> None:
    with SqlLedger(path) as ledger:
        ledger.record(sequence(f"{i}", prompt_tokens=range(i, 500)) for i in range(100))
    os.truncate(path, 8192)


def nothing(path: Path) -> None:
    pass


BAD: dict[str, tuple[Callable[[Path], object], dict[str, bool], str]] = {
    "missing": (nothing, {"create": False}, "no such file; a ledger is made .* by provenance ledger import"),
    "missing, to read": (nothing, {"read_only": True}, "no such file"),
    "directory": (Path.mkdir, {}, "a directory, expected a file such as .*/x.db/sequences.db"),
    "text": (lambda p: p.write_text("hello"), {}, "no SQLite database, so no ledger; .* import"),
    "random": (lambda p: p.write_bytes(os.urandom(9999)), {}, "no SQLite database"),
    "header only": (
        lambda p: p.write_bytes(b"SQLite format 3\0" + b"x" * 999),
        {},
        "no SQLite database|damaged",
    ),
    "empty, to read": (Path.touch, {"read_only": True}, "an empty file, so no ledger"),
    "empty, not to create": (Path.touch, {"create": False}, "an empty file"),
    "other database": (other_database, {}, r"another program \(it has a table 'things'\), not a ledger"),
    "no tables": (without_tables, {"create": False}, "holds no ledger yet; provenance ledger import"),
    "newer": (of_version(3), {}, "version 3, and this program reads up to 2: run pip install --upgrade"),
    "version 0": (of_version(0), {}, "version 0, which no program writes"),
    "cut": (cut, {}, "the database is damaged"),
    "loop": (lambda p: p.symlink_to(p), {}, "."),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_ledger_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, options, message = BAD[name]
    path = tmp_path / "x.db"
    make(path)
    with pytest.raises(LedgerError, match=message) as raised:
        list(SqlLedger(path, **options).tables())
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert not text.startswith(f"{path}: {path}: ")
    assert "\n" not in text
    assert "sqlalche" not in text
    assert name != "missing" or not path.exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "no path"),
        ("x.jsonl", "unknown suffix, a new ledger's name ends in one of .db, .sqlite, .sqlite3"),
        ("no/such/folder/x.db", "no such file or directory"),
        ("a\0.db", "null"),
        ("a" * 300 + ".db", "too long"),
        ("mysql://host/x", "'mysql' is not supported, expected a path or postgresql://"),
        ("sqlite://", "expected sqlite:///PATH"),
        ("sqlite:///:memory:", "MemoryLedger needs no database"),
        ("sqlite:///x.db?timeout=3", "without options"),
        ("://", "no address of a database"),
        ("postgresql://localhost:port/x", "no address of a database"),
        ("postgresql://user:secret@127.0.0.1:1/x", r"connection .*refused"),
        ("postgresql://user@127.0.0.1:1/x?password=secret", r"connection .*refused"),
    ],
)
def test_places_that_are_none(place: str, message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match=message) as raised:
        SqlLedger(place)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_addresses_and_odd_names_of_files(tmp_path: Path) -> None:
    for name in ("a.sqlite", "b c.DB", "d?e#f%41.sqlite3", "ü.db"):
        path = tmp_path / name
        with SqlLedger(path) as ledger:
            ledger.record([sequence()])
        assert path.exists()
        with SqlLedger(path, read_only=True) as ledger:
            assert ledger.lookup(["a"], "s").known.all()
    with SqlLedger(f"sqlite:///{tmp_path / 'a.sqlite'}") as ledger:
        assert ledger.stats().sequences == 1
    (tmp_path / "a.sqlite").rename(tmp_path / "ledger")
    with SqlLedger(tmp_path / "ledger") as ledger:
        assert ledger.record([sequence()]) == 0


def test_psycopg_is_named_where_it_is_missing(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        provenance.MissingDependencyError, match=r"pip install 'datum-provenance\[postgres\]'"
    ):
        SqlLedger("postgresql://localhost/x")


def test_a_closed_ledger_opens_again(ledger: SqlLedger) -> None:
    ledger.close()
    assert ledger.record([sequence()]) == 1
    assert str(ledger).startswith("SqlLedger('/")


# Reading only


def test_reading_creates_and_changes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SqlLedger(path) as ledger:
        ledger.record([sequence()])
    before = path.stat().st_mtime_ns
    reader = SqlLedger(path, read_only=True)
    assert reader.lookup(["a"], "s").known.all()
    assert len(all_of(reader)) == reader.stats().sequences == 1
    for write in (
        lambda: reader.record([sequence("b")]),
        lambda: reader.renew(["a"], "s", NOON),
        lambda: reader.prune(NOON),
    ):
        with pytest.raises(LedgerError, match=r"x\.db: opened read-only"):
            write()
    assert [p.name for p in tmp_path.iterdir()] == ["x.db"]
    assert path.stat().st_mtime_ns == before


def test_a_reader_sees_what_writers_add(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    SqlLedger(path).close()
    reader = SqlLedger(path, read_only=True)
    assert not reader.lookup(["a"], "s").known.any()
    with SqlLedger(path) as writer:
        writer.record([sequence("a")])
        assert reader.lookup(["a"], "s").known.all()
        writer.record([sequence("b")])
        assert reader.lookup(["b"], "s").known.all()
    assert reader.lookup(["a", "b"], "s").known.all()


def test_a_writer_that_comes_while_a_quiet_file_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x.db"
    with SqlLedger(path) as writer:
        writer.record(sequence(f"{i}") for i in range(10))
    reader = SqlLedger(path, read_only=True)
    streamed = reader.tables()
    came: list[int] = []
    read = provenance.ledger.sql._reads.read_prompts

    def read_meanwhile(*arguments: Any) -> Any:
        if not came:
            came.append(1)
            with SqlLedger(path) as writer:
                writer.record([sequence("late"), sequence(f"{len(all_of(writer))}")])
        return read(*arguments)

    monkeypatch.setattr("provenance.ledger.sql._reads.read_prompts", read_meanwhile)
    assert reader.lookup(["late", "0"], "s").known.all()
    assert came
    came.clear()
    with pytest.raises(LedgerError, match="a writer changed it while it was read; please try again"):
        list(streamed)


# The interpreter may lie where nobody else gets at it, so that all must be imported before.
BECOME_NOBODY = """
import os, sys, tempfile
from pathlib import Path
import provenance
from provenance.ledger import memory
with tempfile.TemporaryDirectory() as folder:
    with provenance.SqlLedger(folder + "/x.db") as ledger:
        ledger.record([])
        ledger.stats()
    provenance.SqlLedger(folder + "/x.db", read_only=True).stats()
    try:
        provenance.SqlLedger(folder)
    except provenance.LedgerError:
        pass
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""

IN_READ_ONLY_FOLDER = """
ledger = provenance.SqlLedger(sys.argv[1], read_only=True)
print(ledger.stats().sequences, *sorted(p.name for p in Path(sys.argv[1]).parent.iterdir()))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BECOME_NOBODY + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_ledger_in_a_folder_that_cannot_be_written(open_folder: Path) -> None:
    path = open_folder / "x.db"
    with SqlLedger(path) as ledger:
        ledger.record([sequence()])
    path.chmod(0o444)
    open_folder.chmod(0o555)
    done = as_nobody(IN_READ_ONLY_FOLDER, path)
    assert (done.stdout.split(), done.stderr) == (["1", "x.db"], "")
    open_folder.chmod(0o755)


OPEN = """
try:
    provenance.SqlLedger(sys.argv[1], read_only=len(sys.argv) > 2).record([])
except provenance.LedgerError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["file", "folder"])
@pytest.mark.parametrize("there", [True, False])
def test_a_ledger_that_may_not_be_written(open_folder: Path, protect: str, there: bool) -> None:
    path = open_folder / "x.db"
    if there:
        SqlLedger(path).close()
        path.chmod(0o444 if protect == "file" else 0o666)
    elif protect == "file":
        path.touch(mode=0o444)
    open_folder.chmod(0o777 if protect == "file" else 0o555)
    done = as_nobody(OPEN, path)
    reason = "the file or its folder cannot be written" if there or protect == "file" else "permission denied"
    assert (done.stdout.partition(";")[0].strip(), done.stderr) == (f"{path}: {reason}", "")
    open_folder.chmod(0o755)


@pytest.mark.slow
def test_a_ledger_that_may_not_be_read(open_folder: Path) -> None:
    path = open_folder / "x.db"
    SqlLedger(path).close()
    path.chmod(0)
    for options in ([], ["read only"]):
        done = as_nobody(OPEN, path, *options)
        assert (done.stdout, done.stderr) == (f"{path}: permission denied\n", "")


# What goes wrong later


FILL = """
import resource, sys
from provenance import LedgerError, SampledSequence, SqlLedger
sys.path.insert(0, sys.argv[2])
from _ledgers import sequence
ledger = SqlLedger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
recorded = 0
try:
    while True:
        ledger.record(sequence(f"{recorded + i}", prompt_tokens=range(recorded + i, 999)) for i in range(10))
        recorded += 10
except LedgerError as error:
    print(recorded, error)
"""


@pytest.mark.slow
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(path), str(here)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    recorded, _, message = done.stdout.strip().partition(" ")
    assert int(recorded) > 0
    assert message.startswith(f"{path}: the disk ")
    assert message.endswith("; nothing was changed")
    with SqlLedger(path) as ledger:
        assert ledger.stats().sequences == int(recorded)
        assert ledger.record([sequence("more")]) == 1


def test_a_lock_that_is_held_too_long(ledger: SqlLedger, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(_sqlite, "PATIENCE", 0.1)
    with closing(sqlite3.connect(tmp_path / "sequences.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.lookup(["a"], "s").known.tolist() == [False]
        with pytest.raises(LedgerError, match=r"sequences\.db: another program has been writing to it"):
            ledger.record([sequence()])
        other.execute("ROLLBACK")
    assert ledger.record([sequence()]) == 1


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM provenance_prompt_blocks WHERE parent IS NULL",
        "UPDATE provenance_prompt_blocks SET parent = key WHERE parent IS NULL",
    ],
)
def test_prompts_whose_blocks_are_no_chain(ledger: SqlLedger, tmp_path: Path, change: str) -> None:
    ledger.record([sequence(prompt_tokens=range(300))])
    with closing(sqlite3.connect(tmp_path / "sequences.db")) as connection, connection:
        connection.execute(change)
    with pytest.raises(
        LedgerError, match=r"damaged: block [0-9a-f]{32} of a prompt is missing or follows its"
    ):
        ledger.lookup(["a"], "s")


def test_threads_share_a_ledger(ledger: SqlLedger) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(10):
                ledger.record([sequence(f"{number}-{i}", prompt_tokens=range(i, 300)), sequence(f"both {i}")])
                wrong.extend([i] * (not ledger.lookup([f"{number}-{i}"], "s").known.all()))
        except Exception as error:  # noqa: BLE001 - the thread would swallow it
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert ledger.stats().sequences == 90


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_connections_of_its_own(ledger: SqlLedger, tmp_path: Path) -> None:
    ledger.record([sequence("parent")])
    assert ledger.lookup(["parent"], "s").known.all()
    assert (tmp_path / "sequences.db-wal").exists()
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()

    def child() -> None:
        ledger.record([sequence("child")])
        ready.set()
        go.wait(30)
        ledger.record([sequence("child later")])

    process = context.Process(target=child)
    process.start()
    assert ready.wait(30)
    ledger.record([sequence("parent later")])
    ledger.close()
    # Would take the log away, if the child did not hold its own locks.
    with SqlLedger(tmp_path / "sequences.db") as other:
        other.record([sequence("other")])
    go.set()
    process.join(30)
    assert process.exitcode == 0
    with SqlLedger(tmp_path / "sequences.db") as again:
        assert again.stats().sequences == 5


# As the ledger of a check


def test_a_database_is_a_ledger_of_a_check(tmp_path: Path) -> None:
    example = case()
    path = tmp_path / "sequences.db"
    with SqlLedger(path) as ledger:
        ledger.record(map(provenance.SampledSequence.model_validate, example.sequences))
    shutil.copy(path, tmp_path / "by magic")
    options = {"session": example.session, "now": example.now, "on_progress": lambda progress: None}
    expected = provenance.check(example.datums, ledger=list(example.sequences), **options).to_dict()
    for given in (
        str(path),
        path,
        [path],
        f"sqlite:///{path}",
        tmp_path / "by magic",
        [str(tmp_path / "*.db")],
    ):
        assert provenance.check(example.datums, ledger=given, **options).to_dict() == expected
    assert expected["valid"]
    assert expected["checked"]["SEQ003"]
    gc.collect()  # a connection that was left open would warn


def test_several_databases_are_refused(tmp_path: Path) -> None:
    for given in (["a.db", "b.db"], ["a.jsonl", "b.db"], ["postgresql://h/x", "a.jsonl"]):
        with pytest.raises(
            provenance.SchemaError, match="expected it alone: put all into one with provenance"
        ):
            provenance.check([], ledger=given)


@pytest.mark.parametrize("name", ["x.db", "data.jsonl"])
def test_a_database_as_data_is_recognised(name: str, tmp_path: Path) -> None:
    SqlLedger(tmp_path / "x.db").close()
    path = tmp_path / "x.db"
    path = path.rename(tmp_path / name)
    with pytest.raises(
        provenance.ReadError, match="a ledger, expected a file of datums: is it meant for --led"
    ):
        provenance.check(path)


def test_the_progress_of_a_run_leaves_databases_out(tmp_path: Path) -> None:
    SqlLedger(tmp_path / "x.db").close()
    data = tmp_path / "d.jsonl"
    provenance.write_datums(case().datums, data)
    seen: list[Any] = []
    provenance.check(data, ledger=tmp_path / "x.db", on_progress=seen.append)
    assert seen[-1].bytes_total == seen[-1].bytes_read == data.stat().st_size


def test_a_pipe_as_ledger_is_not_eaten(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    provenance.write_sequences(case().sequences, tmp_path / "s.jsonl")
    lines = (tmp_path / "s.jsonl").read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=[lines])
    writer.start()
    report = provenance.check(
        case().datums, ledger=tmp_path / "pipe.jsonl", now=case().now, session=case().session
    )
    writer.join()
    assert report.valid


@pytest.mark.parametrize("read_only", [True, False])
def test_a_relative_path_stays_with_its_file(tmp_path: Path, monkeypatch: Any, read_only: bool) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        with SqlLedger(tmp_path / name / "x.db") as made:
            made.record([sequence(name)])
    monkeypatch.chdir(tmp_path / "here")
    with SqlLedger("x.db", read_only=read_only) as opened:
        monkeypatch.chdir(tmp_path / "there")
        assert opened.lookup(["here", "there"], "s").known.tolist() == [True, False]


def test_looking_for_databases_among_data_keeps_no_file_open(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("nothing here lists the open files of a process")
    for i in range(50):
        (tmp_path / f"{i}.jsonl").write_bytes(b"" if i % 2 else b"S")
    before = len(list(descriptors.iterdir()))
    assert not any(is_database(path) for path in tmp_path.iterdir())
    assert len(list(descriptors.iterdir())) == before
