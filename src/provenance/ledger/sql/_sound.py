"""What the columns of a ledger may hold.

SQLite keeps any value in any column, and a database may come from anywhere, so that each value is looked at
before something is made of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, text

from provenance.errors import LedgerError
from provenance.ledger.sql._schema import SEQUENCES
from provenance.models._base import shorten
from provenance.sequences import ABSENT, EARLIEST, LATEST

#: What is noted of the use of a sequence.
USED: Final = ("last_used_at", "last_use", "uses")
_INT64_MAX: Final = 2**63 - 1
_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)
_NULL: Final = type(None)


@dataclass(frozen=True, slots=True)
class _Kind:
    types: frozenset[type]
    words: str
    limits: tuple[float, float] | None = None


def _integer(low: int, high: int, words: str | None = None) -> _Kind:
    return _Kind(frozenset((int,)), words or f"an integer in [{low}, {high}]", (low, high))


def _or_null(kind: _Kind) -> _Kind:
    return _Kind(kind.types | {type(None)}, f"{kind.words}, or NULL", kind.limits)


_ID: Final = _Kind(frozenset((str,)), "text that is not empty")
_TEXT: Final = _Kind(frozenset((str,)), "text")
_BYTES: Final = _Kind(frozenset((bytes,)), "bytes")
_REAL: Final = _Kind(frozenset((float, int)), "a finite number of 32 bits", (-_FLOAT32_MAX, _FLOAT32_MAX))
_TIME: Final = _integer(EARLIEST, LATEST, "microseconds since 1970 of a time in the years 1 to 9999")
_KINDS: Final[Mapping[str, _Kind]] = {
    **dict.fromkeys(("sequence_id", "session_id"), _ID),
    **dict.fromkeys(("model", "policy_version", "stop_reason"), _or_null(_TEXT)),
    "prompt": _or_null(_BYTES),
    "prompt_length": _integer(0, _INT64_MAX),
    **dict.fromkeys(("sampled_at", "last_use"), _TIME),
    "last_used_at": _or_null(_TIME),
    "uses": _integer(0, _INT64_MAX - 1),
    "record_stability_info": _Kind(frozenset((bool, int)), "0 or 1", (0, 1)),
    **dict.fromkeys(("temperature", "top_p"), _or_null(_REAL)),
    "top_k": _or_null(_integer(-(2**31), 2**31 - 1)),
    "seed": _or_null(_integer(ABSENT + 1, _INT64_MAX)),
    **dict.fromkeys(("packed_tokens", "logprobs"), _BYTES),
}
#: The types of values by their names in SQLite.
_TYPES: Final = {"integer": int, "real": float, "text": str, "blob": bytes, "null": type(None)}


def refuse_unsound(columns: Mapping[str, Sequence[Any]]) -> None:
    """Refuse rows with a value that no program writes.

    Args:
        columns: the rows' values by the name of their column, ``sequence_id`` and ``session_id`` among them.

    Raises:
        LedgerError: there is one.
    """
    for name, values in columns.items():
        kind = _KINDS[name]
        fit = kind.types.issuperset(map(type, values))
        if fit and kind.limits is not None:
            low, high = kind.limits
            fit = all(low <= value <= high for value in values if value is not None)
        if not fit or (kind is _ID and "" in values):
            row = next(i for i, value in enumerate(values) if not _is_sound(kind, value))
            raise unsound(columns, row, name, kind.words)


def _is_sound(kind: _Kind, value: Any) -> bool:
    if type(value) not in kind.types or (kind is _ID and not value):
        return False
    return value is None or kind.limits is None or kind.limits[0] <= value <= kind.limits[1]


def unsound(columns: Mapping[str, Sequence[Any]], row: int, name: str, expected: str) -> LedgerError:
    """The error about a value of a row."""
    sequence, session = (shorten(columns[key][row]) for key in ("sequence_id", "session_id"))
    return LedgerError(
        f"damaged: {shorten(columns[name][row])} as {name} of sequence {sequence} of session {session} "
        f"in table {SEQUENCES}, expected {expected}"
    )


def refuse_stored(connection: Connection, names: Collection[str]) -> None:
    """Look through all rows for a value of some columns that no program writes.

    Raises:
        LedgerError: there is one.
    """
    _refuse_where(connection, names, unsound_in_sql(names, connection.dialect.name))


def refuse_unsound_use(connection: Connection) -> None:
    """Look for a last use that is no time, which nothing that asks for what is old would come by.

    In SQLite's order text and bytes come after any number.

    Raises:
        LedgerError: there is one.
    """
    _refuse_where(connection, ("last_use",), f"last_use < {EARLIEST} OR last_use > {LATEST}")
    # By itself, because together with the others SQLite searches for it without the index.
    _refuse_where(connection, ("last_use",), "last_use IS NULL")


def _refuse_where(connection: Connection, names: Collection[str], condition: str) -> None:
    columns = list(dict.fromkeys(("sequence_id", "session_id", *names)))
    query = f"SELECT {', '.join(columns)} FROM {SEQUENCES} WHERE {condition} LIMIT 1"
    for row in connection.execute(text(query)):
        refuse_unsound({name: [value] for name, value in zip(columns, row, strict=True)})


def unsound_in_sql(names: Collection[str], dialect: str) -> str:
    """The condition that a row meets where one of the columns holds what no program writes.

    PostgreSQL keeps to the types of its columns, so that there only their range is looked at.
    """
    conditions = []
    for name in names:
        kind = _KINDS[name]
        if dialect == "sqlite":
            types = ", ".join(f"'{stored}'" for stored, found in _TYPES.items() if found in kind.types)
            conditions.append(f"typeof({name}) NOT IN ({types})")
        if kind is _ID:
            conditions.append(f"{name} = ''")
        if kind.limits is not None and (dialect == "sqlite" or bool not in kind.types):
            low, high = kind.limits
            conditions.append(f"{name} IS NOT NULL AND {name} NOT BETWEEN {low} AND {high}")
    return " OR ".join(conditions)
