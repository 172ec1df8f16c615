"""Telling databases from files of sequences, without opening them as such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from provenance.ledger._forks import new_lock

__all__ = ["MAGIC", "SUFFIXES", "is_database", "is_url", "start_of"]

#: What the name of a new ledger ends in.
SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
#: What every SQLite file starts with.
MAGIC: Final = b"SQLite format 3\0"


def is_url(place: str | os.PathLike[str]) -> bool:
    """Whether it is an address such as ``postgresql://host/name``, and not a path."""
    return "://" in os.fspath(place)


def is_database(place: str | os.PathLike[str]) -> bool:
    """Whether it names a database: an address, a SQLite file, or a path that ends as one does."""
    name = os.fspath(place)
    if is_url(name) or name.lower().endswith(SUFFIXES):
        return True
    try:
        # Nothing but a regular file: reading from a pipe would take what its reader is meant to get.
        # An empty one is not asked: `start_of` would keep it open.
        return Path(name).is_file() and Path(name).stat().st_size > 0 and start_of(name, len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def start_of(path: str, size: int) -> bytes:
    """The first bytes of a file that may be a SQLite database which this process has open.

    Where any descriptor of a file is closed, POSIX drops all locks that the process holds on it, SQLite's
    too, and others would write to what is being written (https://sqlite.org/howtocorrupt.html, 2.2). So
    that of a database, or of an empty file that may become one, stays open, one for each file.
    """
    found = Path(path).stat()
    key = found.st_dev, found.st_ino
    with _reading:
        descriptor = _kept.get(key)
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        os.lseek(descriptor, 0, os.SEEK_SET)
        start = os.read(descriptor, size)
        if key not in _kept:
            if start[: len(MAGIC)] in (b"", MAGIC):
                _kept[key] = descriptor
            else:
                os.close(descriptor)
    return start


_kept: Final[dict[tuple[int, int], int]] = {}
_reading: Final = new_lock()
