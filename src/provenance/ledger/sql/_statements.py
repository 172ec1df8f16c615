"""The statements that many rows go through, as each database takes them fastest.

PostgreSQL gets the values of a column as one array and answers in binary form, so that a statement is one
round trip, whatever it moves. Measured against that, COPY to a temporary table records three quarters as many
sequences in a second, `executemany` 0.6, and VALUES of many rows 0.4. SQLite has no arrays, but nor has it
round trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, Table, event

from provenance.ledger.sql._schema import BLOCKS, SEQUENCES
from provenance.ledger.sql._sound import USED, unsound_in_sql

#: Values of one list in a statement; SQLite's limit was 999 once.
AT_ONCE: Final = 500

T = TypeVar("T")


def in_chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, as many at a time as one statement takes."""
    iterator = iter(items)
    while chunk := list(islice(iterator, AT_ONCE)):
        yield chunk


def answer_in_binary(engine: Engine) -> None:
    """Let a PostgreSQL server answer statements with the execution option ``binary`` in binary form."""
    from psycopg.pq import Format

    # The names and types of the parameters are the event's.
    def choose(_c: Any, cursor: Any, _s: Any, _p: Any, context: Any, _m: Any) -> None:
        if context.execution_options.get("binary"):
            cursor.format = Format.BINARY

    event.listen(engine, "before_cursor_execute", choose)


def insert_new(connection: Connection, table: Table, columns: Mapping[str, Sequence[Any]]) -> int:
    """Insert the rows whose keys are not there yet, in their order, and return how many these are."""
    if connection.dialect.name == "postgresql":
        arrays = ", ".join(f"%b::{table.c[name].type.compile(connection.dialect)}[]" for name in columns)
        source = f"SELECT * FROM unnest({arrays})"
    else:
        source = f"VALUES ({', '.join('?' * len(columns))})"
    statement = f"INSERT INTO {table} ({', '.join(columns)}) {source} ON CONFLICT DO NOTHING"
    new = 0
    for rows in in_chunks(zip(*columns.values(), strict=True)):
        given = rows if connection.dialect.name == "sqlite" else tuple(map(list, zip(*rows, strict=True)))
        options = {"preserve_rowcount": True}
        new += connection.exec_driver_sql(statement, given, execution_options=options).rowcount
    return new


def rows_of_ids(
    connection: Connection, names: Sequence[str], ids: Iterable[str], session: str
) -> Iterator[Sequence[Any]]:
    """Columns of those of the ids that a session has, in no order."""
    # Not pairs of id and session in one list: for that SQLite uses no index.
    query = f"SELECT {', '.join(names)} FROM {SEQUENCES} WHERE session_id = {{}} AND sequence_id {{}}"
    for chunk in in_chunks(ids):
        yield from _rows(connection, query, chunk, session)


def chains_of(connection: Connection, ends: Iterable[bytes]) -> Iterator[Sequence[Any]]:
    """Key, parent and packed tokens of the blocks of prompts, by the keys of their last blocks.

    Of 500 prompts each block comes once.
    """
    query = _CHAINS[connection.dialect.name]
    for chunk in in_chunks(ends):
        yield from _rows(connection, query, chunk)


_CHAINS: Final = {
    # Keys first, because SQLite sorts what UNION compares.
    "sqlite": f"""
        WITH RECURSIVE chain (key) AS (
            SELECT key FROM {BLOCKS} WHERE key {{}}
            UNION SELECT parent FROM chain JOIN {BLOCKS} USING (key) WHERE parent IS NOT NULL
        ) SELECT key, parent, packed_tokens FROM chain JOIN {BLOCKS} USING (key)""",
    # OFFSET keeps it from reading all blocks at every step, as it does where it expects chains of many.
    "postgresql": f"""
        WITH RECURSIVE chain (key, parent, packed_tokens) AS (
            SELECT key, parent, packed_tokens FROM {BLOCKS} WHERE key {{}}
            UNION SELECT block.key, block.parent, block.packed_tokens FROM chain
            CROSS JOIN LATERAL (SELECT * FROM {BLOCKS} AS b WHERE b.key = chain.parent OFFSET 0) AS block
        ) SELECT key, parent, packed_tokens FROM chain""",
}


def _rows(connection: Connection, query: str, chosen: Sequence[Any], *values: Any) -> Sequence[Any]:
    """The answer to a query that has a mark for each value, and a last one for what is chosen."""
    if connection.dialect.name == "postgresql":
        kind = "bytea" if isinstance(chosen[0], bytes) else "text"
        marks, parameters = [*["%b"] * len(values), f"= ANY (%b::{kind}[])"], (*values, chosen)
    else:
        marks = [*["?"] * len(values), f"IN ({', '.join('?' * len(chosen))})"]
        parameters = (*values, *chosen)
    options = {"binary": True}
    return connection.exec_driver_sql(query.format(*marks), parameters, execution_options=options).all()


def use_ids(connection: Connection, ids: Iterable[str], session: str, at: int, *, count: int) -> int:
    """Note that those of the ids that a session has were used, and return how many these are.

    The ids are sorted; ``at`` is in microseconds since 1970 UTC, and ``count`` is what to add to their uses.
    Rows of SQLite where something else than numbers would be added to are left out.
    """
    used = 0
    for chunk in in_chunks(ids):
        parameters: tuple[Any, ...]
        if connection.dialect.name == "postgresql":
            statement, parameters = _USE_IN_ORDER, (session, chunk, at, at, count)
        else:
            statement = _USE.format(marks=", ".join("?" * len(chunk)))
            parameters = (at, at, at, count, session, *chunk)
        used += connection.exec_driver_sql(statement, parameters).rowcount
    return used


# Two transactions that lock the same rows in different orders would wait for each other.
_USE_IN_ORDER: Final = f"""
    WITH used AS MATERIALIZED (
        SELECT number FROM {SEQUENCES} WHERE session_id = %b AND sequence_id = ANY (%b::text[])
        ORDER BY sequence_id COLLATE "C" FOR NO KEY UPDATE
    )
    UPDATE {SEQUENCES} AS s SET
        last_used_at = greatest(last_used_at, %b), last_use = greatest(last_use, %b), uses = uses + %b
    FROM used WHERE s.number = used.number"""
_USE: Final = f"""
    UPDATE {SEQUENCES} SET
        last_used_at = max(coalesce(last_used_at, ?), ?), last_use = max(last_use, ?), uses = uses + ?
    WHERE session_id = ? AND sequence_id IN ({{marks}}) AND NOT ({unsound_in_sql(USED, "sqlite")})"""
