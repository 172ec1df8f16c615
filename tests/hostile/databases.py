"""SQLite files with damaged pages, and ledgers whose schema or rows are not ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from random import Random

from hostile.damage import damaged

_PAGE = 4096
_TABLES = ("provenance_sequences", "provenance_prompt_blocks", "provenance_ledger")
_COLUMNS = (
    *(
        "sequence_id",
        "session_id",
        "prompt",
        "prompt_length",
        "sampled_at",
        "last_used_at",
        "last_use",
        "uses",
    ),
    *(
        "record_stability_info",
        "model",
        "policy_version",
        "stop_reason",
        "temperature",
        "top_p",
        "top_k",
        "seed",
    ),
    *("packed_tokens", "logprobs"),
)
_VALUES = (
    "NULL", "''", "'x'", "x''", "x'00'", "x'ffffff'", "x'ffffffff'", "x'0000c07f'", "x'0b0000000c000000'",
    "0", "1", "-1", "2147483648", "9223372036854775807", "-9223372036854775808", "1.5", "1e400", "-1e400",
    "'9'", "cast(x'ff' as text)", "char(0)", "zeroblob(4)", "zeroblob(1000003)", "'1e5'", "2.0", "'2026'",
)  # fmt: skip
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def _statements(rng: Random) -> list[str]:
    """One change to a ledger, in SQL."""
    column, value = rng.choice(_COLUMNS), rng.choice(_VALUES)
    table = rng.choice(_TABLES)
    sequences, blocks, _ = _TABLES
    columns = ", ".join(_COLUMNS)
    others = ", ".join(c for c in _COLUMNS if c != column)
    where = rng.choice(("", " WHERE rowid = 1"))
    parent = rng.choice(("key", "randomblob(16)", "parent"))
    tokens = rng.choice(("zeroblob(900000000)", "packed_tokens", "randomblob(8)"))
    field = rng.choice(("sql", "name", "tbl_name", "rootpage", "type"))
    part = rng.choice(("seq", "blo", "led"))
    content = rng.choice((value, "2", "3", "4", "99", "sql || sql"))
    choices = (
        [f"UPDATE {sequences} SET {column} = {value}{where}"],
        [f"UPDATE {sequences} SET {column} = {rng.choice(_COLUMNS)}{where}"],
        [f"UPDATE {blocks} SET {rng.choice(('key', 'parent', 'packed_tokens'))} = {value}{where}"],
        [f"UPDATE {blocks} SET parent = key"],
        [f"UPDATE {blocks} SET parent = (SELECT key FROM {blocks} ORDER BY key DESC LIMIT 1)"],
        [f"DELETE FROM {blocks}{where}"],
        [f"UPDATE {blocks} SET packed_tokens = packed_tokens || packed_tokens"],
        [f"UPDATE provenance_ledger SET version = {rng.choice((value, '2', '0', '1'))}"],
        ["DELETE FROM provenance_ledger"],
        ["INSERT INTO provenance_ledger VALUES (0)"],
        [f"DROP TABLE {table}"],
        [f"ALTER TABLE {table} RENAME TO other", f"CREATE VIEW {table} AS SELECT * FROM other"],
        [f"ALTER TABLE {sequences} DROP COLUMN {column}"],
        [f"ALTER TABLE {sequences} RENAME COLUMN {column} TO other"],
        [
            f"ALTER TABLE {sequences} RENAME TO other",
            f"CREATE TABLE {sequences} ({columns})",
            f"INSERT INTO {sequences} SELECT {columns} FROM other",
            f"UPDATE {sequences} SET {column} = {value}",
        ],
        [
            f"ALTER TABLE {sequences} RENAME TO other",
            f"CREATE TABLE {sequences} ({columns.replace(column, f'{column} AS ({value})')})",
            f"INSERT INTO {sequences} ({others}) SELECT {others} FROM other",
        ],
        [
            f"ALTER TABLE {sequences} RENAME TO other",
            f"CREATE VIEW {sequences} AS {_ENDLESS} SELECT other.* FROM n, other",
        ],
        [
            f"ALTER TABLE {blocks} RENAME TO other",
            f"CREATE VIEW {blocks} AS SELECT key, {parent} AS parent, {tokens} AS packed_tokens FROM other",
        ],
        [f"CREATE TRIGGER t AFTER INSERT ON {sequences} BEGIN DELETE FROM {sequences}; END"],
        [f"CREATE INDEX i ON {sequences} (randomblob(length(logprobs)))", f"REINDEX {sequences}"],
        ["DROP INDEX provenance_sequences_last_use"],
        [
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_master SET {field} = {content} WHERE name LIKE '%{part}%'",
        ],
        [f"PRAGMA page_size = {rng.choice((512, 65536))}", "VACUUM"],
        ["PRAGMA encoding = 'UTF-16'", "PRAGMA user_version = 7", "PRAGMA application_id = -1"],
        [f"INSERT INTO {sequences} ({columns}) SELECT 's:9', {', '.join(_COLUMNS[1:])} FROM {sequences}"],
    )
    return rng.choice(choices)


def changed(data: bytes, rng: Random) -> bytes:
    """A ledger after one or two changes in SQL; what SQLite refuses is not made."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(_without_log(data))
        for _ in range(rng.choice((1, 1, 2))):
            for statement in _statements(rng):
                with suppress(sqlite3.Error):
                    connection.execute(statement)
        try:
            return connection.serialize()
        except (sqlite3.Error, MemoryError):
            return data


def _without_log(data: bytes) -> bytes:
    """Memory takes no database that has a write-ahead log; bytes 18 and 19 say whether there is one."""
    return data[:18] + b"\1\1" + data[20:]


def hostile_database(data: bytes, rng: Random) -> bytes:
    """A ledger in which something is wrong."""
    if rng.random() < 0.5:
        data = changed(data, rng)
        if rng.random() < 0.5:
            data = data[:18] + b"\2\2" + data[20:]
        return damaged(data, rng) if rng.random() < 0.1 else data
    page = rng.randrange(max(len(data) // _PAGE, 1)) * _PAGE
    part = rng.choice(
        (slice(0, 100), slice(page, page + 40), slice(page + _PAGE - 400, page + _PAGE), slice(None))
    )
    return damaged(data, rng, part)
