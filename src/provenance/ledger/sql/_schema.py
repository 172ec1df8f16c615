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
    insert,
    inspect,
    select,
    text,
)

from provenance.errors import LedgerError

#: Raised when a ledger that this program writes could not be read by an older one.
VERSION: Final = 1

_METADATA: Final = MetaData()
_LEDGER: Final = Table(
    "provenance_ledger", _METADATA, Column("version", Integer, primary_key=True, autoincrement=False)
)
SEQUENCES: Final = Table(
    "provenance_sequences",
    _METADATA,
    # In this order one index finds an id in a session, and in any.
    Column("sequence_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("prompt", LargeBinary),  # key of the prompt's last block; null for an empty prompt
    Column("prompt_length", BigInteger, nullable=False),
    Column("sampled_at", BigInteger, nullable=False),  # microseconds since 1970 UTC, like the next two
    Column("last_used_at", BigInteger),
    Column("last_use", BigInteger, nullable=False),  # the later one of these two
    Column("uses", BigInteger, nullable=False),
    Column("record_stability_info", Boolean, nullable=False),
    Column("model", Text),
    Column("policy_version", Text),
    Column("stop_reason", Text),
    Column("temperature", Double),
    Column("top_p", Double),
    Column("top_k", Integer),
    Column("seed", BigInteger),
    # The long ones last: SQLite reads a row from its start.
    Column("tokens", LargeBinary, nullable=False),  # int32, little-endian
    Column("logprobs", LargeBinary, nullable=False),  # float32, little-endian
    Index("provenance_sequences_last_use", "last_use"),
)
BLOCKS: Final = Table(
    "provenance_prompt_blocks",
    _METADATA,
    Column("key", LargeBinary, primary_key=True),
    Column("parent", LargeBinary),  # the block before it; null for a prompt's first
    Column("tokens", LargeBinary, nullable=False),  # int32, little-endian
)

#: Any number will do, as long as it stays the same.
_CREATION_LOCK: Final = 5_217_402_611


def is_there(connection: Connection) -> bool:
    """Whether the database holds a ledger, of a version that this program reads.

    Raises:
        LedgerError: it holds a ledger of another version, or is the database of something else.
    """
    if not inspect(connection).has_table(_LEDGER.name):
        others = inspect(connection).get_table_names() if connection.dialect.name == "sqlite" else []
        if others:
            raise LedgerError(f"a database of another program (it has a table {others[0]!r}), not a ledger")
        return False
    version = connection.scalar(select(_LEDGER.c.version))
    if version is not None and version > VERSION:
        raise LedgerError(
            f"a ledger of version {version}, and this program reads up to {VERSION}: "
            "run pip install --upgrade datum-provenance"
        )
    if version != VERSION:
        raise LedgerError(f"a ledger of version {version}, which no program writes: is it damaged?")
    return True


def create(connection: Connection) -> None:
    """Create the tables, unless another process did meanwhile."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _CREATION_LOCK})
    if not is_there(connection):
        _METADATA.create_all(connection)
        connection.execute(insert(_LEDGER), {"version": VERSION})
