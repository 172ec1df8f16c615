"""Telling databases from files of sequences, without opening them as such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["MAGIC", "SUFFIXES", "is_database", "is_url"]

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
        if not Path(name).is_file():
            return False
        with Path(name).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False
