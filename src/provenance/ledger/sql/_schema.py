"""The tables of a ledger, and its version."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from provenance.errors import LedgerError
from provenance.models._base import shorten

#: Raised when a ledger that this program writes could not be read by an older one.
VERSION: Final = 2

METADATA: Final = MetaData()
LEDGER: Final = Table(
    "provenance_ledger", METADATA, Column("version", Integer, primary_key=True, autoincrement=False)
)
SEQUENCES: Final = Table(
    "provenance_sequences",
    METADATA,
    # The later of two that were recorded has the greater one, whatever was deleted between.
    Column("number", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("sequence_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("prompt", LargeBinary),  # key of the prompt's last block; null for an empty prompt
    Column("prompt_length", BigInteger, nullable=False),
    Column("sampled_at", BigInteger, nullable=False),  # microseconds since 1970 UTC, like the next two
    Column("last_used_at", BigInteger),
    Column("last_use", BigInteger, nullable=False),  # the later one of these two
    Column("uses", BigInteger, nullable=False, server_default=text("0")),
    Column("record_stability_info", Boolean, nullable=False),
    Column("model", Text),
    Column("policy_version", Text),
    Column("stop_reason", Text),
    Column("temperature", Double),
    Column("top_p", Double),
    Column("top_k", Integer),
    Column("seed", BigInteger),
    # The long ones last: SQLite reads a row from its start.
    Column("packed_tokens", LargeBinary, nullable=False),  # as many as logprobs
    Column("logprobs", LargeBinary, nullable=False),  # float32, little-endian
    # In this order one index finds an id in a session, and in any.
    UniqueConstraint("sequence_id", "session_id"),
    Index("provenance_sequences_last_use", "last_use"),
    sqlite_autoincrement=True,
)
BLOCKS: Final = Table(
    "provenance_prompt_blocks",
    METADATA,
    Column("key", LargeBinary, primary_key=True),
    Column("parent", LargeBinary),  # the block before it; null for a prompt's first
    Column("packed_tokens", LargeBinary, nullable=False),
)

#: What PostgreSQL would try to compress again, in vain.
_INCOMPRESSIBLE: Final = ((SEQUENCES, "packed_tokens"), (SEQUENCES, "logprobs"), (BLOCKS, "packed_tokens"))


def version_of(connection: Connection) -> int | None:
    """The version of the ledger that a database holds, None where it holds none.

    Raises:
        LedgerError: it holds a ledger that this program does not know, or is the database of something else.
    """
    if not inspect(connection).has_table(LEDGER.name):
        others = inspect(connection).get_table_names() if connection.dialect.name == "sqlite" else []
        if others:
            raise LedgerError(f"a database of another program (it has a table {others[0]!r}), not a ledger")
        return None
    version: object = connection.scalar(select(LEDGER.c.version))
    if not isinstance(version, int) or version < 1:
        raise LedgerError(f"a ledger of version {shorten(version)}, which no program writes: is it damaged?")
    if version > VERSION:
        raise LedgerError(
            f"a ledger of version {version}, and this program reads up to {VERSION}: "
            "run pip install --upgrade datum-provenance"
        )
    return version


def create(connection: Connection) -> None:
    """Create the tables."""
    METADATA.create_all(connection)
    connection.execute(insert(LEDGER), {"version": VERSION})
    if connection.dialect.name == "postgresql":
        for table, column in _INCOMPRESSIBLE:
            connection.execute(text(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTERNAL"))
