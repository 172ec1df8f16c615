"""A ledger to write to, of which nothing is seen before all of it is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from provenance.errors import LedgerError
from provenance.formats._io import replacing
from provenance.ledger.place import SUFFIXES, is_url
from provenance.ledger.sql import SqlLedger


@contextmanager
def open_whole(place: str) -> Iterator[SqlLedger]:
    """The ledger; a new file appears when it is complete."""
    if is_url(place) or not place.lower().endswith(SUFFIXES) or Path(place).exists():
        with SqlLedger(place) as ledger:
            yield ledger
        return
    for file in _beside(place):
        if file.exists():
            # SQLite would take it for a part of the new one.
            raise LedgerError(f"{file}: left over from a ledger that is gone; remove it, then import again")
    with replacing(place) as temporary:
        try:
            with SqlLedger(temporary) as ledger:
                yield ledger
        except LedgerError as error:
            raise LedgerError(str(error).replace(temporary, place)) from error
        finally:
            left = [file for file in _beside(temporary) if file.exists()]
            for file in left:
                file.unlink()
        if left:
            # SQLite says nothing of a log that it could not bring into the database when that was closed.
            raise LedgerError(f"{place}: the disk is full; nothing was recorded")
        if Path(place).exists():
            raise LedgerError(
                f"{place}: another program created it meanwhile; nothing was recorded, try again"
            )


def _beside(place: str) -> list[Path]:
    """What SQLite keeps beside a database that is open."""
    file = Path(place).resolve()
    return [file.with_name(file.name + end) for end in ("-wal", "-shm")]
