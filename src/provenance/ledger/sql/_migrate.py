"""From a ledger as an older program wrote it to one of today."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Table, text

from provenance.errors import LedgerError
from provenance.ledger.sql._schema import BLOCKS, LEDGER, SEQUENCES, VERSION, create, version_of
from provenance.ledger.sql._statements import AT_ONCE, insert_new
from provenance.ledger.sql._tokens import pack

#: Any number will do, as long as it stays the same.
_CREATION: Final = 5_217_402_611


def create_or_migrate(connection: Connection) -> None:
    """Make a ledger of today's version, of one of an older version or of nothing.

    Of several processes that do so at once, one does, and the others wait.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION})"))
    version = version_of(connection)
    if version is None:
        create(connection)
    elif version < VERSION:
        _from_1_to_2(connection)


def _from_1_to_2(connection: Connection) -> None:
    """Version 1 gave no number to a sequence, and four bytes to each token."""
    for table in (SEQUENCES, BLOCKS):
        connection.execute(text(f"ALTER TABLE {table} RENAME TO {table}_1"))
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"ALTER INDEX {table}_pkey RENAME TO {table}_1_pkey"))
    connection.execute(text(f"DROP INDEX {SEQUENCES}_last_use"))
    connection.execute(LEDGER.delete())
    create(connection)
    for table in (SEQUENCES, BLOCKS):
        _copy_from_1(connection, table)
        connection.execute(text(f"DROP TABLE {table}_1"))


def _copy_from_1(connection: Connection, table: Table) -> None:
    names = [column.name for column in table.c if column.name not in ("number", "packed_tokens")]
    rows = text(f"SELECT {', '.join(names)}, tokens FROM {table}_1")
    for part in connection.execute(rows, execution_options={"yield_per": AT_ONCE}).partitions():
        *columns, tokens = map(list, zip(*part, strict=True))
        if not all(isinstance(ids, bytes) and len(ids) % 4 == 0 for ids in tokens):
            raise LedgerError(f"damaged: tokens in table {table}_1 that are not four bytes each")
        values = dict(zip(names, columns, strict=True))
        insert_new(connection, table, values | {"packed_tokens": pack(tokens)})
