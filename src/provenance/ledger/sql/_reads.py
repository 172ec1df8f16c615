"""Reading sequences: by id, by session, and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from sqlalchemy import BindParameter, Connection, Select, bindparam, false, func, select

from provenance.ledger.sql._prompts import in_chunks, read_prompts
from provenance.ledger.sql._rows import BLANK, COLUMNS, Key, is_storable, table_of
from provenance.ledger.sql._schema import SEQUENCES
from provenance.sequences import SequenceTable

ROWS: Final = select(*COLUMNS)
OLDEST_FIRST: Final = (SEQUENCES.c.last_use, SEQUENCES.c.sequence_id, SEQUENCES.c.session_id)
_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
# Not pairs of id and session in one list: for that SQLite uses no index.
_ARE_IDS: Final = SEQUENCES.c.sequence_id.in_(_IDS) & (SEQUENCES.c.session_id == bindparam("session"))
_ROWS_OF_IDS: Final = ROWS.where(_ARE_IDS)
_KNOWN_IDS: Final = select(SEQUENCES.c.sequence_id).where(_ARE_IDS)
# Two of the sessions that an id belongs to, and not thousands.
_HOMES: Final = (
    select(SEQUENCES.c.sequence_id, func.min(SEQUENCES.c.session_id), func.max(SEQUENCES.c.session_id))
    .where(SEQUENCES.c.sequence_id.in_(_IDS))
    .group_by(SEQUENCES.c.sequence_id)
)


def look_up(connection: Connection, ids: Sequence[str], session: str | None) -> SequenceTable:
    """One row for each id (see ``Ledger.lookup``)."""
    wanted = [i for i in dict.fromkeys(ids) if is_storable(i)]
    found: dict[str, Any] = {}
    if session is not None and is_storable(session):
        own = rows_of_keys(connection, ((i, session) for i in wanted))
        found = {sequence_id: row for (sequence_id, _), row in own.items()}
    homes: list[Key] = []
    shared: set[str] = set()
    for chunk in in_chunks([i for i in wanted if i not in found]):
        for sequence_id, first, last in connection.execute(_HOMES, {"ids": chunk}):
            homes.append((sequence_id, first))
            if first != last:
                shared.add(sequence_id)
    found |= {sequence_id: row for (sequence_id, _), row in rows_of_keys(connection, homes).items()}
    table = read_table(connection, [*found.values(), BLANK])
    place = {sequence_id: row for row, sequence_id in enumerate(found)}
    rows = np.array([place.get(i, len(found)) for i in ids], np.int64)
    ambiguous = np.array([i in shared for i in ids], np.bool_)
    return replace(table.take(rows), known=rows < len(found), ambiguous=ambiguous)


def known_ids(connection: Connection, ids: Iterable[str], session: str) -> set[str]:
    """Those of the ids that the session has."""
    known: set[str] = set()
    for chunk in in_chunks(i for i in dict.fromkeys(ids) if is_storable(i) and is_storable(session)):
        known.update(connection.scalars(_KNOWN_IDS, {"ids": chunk, "session": session}))
    return known


def rows_of_keys(connection: Connection, keys: Iterable[Key]) -> dict[Key, Any]:
    """The rows of those keys that are there."""
    ids: dict[str, list[str]] = {}
    for sequence_id, session in keys:
        ids.setdefault(session, []).append(sequence_id)
    return {
        (row.sequence_id, session): row
        for session, own in ids.items()
        for chunk in in_chunks(own)
        for row in connection.execute(_ROWS_OF_IDS, {"ids": chunk, "session": session}).all()
    }


def read_table(connection: Connection, rows: Sequence[Any]) -> SequenceTable:
    """The table of rows that ``ROWS`` selects."""
    end = COLUMNS.index(SEQUENCES.c.prompt)
    return table_of(rows, read_prompts(connection, (row[end] for row in rows if row[end] is not None)))


def of_session(query: Select[Any], session: str | None) -> Select[Any]:
    """The query, for one session where one is given."""
    if session is None:
        return query
    return query.where(SEQUENCES.c.session_id == session if is_storable(session) else false())
