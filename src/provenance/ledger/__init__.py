"""Ledgers: the record of what was sampled."""

from provenance.ledger._protocol import Ledger
from provenance.ledger.memory import MemoryLedger
from provenance.ledger.recorded import recorded_sequences
from provenance.ledger.stats import LedgerStats, SessionStats

__all__ = ["Ledger", "LedgerStats", "MemoryLedger", "SessionStats", "recorded_sequences"]
