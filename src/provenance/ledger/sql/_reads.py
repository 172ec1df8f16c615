"""Reading sequences: by id, by session, and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Select, bindparam, false, func, select

from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import PromptCache, read_prompts
from provenance.ledger.sql._rows import BLANK, COLUMNS, is_storable, table_of
from provenance.ledger.sql._schema import SEQUENCES
from provenance.ledger.sql._statements import in_chunks, rows_of_ids
from provenance.sequences import SequenceTable

ROWS: Final = select(*(SEQUENCES.c[name] for name in COLUMNS)).execution_options(binary=True)
OLDEST_FIRST: Final = (SEQUENCES.c.last_use, SEQUENCES.c.sequence_id, SEQUENCES.c.session_id)
# Two of the sessions that an id belongs to, and not thousands.
_HOMES: Final = (
    select(SEQUENCES.c.sequence_id, func.min(SEQUENCES.c.session_id), func.max(SEQUENCES.c.session_id))
    .where(SEQUENCES.c.sequence_id.in_(bindparam("ids", expanding=True)))
    .group_by(SEQUENCES.c.sequence_id)
)
_ID, _PROMPT, _LENGTH = (COLUMNS.index(name) for name in ("sequence_id", "prompt", "prompt_length"))


def look_up(
    connection: Connection, ids: Sequence[str], session: str | None, cache: PromptCache
) -> SequenceTable:
    """One row for each id (see ``Ledger.lookup``)."""
    wanted = [i for i in dict.fromkeys(ids) if is_storable(i)]
    found: dict[str, Any] = {}
    if session is not None and is_storable(session):
        found = {row[_ID]: row for row in rows_of_ids(connection, COLUMNS, wanted, session)}
    elsewhere: dict[str, list[str]] = {}
    shared: set[str] = set()
    for chunk in in_chunks(i for i in wanted if i not in found):
        for sequence_id, first, last in connection.execute(_HOMES, {"ids": chunk}):
            elsewhere.setdefault(first, []).append(sequence_id)
            if first != last:
                shared.add(sequence_id)
    for home, own in elsewhere.items():
        found |= {row[_ID]: row for row in rows_of_ids(connection, COLUMNS, own, home)}
    table = read_table(connection, [*found.values(), BLANK], cache)
    place = {sequence_id: row for row, sequence_id in enumerate(found)}
    rows = np.array([place.get(i, len(found)) for i in ids], np.int64)
    ambiguous = np.array([i in shared for i in ids], np.bool_)
    return replace(table.take(rows), known=rows < len(found), ambiguous=ambiguous)


def known_ids(connection: Connection, ids: Iterable[str], session: str) -> set[str]:
    """Those of the ids that the session has."""
    wanted = [i for i in dict.fromkeys(ids) if is_storable(i) and is_storable(session)]
    return {row[0] for row in rows_of_ids(connection, ["sequence_id"], wanted, session)}


def read_table(connection: Connection, rows: Sequence[Any], cache: PromptCache) -> SequenceTable:
    """The table of rows that ``ROWS`` selects.

    Raises:
        LedgerError: there are values in them that no program writes.
    """
    try:
        lengths = {row[_PROMPT]: row[_LENGTH] for row in rows if row[_PROMPT] is not None}
        return table_of(rows, read_prompts(connection, lengths, cache))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise LedgerError(f"damaged: a record holds what no program writes ({error})") from error


def of_session(query: Select[Any], session: str | None) -> Select[Any]:
    """The query, for one session where one is given."""
    if session is None:
        return query
    return query.where(SEQUENCES.c.session_id == session if is_storable(session) else false())
