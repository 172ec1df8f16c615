"""Recording sequences and noting their use, inside of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from sqlalchemy import Connection, text

from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import PromptCache
from provenance.ledger.sql._reads import known_ids, look_up
from provenance.ledger.sql._rows import conflict, distinct, is_storable, rows_of
from provenance.ledger.sql._schema import BLOCKS, SEQUENCES
from provenance.ledger.sql._sound import USED, refuse_stored
from provenance.ledger.sql._statements import in_chunks, insert_new, use_ids
from provenance.sequences import SequenceTable

#: Any number will do, as long as it stays the same.
_NAMING: Final = 5_217_402_612


def name_prompts(connection: Connection, *, alone: bool = False) -> None:
    """Let nobody delete blocks of prompts until the transaction ends, or, ``alone``, nobody name one either.

    Else a writer could be about to name a block that nothing names now.
    """
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        shared = "" if alone else "_shared"
        connection.execute(text(f"SELECT pg_advisory_xact_lock{shared}({_NAMING})"))


def insert_table(connection: Connection, table: SequenceTable) -> int:
    """Insert what is new of a table, and compare the rest with what is there; returns how many were new.

    Raises:
        LedgerError: a record cannot be kept, or contradicts one that is there.
    """
    table = distinct(table)
    sequences, blocks = rows_of(table)
    if connection.dialect.name == "postgresql":
        # Not to wait for each other. SQLite reads a prompt faster where its blocks lie together.
        order = sorted(range(len(blocks["key"])), key=blocks["key"].__getitem__)
        blocks = {name: [values[i] for i in order] for name, values in blocks.items()}
    insert_new(connection, BLOCKS, blocks)
    new = insert_new(connection, SEQUENCES, sequences)
    if new < len(table):
        gone = _settle(connection, table)
        if gone:
            new += insert_table(connection, table.take(np.array(gone, np.int64)))
    return new


def _settle(connection: Connection, table: SequenceTable) -> list[int]:
    """Compare sequences with those that were there already, and keep the later last use.

    Returns:
        The rows of those that are not there: pruned since they were found to be.
    """
    later: list[int] = []
    gone: list[int] = []
    for session in dict.fromkeys(table.session_id.tolist()):
        for rows in in_chunks(np.flatnonzero(table.session_id == session).tolist()):
            there = look_up(connection, table.sequence_id[rows].tolist(), session, PromptCache())
            for i, row in enumerate(rows):
                if not there.known[i] or there.session_id[i] != session:
                    gone.append(row)
                elif not there.same_content(i, table, row):
                    raise LedgerError(conflict(table, row))
                elif table.last_used_at[row] > there.last_used_at[i]:
                    later.append(row)
    for row in sorted(later):
        ids, session, at = [table.sequence_id[row]], table.session_id[row], int(table.last_used_at[row])
        if not use_ids(connection, ids, session, at, count=0):
            refuse_stored(connection, USED)
    return sorted(gone)


def renew_ids(connection: Connection, ids: Sequence[str], session: str, at: int) -> int:
    """Note that sequences were used at a time in microseconds; returns how many.

    Raises:
        LedgerError: one is not recorded, or what is noted of its use is not what a program writes.
    """
    wanted = set(ids)
    storable = sorted(i for i in wanted if is_storable(i) and is_storable(session))
    renewed = use_ids(connection, storable, session, at, count=1)
    if renewed < len(wanted):
        known = known_ids(connection, wanted, session)
        if known.issuperset(wanted):
            refuse_stored(connection, USED)
        missing = next(i for i in ids if i not in known)
        raise LedgerError(f"sequence {missing!r} of session {session!r} is not recorded; nothing was renewed")
    return renewed
