"""Ledgers: the record of what was sampled."""

from provenance.ledger._protocol import Ledger
from provenance.ledger.memory import MemoryLedger

__all__ = ["Ledger", "MemoryLedger"]
