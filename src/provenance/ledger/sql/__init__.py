"""The ledger in a SQL database. Importing it loads SQLAlchemy."""

from provenance.ledger.sql._ledger import SqlLedger

__all__ = ["SqlLedger"]
