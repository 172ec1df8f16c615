"""Connections to a SQLite file: one kind that writes, and one that leaves no trace."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event

from provenance.errors import LedgerError
from provenance.ledger.place import MAGIC, SUFFIXES, start_of

#: Seconds that a writer waits for others: to import or to prune a large ledger takes minutes.
PATIENCE: Final = 300.0
#: Place of the byte of a SQLite file that is 2 where it has a write-ahead log.
_JOURNAL: Final = 18
#: Seconds within which two changes of a file may have the same time.
_TICK: Final = 0.02
#: Pages, 32 MB, that the log grows to before they are moved to the file, and by then many have changed again:
#: the index by content changes everywhere.
_LOGGED: Final = 8000
_CACHE: Final = "PRAGMA cache_size=-16384"  # KiB
_IMPORT: Final = "a ledger is made from files of sequences by provenance ledger import"
#: What runs code of whoever made the file where our tables are read or written: a view, a virtual table or a
#: generated column of their names, and a trigger on them.
_TRAPS: Final = """
    WITH own AS (SELECT * FROM sqlite_master WHERE tbl_name LIKE 'provenance#_%' ESCAPE '#')
    SELECT type, name FROM own WHERE type NOT IN ('table', 'index') OR rootpage = 0
    UNION ALL
    SELECT 'generated column', found.name FROM own, pragma_table_xinfo(own.name) AS found
    WHERE own.type = 'table' AND found.hidden
"""
#: What changes with a file's content.
_State = tuple[int, int, int]


def find_file(path: str, *, create: bool, write: bool) -> None:
    """Make sure that there is a SQLite file, or an empty one to be made one.

    Raises:
        LedgerError: it is missing and not to be created, or something else is in its place.
        OSError: it cannot be read or created.
    """
    file = Path(path)
    if file.is_dir():
        raise LedgerError(f"a directory, expected a file such as {file / 'sequences.db'}")
    if not file.exists():
        if not create:
            raise LedgerError(f"no such file; {_IMPORT} {path} FILES")
        if not path.lower().endswith(SUFFIXES):
            raise LedgerError(f"unknown suffix, a new ledger's name ends in one of {', '.join(SUFFIXES)}")
        file.touch()
    start = start_of(path, len(MAGIC))
    if start != MAGIC and (start or not create):
        raise LedgerError(
            f"{'no SQLite database' if start else 'an empty file'}, so no ledger; {_IMPORT} LEDGER FILES"
        )
    # SQLite would open it all the same, and fail with the first record.
    if write and not (os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK)):
        raise LedgerError("the file or its folder cannot be written; it can be opened with read_only=True")


def writing_engine(path: str) -> Engine:
    """Connections that read and write a file. Read in transactions with the execution option ``reading``."""
    uri = f"{_uri(path)}?mode=rw"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=1, isolation_level=None, check_same_thread=False)
        try:
            _execute_patiently(connection, "PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_LOGGED}")
            connection.execute(_CACHE)
            _refuse_traps(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool, max_overflow=-1)
    event.listen(engine, "begin", _begin)
    return engine


def reading_engine(path: str) -> Engine:
    """Connections for one transaction each, which create no file and change none."""
    engine = create_engine("sqlite://", creator=lambda: _Reader.open(path), poolclass=NullPool)
    event.listen(engine, "begin", _begin)
    return engine


def is_stale(connection: Connection) -> bool:
    """Whether a file that no writer had open was changed while this connection read it."""
    reader: Any = connection.connection.dbapi_connection
    return isinstance(reader, _Reader) and reader.state not in (None, _state_of(reader.path))


class _Reader(sqlite3.Connection):
    path: str
    state: _State | None
    """Of a file that no writer has open. SQLite is told that it is immutable, and else would create files
    beside it, or fail where it may not; that the file did not change meanwhile is ours to see."""

    @classmethod
    def open(cls, path: str) -> _Reader:
        if time.time() - Path(path).stat().st_mtime < _TICK:
            time.sleep(_TICK)
        state = _state_of(path)
        quiet = _is_quiet(path) and time.time_ns() - state[2] >= _TICK * 1e9
        uri = f"{_uri(path)}?mode=ro{'&immutable=1' if quiet else ''}"
        reader = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, factory=cls)
        reader.execute(_CACHE)
        reader.path, reader.state = path, state if quiet else None
        try:
            _refuse_traps(reader)
        except BaseException:
            reader.close()
            raise
        return reader


def _refuse_traps(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA trusted_schema=OFF")
    for kind, name in connection.execute(_TRAPS).fetchmany(1):
        raise LedgerError(f"it has a {kind} {name!r}, which no ledger has: is it from somebody you trust?")


def _is_quiet(path: str) -> bool:
    header = start_of(path, _JOURNAL + 1)
    try:
        logged = Path(f"{os.path.realpath(path)}-wal").stat().st_size
    except FileNotFoundError:
        logged = 0
    return header[_JOURNAL:] == b"\2" and not logged


def _state_of(path: str) -> _State:
    stat = Path(path).stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _uri(path: str) -> str:
    return Path(os.path.realpath(path)).as_uri()


def _begin(connection: Connection) -> None:
    raw: Any = connection.connection.dbapi_connection
    if isinstance(raw, _Reader) or connection.get_execution_options().get("reading"):
        raw.execute("BEGIN")
    else:
        # From the start, because a transaction that has read may be refused the lock at once.
        _execute_patiently(raw, "BEGIN IMMEDIATE")


def _execute_patiently(connection: sqlite3.Connection, statement: str) -> None:
    # SQLite's own waiting does not end with Ctrl-C, and some statements do not wait at all.
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.005)
