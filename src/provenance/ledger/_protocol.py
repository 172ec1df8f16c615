"""What every ledger does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from provenance.ledger.stats import LedgerStats
from provenance.models import SampledSequence
from provenance.sequences import SequenceTable


@runtime_checkable
class Ledger(Protocol):
    """A record of sampled sequences, keyed by (session_id, sequence_id).

    Ids are unique within their session only. Times are aware datetimes.
    """

    def record(self, sequences: Iterable[SampledSequence]) -> int:
        """Record sequences, all or none; an identical repeat changes nothing.

        Returns:
            How many were new.

        Raises:
            LedgerError: a key is recorded already, or twice among these, with different content.
        """
        ...

    def lookup(self, ids: Sequence[str], session: str | None) -> SequenceTable:
        """One row for each id, in that order. A check of files may call it from several threads at once.

        The row is that of the session where it has the id, else of the first other session, by name, that
        does; ``known`` is False where no session has it, ``ambiguous`` True where several others do.
        """
        ...

    def renew(self, ids: Sequence[str], session: str, at: datetime) -> int:
        """Note that a training request used sequences, which restarts their day, and count the use.

        Returns:
            How many were renewed.

        Raises:
            LedgerError: one of them is not recorded; nothing is changed then.
        """
        ...

    def expiring(self, before: datetime, session: str | None = None) -> SequenceTable:
        """Recorded-for-training sequences whose last use lies before a time, the oldest first."""
        ...

    def prune(self, before: datetime) -> int:
        """Forget sequences whose last use lies before a time; returns how many."""
        ...

    def stats(self) -> LedgerStats:
        """What it holds, in numbers."""
        ...
