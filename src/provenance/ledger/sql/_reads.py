"""Reading sequences: by id, by session, and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Select, bindparam, false, func, select, type_coerce
from sqlalchemy.types import NULLTYPE

from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import PromptCache, read_prompts
from provenance.ledger.sql._rows import BLANK, COLUMNS, columns_of, is_storable, table_of
from provenance.ledger.sql._schema import SEQUENCES
from provenance.ledger.sql._sound import refuse_stored, refuse_unsound
from provenance.ledger.sql._statements import in_chunks, rows_of_ids
from provenance.sequences import SequenceTable


def as_stored(column: str) -> Any:
    """A column of sequences as it is there: of a wrong value SQLAlchemy might make a right one."""
    return type_coerce(SEQUENCES.c[column], NULLTYPE)


ROWS: Final[Select[Any]] = select(*map(as_stored, COLUMNS)).execution_options(binary=True)
#: The condition for sequences that can be used; also for those of which it is damage what they say about it.
TRAINABLE: Final = SEQUENCES.c.record_stability_info.is_distinct_from(false())
OLDEST_FIRST: Final = (SEQUENCES.c.last_use, SEQUENCES.c.sequence_id, SEQUENCES.c.session_id)
_SESSION: Final = SEQUENCES.c.session_id
# Two of the sessions that an id belongs to, and not thousands.
_HOMES: Final = (
    select(
        SEQUENCES.c.sequence_id, func.min(_SESSION), func.max(_SESSION), func.count() - func.count(_SESSION)
    )
    .where(SEQUENCES.c.sequence_id.in_(bindparam("ids", expanding=True)))
    .group_by(SEQUENCES.c.sequence_id)
)
_ID: Final = COLUMNS.index("sequence_id")


def look_up(
    connection: Connection, ids: Sequence[str], session: str | None, cache: PromptCache
) -> SequenceTable:
    """One row for each id (see ``Ledger.lookup``)."""
    wanted = [i for i in dict.fromkeys(ids) if is_storable(i)]
    rows: list[Any] = []
    if session is not None and is_storable(session):
        rows += rows_of_ids(connection, COLUMNS, wanted, session)
    here = {row[_ID] for row in rows}
    elsewhere: dict[str, list[str]] = {}
    shared: set[str] = set()
    for chunk in in_chunks(i for i in wanted if i not in here):
        for sequence_id, first, last, nulls in connection.execute(_HOMES, {"ids": chunk}):
            if nulls or not (isinstance(first, str) and isinstance(last, str)):
                refuse_stored(connection, ["session_id"])
            elsewhere.setdefault(first, []).append(sequence_id)
            if first != last:
                shared.add(sequence_id)
    for home, own in elsewhere.items():
        rows += rows_of_ids(connection, COLUMNS, own, home)
    table = read_table(connection, rows, cache, blank=True)
    found = {sequence_id: row for row, sequence_id in enumerate(table.sequence_id[:-1].tolist())}
    if len(found) < len(rows):
        raise LedgerError(f"damaged: table {SEQUENCES} has two rows of one sequence and session")
    places = np.array([found.get(i, len(found)) for i in ids], np.int64)
    ambiguous = np.array([i in shared for i in ids], np.bool_)
    return replace(table.take(places), known=places < len(found), ambiguous=ambiguous)


def known_ids(connection: Connection, ids: Iterable[str], session: str) -> set[str]:
    """Those of the ids that the session has."""
    wanted = [i for i in dict.fromkeys(ids) if is_storable(i) and is_storable(session)]
    return {row[0] for row in rows_of_ids(connection, ["sequence_id"], wanted, session)}


def read_table(
    connection: Connection, rows: Sequence[Any], cache: PromptCache, *, blank: bool = False
) -> SequenceTable:
    """The table of rows that ``ROWS`` selects, and of a last row ``BLANK`` if wanted.

    Raises:
        LedgerError: there are values in them that no program writes.
    """
    columns = columns_of(rows)
    refuse_unsound(columns)
    if blank:
        columns = columns_of([*rows, BLANK])
    lengths = dict(zip(columns["prompt"], columns["prompt_length"], strict=True))
    lengths.pop(None, None)
    return table_of(columns, read_prompts(connection, lengths, cache))


def of_session(query: Select[Any], session: str | None) -> Select[Any]:
    """The query, for one session where one is given."""
    if session is None:
        return query
    return query.where(SEQUENCES.c.session_id == session if is_storable(session) else false())
