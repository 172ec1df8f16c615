"""A SQLite file keeps any value in any column: each that no program writes is named, and none is used."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from _ledgers import HOUR, NOON, sequence

from provenance import LedgerError, SqlLedger
from provenance.ledger.sql import _schema

LATER = NOON + HOUR
COLUMNS = [column.name for column in _schema.SEQUENCES.c]
TEXTS = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
BYTES = ("prompt", "packed_tokens", "logprobs")
REALS = ("temperature", "top_p")
MOMENTS = ("sampled_at", "last_used_at", "last_use")
NULLABLE = ("prompt", "last_used_at", *TEXTS[2:], *REALS, "top_k", "seed")

#: A column, what is put there, and how a message shows it.
WRONG: list[tuple[str, str, str]] = [
    *((name, "x'31'", "b'1'") for name in COLUMNS if name not in ("number", *BYTES)),
    *((name, "7", "7") for name in (*TEXTS, *BYTES)),
    *((name, "NULL", "None") for name in COLUMNS if name not in ("number", *NULLABLE)),
    *((name, "'x'", "'x'") for name in (*MOMENTS, "uses", "temperature", "top_k", "record_stability_info")),
    *((name, "1.5", "1.5") for name in (*MOMENTS, "uses", "top_k", "seed", "prompt_length")),
    *((name, value, shown) for name in MOMENTS for value, shown in (("1e400", "inf"), ("-1e400", "-inf"))),
    *((name, "4611686018427387904", "4611686018427387904") for name in MOMENTS),
    *((name, "-9223372036854775808", "-9223372036854775808") for name in (*MOMENTS, "uses", "seed", "top_k")),
    *((name, value, shown) for name in REALS for value, shown in (("1e400", "inf"), ("4e38", "4e+38"))),
    ("sequence_id", "''", "''"),
    ("session_id", "''", "''"),
    ("record_stability_info", "2", "2"),
    ("prompt_length", "131", "131"),
    ("prompt_length", "-1", "-1"),
    ("prompt", "NULL", "3"),
    ("logprobs", "x'000000bf0000'", r"b'\x00\x00\x00\xbf\x00\x00'"),
    ("packed_tokens", "x'ffff'", r"b'\xff\xff'"),
]  # fmt: skip


@cache
def ledger_of_two() -> bytes:
    """Sequences with ids 'a', which was used, and 'b', in a table that takes any value."""
    table = _schema.SEQUENCES.name
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sequences.db"
        with SqlLedger(path) as ledger:
            ledger.record([sequence("a"), sequence("b", prompt_tokens=[14])])
            ledger.renew(["a"], "s", LATER)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                f"ALTER TABLE {table} RENAME TO other; CREATE TABLE {table} ({', '.join(COLUMNS)});"
                f"INSERT INTO {table} SELECT * FROM other; DROP TABLE other"
            )
        return path.read_bytes()


def damaged(tmp_path: Path, column: str, value: str) -> Path:
    """A ledger in which the sequence with id 'a' has a value."""
    path = tmp_path / "sequences.db"
    path.write_bytes(ledger_of_two())
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"UPDATE provenance_sequences SET {column} = {value} WHERE sequence_id = 'a'")
    return path


def values_of(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM provenance_sequences ORDER BY number").fetchall()


READS: dict[str, tuple[Callable[[SqlLedger], object], tuple[str, ...]]] = {
    "stats": (
        lambda ledger: ledger.stats(),
        ("session_id", "sampled_at", "last_use", "uses", "record_stability_info", "logprobs"),
    ),
    "sessions": (lambda ledger: ledger.sessions(), ("session_id",)),
    "uses": (lambda ledger: ledger.uses("a", "s"), ("uses",)),
    "last_uses": (
        lambda ledger: list(ledger.last_uses(LATER + HOUR)),
        ("sequence_id", "session_id", "last_use", "record_stability_info"),
    ),
    "expiring": (lambda ledger: ledger.expiring(LATER + HOUR), (*COLUMNS[1:7], "last_use", *COLUMNS[9:])),
    "tables": (lambda ledger: list(ledger.tables()), (*COLUMNS[1:7], *COLUMNS[9:])),
    "lookup": (lambda ledger: ledger.lookup(["a"], "s"), (*COLUMNS[2:7], *COLUMNS[9:])),
    "lookup without a session": (lambda ledger: ledger.lookup(["a"], None), (*COLUMNS[2:7], *COLUMNS[9:])),
}

#: A value that does no harm there.
HARMLESS = {("expiring", "last_use", "1.5"), ("stats", "logprobs", "x'000000bf0000'")}


@pytest.mark.parametrize(("column", "value", "shown"), WRONG)
def test_what_no_program_writes_is_named(column: str, value: str, shown: str, tmp_path: Path) -> None:
    with SqlLedger(damaged(tmp_path, column, value), read_only=True) as ledger:
        for read, (call, columns) in READS.items():
            if column not in columns or (read, column, value) in HARMLESS:
                call(ledger)
                continue
            with pytest.raises(LedgerError) as error:
                call(ledger)
            named = "prompt_length" if (column, value) == ("prompt", "NULL") else column
            message = str(error.value).partition(": damaged: ")[2]
            assert message.startswith(f"{shown} as {named} of sequence "), read
            assert " in table provenance_sequences, expected " in message, read


USED = [(column, value) for column, value, _ in WRONG if column in ("last_used_at", "last_use", "uses")]


@pytest.mark.parametrize(("column", "value"), USED)
def test_nothing_is_added_to_what_is_no_number(column: str, value: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, column, value)
    before = values_of(path)
    with SqlLedger(path) as ledger:
        with pytest.raises(LedgerError, match=f"damaged: .* as {column} of sequence 'a' of session 's'"):
            ledger.renew(["a", "b"], "s", LATER + HOUR)
        assert values_of(path) == before
        assert ledger.renew(["b"], "s", LATER + HOUR) == 1


@pytest.mark.parametrize("value", ["NULL", "'x'", "x'31'", "1e400", "-1e400", "4611686018427387904"])
def test_nothing_is_pruned_by_a_last_use_that_is_no_time(value: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, "last_use", value)
    before = values_of(path)
    with (
        SqlLedger(path) as ledger,
        pytest.raises(LedgerError, match=r"damaged: .* as last_use of sequence 'a'"),
    ):
        ledger.prune(LATER + HOUR)
    assert values_of(path) == before


def test_two_rows_of_one_sequence_are_told(tmp_path: Path) -> None:
    path = damaged(tmp_path, "sequence_id", "'b'")
    with SqlLedger(path, read_only=True) as ledger, pytest.raises(LedgerError, match="has two rows of one"):
        ledger.lookup(["b"], "s")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("parent = 7", "7 as parent in table provenance_prompt_blocks, expected bytes"),
        ("packed_tokens = 'xyz'", "'xyz' as packed_tokens in table provenance_prompt_blocks, expected bytes"),
        ("packed_tokens = x'fe'", "-2 in the prompt that block "),
        ("packed_tokens = x'0102030405'", "in table provenance_prompt_blocks has not as many tokens"),
    ],
)
def test_a_prompt_that_no_program_writes_is_told(change: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sequences.db"
    with SqlLedger(path) as ledger:
        ledger.record([sequence(prompt_tokens=[11])])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE provenance_prompt_blocks SET {change}")
    with SqlLedger(path) as ledger, pytest.raises(LedgerError, match=message):
        ledger.lookup(["a"], "s")


def test_a_negative_token_is_told(tmp_path: Path) -> None:
    path = damaged(tmp_path, "packed_tokens", "x'01ff'")
    with SqlLedger(path) as ledger, pytest.raises(LedgerError, match=r"as packed_tokens .* ids from 0 on"):
        ledger.lookup(["a"], "s")


@pytest.mark.parametrize("version", ["'x'", "x'31'", "1.5", "NULL", "0"])
def test_a_version_that_is_no_number_is_refused(version: str, tmp_path: Path) -> None:
    path = damaged(tmp_path, "uses", "0")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            "DROP TABLE provenance_ledger; CREATE TABLE provenance_ledger (version);"
            f"INSERT INTO provenance_ledger VALUES ({version})"
        )
    with pytest.raises(LedgerError, match="which no program writes: is it damaged"):
        SqlLedger(path)
