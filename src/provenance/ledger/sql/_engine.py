"""From a path or an address to connections that write and connections that read."""

from __future__ import annotations

import os
import sys
from typing import Final
from weakref import WeakSet

from sqlalchemy import URL, Engine, NullPool, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from provenance.errors import LedgerError, MissingDependencyError
from provenance.ledger.place import is_url
from provenance.ledger.sql import _sqlite
from provenance.ledger.sql._statements import answer_in_binary

__all__ = ["engines_of", "place_of"]


def place_of(place: str | os.PathLike[str]) -> str | URL:
    """The path of a SQLite file, or the address of a PostgreSQL database.

    Raises:
        LedgerError: it is no address, or that of another kind of database.
    """
    name = os.fspath(place)
    if not name or "\0" in name:
        raise LedgerError("no path: it is empty or holds a null character")
    if not is_url(name):
        return name
    try:
        url = make_url(name)
    except (ArgumentError, ValueError):
        raise LedgerError("no address of a database, expected one like postgresql://host/name") from None
    if "@" in (url.host or ""):
        raise LedgerError("no address of a database: an @ in a password is written %40")
    kind = url.get_backend_name()
    if kind == "postgresql":
        return url.set(drivername=kind)
    if kind != "sqlite":
        raise LedgerError(f"{url}: {kind!r} is not supported, expected a path or postgresql://host/name")
    if not url.database or url.database == ":memory:" or url.query:
        raise LedgerError(f"{url}: expected sqlite:///PATH without options (MemoryLedger needs no database)")
    return url.database


def engines_of(place: str | URL, *, create: bool, read_only: bool) -> tuple[Engine | None, Engine]:
    """Connections that write, None where ``read_only``, and connections that read one consistent state.

    Those that only read are not kept open.

    Raises:
        LedgerError: there is no such file.
        MissingDependencyError: psycopg is not installed.
    """
    if isinstance(place, str):
        _sqlite.find_file(place, create=create and not read_only, write=not read_only)
        place = os.path.abspath(place)  # noqa: PTH100 - a later chdir must not lead to another file
        if read_only:
            return None, _sqlite.reading_engine(place)
        engine = _sqlite.writing_engine(place)
        _pooled.add(engine)
        return engine, engine.execution_options(reading=True)
    try:
        # A server may have restarted since a connection was used last.
        options = {"poolclass": NullPool} if read_only else {"max_overflow": -1, "pool_pre_ping": True}
        # A statement that follows a lock has to see what was committed while it was waited for.
        url = place.set(drivername="postgresql+psycopg")
        engine = create_engine(url, isolation_level="READ COMMITTED", **options)
    except ModuleNotFoundError:
        raise MissingDependencyError("psycopg", "postgres") from None
    answer_in_binary(engine)
    _pooled.add(engine)
    reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return None if read_only else engine, reading


_pooled: Final[WeakSet[Engine]] = WeakSet()


def _close_idle() -> None:
    """Close what a child would share: two processes cannot use one connection, nor SQLite's locks survive."""
    for engine in list(_pooled):
        engine.dispose()


if sys.platform != "win32":
    os.register_at_fork(before=_close_idle)
