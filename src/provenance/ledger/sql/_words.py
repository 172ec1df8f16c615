"""Errors of databases and of the operating system in words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError

from provenance._text import without_passwords
from provenance.errors import LedgerError
from provenance.ledger.sql._sqlite import PATIENCE

__all__ = ["in_words", "is_standoff"]

_LOST: Final = (
    "the connection was lost, and what it was writing may be there or not; it is safe to record it again"
)
#: deadlock_detected and serialization_failure.
_STANDOFFS: Final = ("40P01", "40001")


def is_standoff(error: DBAPIError) -> bool:
    """Whether a transaction was undone only because it and others were in each other's way."""
    return getattr(error.orig, "sqlstate", None) in _STANDOFFS


@contextmanager
def in_words(place: str) -> Iterator[None]:
    """Turn errors of databases into LedgerErrors of one line that starts with the place."""
    try:
        yield
    except LedgerError as error:
        raise LedgerError(without_passwords(f"{place}: {error}")) from None
    except DBAPIError as error:
        lost = f"; {_LOST}" if error.connection_invalidated else ""
        raise LedgerError(f"{place}: {_words(error.orig)}{lost}") from error
    except UnicodeDecodeError as error:  # sqlite3 raises it for its own messages about names that are damaged
        raise LedgerError(f"{place}: the database is damaged: a name in it is not UTF-8") from error
    except (sqlite3.Error, OSError) as error:
        raise LedgerError(f"{place}: {_words(error)}") from error


_SQLITE_WORDS: Final = {
    sqlite3.SQLITE_BUSY: f"another program has been writing to it for more than {PATIENCE:g} s",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: is the file there, and may you write to its folder?",
    sqlite3.SQLITE_CORRUPT: "the database is damaged",
    sqlite3.SQLITE_FULL: "the disk is full; nothing was changed",
    sqlite3.SQLITE_IOERR: "the disk did not take or give the data (is it full?); nothing was changed",
    sqlite3.SQLITE_NOTADB: "no SQLite database, so no ledger",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written",
}


def _words(error: BaseException | None) -> str:
    if isinstance(error, OSError):
        text = error.strerror or str(error)
    else:
        text = str(error).strip().partition("\n")[0]
    words = text[:1].lower() + text[1:]
    code = getattr(error, "sqlite_errorcode", None)
    return words if code is None else _SQLITE_WORDS.get(code & 0xFF, words)
