"""Forgetting sequences, in steps short enough for others to record, look up and renew between them.

Sequences go first. Then what no prompt needs any more is searched for while others go on, and deleted in
steps too, each of which first takes out of it what was named meanwhile.
"""

from __future__ import annotations

import time
from typing import Final

from sqlalchemy import Connection, Engine, func, select, text

from provenance.ledger.sql._schema import BLOCKS, SEQUENCES
from provenance.ledger.sql._writes import name_prompts

#: Sequences, or blocks, that are deleted in one transaction.
STEP: Final = 1000

_OLD: Final = f"SELECT number FROM {SEQUENCES} WHERE last_use < :before ORDER BY last_use LIMIT :step"
_FORGET: Final = {
    "sqlite": f"DELETE FROM {SEQUENCES} WHERE number IN ({_OLD})",
    # What is locked is being renewed, or pruned by another. To wait for it could be to wait for each other.
    "postgresql": f"DELETE FROM {SEQUENCES} WHERE number = ANY (ARRAY({_OLD} FOR UPDATE SKIP LOCKED))",
}
_LAST: Final = select(func.coalesce(func.max(SEQUENCES.c.number), 0))
_PARENTS: Final = {
    "sqlite": f"live JOIN {BLOCKS} AS b ON b.key = live.key",
    # OFFSET keeps it from reading all blocks at every step.
    "postgresql": f"live CROSS JOIN LATERAL (SELECT * FROM {BLOCKS} WHERE key = live.key OFFSET 0) AS b",
}


def forget(connection: Connection, before: int) -> int:
    """Delete some sequences whose last use lies before a time in microseconds, and return how many.

    Fewer than ``STEP`` are the last ones.
    """
    statement = text(_FORGET[connection.dialect.name])
    return connection.execute(statement, {"before": before, "step": STEP}).rowcount


def sweep(engine: Engine) -> None:
    """Delete the blocks that are in no prompt, while others record."""
    with engine.connect() as connection:
        connection.detach()  # the table of dead blocks goes with the connection
        live = (
            f"WITH RECURSIVE live (key) AS (SELECT prompt FROM {SEQUENCES} WHERE prompt IS NOT NULL "
            f"AND number > :last UNION SELECT b.parent FROM {_PARENTS[connection.dialect.name]} "
            "WHERE b.parent IS NOT NULL) SELECT key FROM live"
        )
        with connection.begin():
            name_prompts(connection, alone=True)
            last = connection.scalar(_LAST)
            kind = BLOCKS.c.key.type.compile(connection.dialect)
            connection.execute(text(f"CREATE TEMPORARY TABLE dead (key {kind} PRIMARY KEY)"))
        connection.execution_options(reading=True)
        with connection.begin():
            # EXCEPT and not NOT IN: that takes PostgreSQL quadratic time where the list is long.
            connection.execute(
                text(f"INSERT INTO dead SELECT key FROM {BLOCKS} EXCEPT SELECT key FROM ({live}) AS live"),
                {"last": 0},
            )
        connection.execution_options(reading=False)
        end: bytes | None = b""
        while end is not None:
            start = time.monotonic()
            with connection.begin():
                name_prompts(connection, alone=True)
                connection.execute(text(f"DELETE FROM dead WHERE key IN ({live})"), {"last": last})
                last = connection.scalar(_LAST)
                end = _delete_after(connection, end)
            make_way(start)


def _delete_after(connection: Connection, key: bytes) -> bytes | None:
    """Delete some dead blocks whose keys follow a key, and return the last one's; None where none follow."""
    some = "SELECT key FROM dead WHERE key > :key ORDER BY key LIMIT :step"
    parameters = {"key": key, "step": STEP}
    last = f"SELECT key FROM ({some}) AS next ORDER BY key DESC LIMIT 1"
    end: bytes | None = connection.scalar(text(last), parameters)
    if end is not None:
        connection.execute(text(f"DELETE FROM {BLOCKS} WHERE key IN ({some})"), parameters)
    return end


def make_way(start: float) -> None:
    """Let others write for as long as a step took that started at a time of ``monotonic``."""
    time.sleep(time.monotonic() - start)
