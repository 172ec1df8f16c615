"""A ledger in numbers, counted by its database."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Select, case, func, select, text

from provenance.ledger.sql._schema import BLOCKS, SEQUENCES
from provenance.ledger.sql._sound import refuse_stored
from provenance.ledger.stats import LedgerStats, SessionStats

_S: Final = SEQUENCES.c


def _number_of(condition: Any) -> Any:
    return func.sum(case((condition, 1), else_=0))


_SESSIONS: Final[Select[Any]] = select(
    _S.session_id,
    func.min(_S.sampled_at).label("first_sampled_at"),
    func.max(_S.last_use).label("last_use"),
    func.count().label("sequences"),
    _number_of(_S.record_stability_info).label("recorded"),
    # Four bytes for the logprob of a token.
    (func.sum(func.length(_S.logprobs)) / 4).label("sampled_tokens"),
    _number_of(_S.uses == 0).label("unused"),
    _number_of(_S.uses == 1).label("used_once"),
    _number_of(_S.uses > 1).label("used_again"),
).group_by(_S.session_id)
_COUNTED: Final = ("session_id", "sampled_at", "last_use", "uses", "record_stability_info", "logprobs")
_PROMPTS: Final = select(func.count(_S.prompt.distinct()))
_BLOCKS: Final = select(func.count()).select_from(BLOCKS)
_BYTES: Final = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": f"SELECT pg_total_relation_size('{SEQUENCES}') + pg_total_relation_size('{BLOCKS}')",
}


def stats_of(connection: Connection) -> LedgerStats:
    """Count everything.

    Raises:
        LedgerError: what is counted is not what a program writes.
    """
    refuse_stored(connection, _COUNTED)
    sessions = []
    names = _SESSIONS.selected_columns.keys()[1:]
    for session_id, *numbers in connection.execute(_SESSIONS):
        counts = {name: int(number) for name, number in zip(names, numbers, strict=True)}
        sessions.append(SessionStats.of(session_id, **counts))
    return LedgerStats(
        sessions=tuple(sorted(sessions, key=lambda session: session.session_id)),
        prompts=connection.scalar(_PROMPTS) or 0,
        prompt_blocks=connection.scalar(_BLOCKS) or 0,
        stored_bytes=connection.scalar(text(_BYTES[connection.dialect.name])) or 0,
    )
