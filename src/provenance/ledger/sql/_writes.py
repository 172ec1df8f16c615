"""Recording sequences and noting their use, inside of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Insert, Table, bindparam, case, text, update
from sqlalchemy.dialects import postgresql, sqlite

from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import in_chunks
from provenance.ledger.sql._reads import known_ids, rows_of_keys
from provenance.ledger.sql._rows import Row, conflict, key_of, later_use, rows_of, same_content
from provenance.ledger.sql._schema import BLOCKS, SEQUENCES
from provenance.sequences import SequenceTable

# Readers do not notice it.
_LOCK: Final = text(f"LOCK TABLE {BLOCKS}, {SEQUENCES} IN SHARE ROW EXCLUSIVE MODE")


def keep_others_out(connection: Connection) -> None:
    """Let no other writer in until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(_LOCK)


def insert_table(connection: Connection, table: SequenceTable) -> int:
    """Insert what is new of a table, and compare the rest with what is there; returns how many were new.

    Raises:
        LedgerError: a record cannot be kept, or contradicts one that is there.
    """
    rows, blocks = rows_of(table)
    if blocks:
        connection.execute(_insertion(connection, BLOCKS), blocks)
    if not rows:
        return 0
    new: int = connection.execute(
        _insertion(connection, SEQUENCES), rows, execution_options={"preserve_rowcount": True}
    ).rowcount
    if new < len(rows):
        _settle(connection, rows, table)
    return new


def _insertion(connection: Connection, table: Table) -> Insert:
    """The statement that inserts what is not there yet."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _settle(connection: Connection, rows: list[Row], table: SequenceTable) -> None:
    """Compare rows, some of which were there already, with what is there, and keep the later last use."""
    used = []
    for chunk in in_chunks(rows):
        there = rows_of_keys(connection, map(key_of, chunk))
        for row in chunk:
            stored = there[key_of(row)]._mapping
            if not same_content(row, stored):
                raise LedgerError(conflict(table, key_of(row)))
            if later_use(row, stored):
                used.append(
                    {"id": row["sequence_id"], "session": row["session_id"], "at": row["last_used_at"]}
                )
    if used:
        connection.execute(_USE, used)


def _later(column: ColumnElement[int | None]) -> ColumnElement[int]:
    return case((column > bindparam("at"), column), else_=bindparam("at"))


_USE: Final = (
    update(SEQUENCES)
    .where((SEQUENCES.c.sequence_id == bindparam("id")) & (SEQUENCES.c.session_id == bindparam("session")))
    .values(last_used_at=_later(SEQUENCES.c.last_used_at), last_use=_later(SEQUENCES.c.last_use))
)
_RENEW: Final = _USE.values(uses=SEQUENCES.c.uses + 1)


def renew_ids(connection: Connection, ids: Sequence[str], session: str, at: int) -> int:
    """Note that sequences were used at a time in microseconds; returns how many.

    Raises:
        LedgerError: one is not recorded.
    """
    known = known_ids(connection, ids, session)
    missing = next((i for i in ids if i not in known), None)
    if missing is not None:
        raise LedgerError(f"sequence {missing!r} of session {session!r} is not recorded; nothing was renewed")
    uses: list[dict[str, Any]] = [{"id": i, "session": session, "at": at} for i in sorted(known)]
    if uses and connection.execute(_RENEW, uses).rowcount < len(uses):
        raise LedgerError(f"a sequence of session {session!r} was pruned meanwhile; nothing was renewed")
    return len(uses)
