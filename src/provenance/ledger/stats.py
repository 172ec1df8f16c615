"""What a ledger holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

__all__ = ["LedgerStats", "SessionStats"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(moment: int) -> datetime:
    """A time in UTC from microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStats:
    """The sequences of one session."""

    session_id: str
    sequences: int
    recorded: int
    """Those that were sampled with stability info, which alone can be trained on with StableReinforce."""
    sampled_tokens: int
    unused: int
    """Sequences that no training request used, as far as ``renew`` was told."""
    used_once: int
    used_again: int
    """Sequences that more than one training request used."""
    first_sampled_at: datetime
    """When the oldest was sampled; UTC."""
    last_use: datetime
    """When one was sampled or used last; UTC."""

    @classmethod
    def of(cls, session_id: str, first_sampled_at: int, last_use: int, **counts: int) -> Self:
        """From times in microseconds since 1970 UTC."""
        return cls(
            session_id=session_id,
            first_sampled_at=time_of(first_sampled_at),
            last_use=time_of(last_use),
            **counts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStats:
    """A ledger in numbers."""

    sessions: tuple[SessionStats, ...]
    """By session_id."""
    prompts: int
    """Distinct prompts that are not empty."""
    prompt_blocks: int
    """Pieces in which they are stored; prompts that begin alike may share some."""
    stored_bytes: int
    """Size of the database, or of the arrays in memory."""

    @property
    def sequences(self) -> int:
        """Sequences of all sessions."""
        return sum(session.sequences for session in self.sessions)

    @property
    def used_again(self) -> int:
        """Sequences of all sessions that more than one training request used."""
        return sum(session.used_again for session in self.sessions)
