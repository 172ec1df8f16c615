"""A table of sequences that grows in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import Array
from provenance.sequences import COLUMNS, SequenceTable


class GrowingTable:
    """A table to which rows are added at a cost that does not depend on how many are there.

    Each column has room for up to twice its rows. Room that was never written to takes no memory, and no
    column is ever there twice but the one that gets more room.
    """

    def __init__(self, first: SequenceTable) -> None:
        """A table that starts with these rows, and keeps their pools."""
        self._columns: dict[str, Array] = {name: getattr(first, name) for name in COLUMNS}
        self._table: SequenceTable | None = first
        self._size = len(first)
        self.pool, self.logprobs = first.pool, first.logprobs

    def __len__(self) -> int:
        return self._size

    @property
    def table(self) -> SequenceTable:
        """The rows as they lie here: what is written to them stays, until more are added."""
        if self._table is None:
            columns: dict[str, Any] = {name: column[: self._size] for name, column in self._columns.items()}
            self._table = SequenceTable(**columns, pool=self.pool, logprobs=self.logprobs)
        return self._table

    def snapshot(self) -> SequenceTable:
        """The rows as they are now, without room for more: what is added or written later is not in it."""
        columns = {name: getattr(self.table, name).copy() for name in COLUMNS}
        return SequenceTable(**columns, pool=self.pool.copy(), logprobs=self.logprobs.copy())

    def append(self, columns: Mapping[str, Array]) -> None:
        """Add rows, as copies of these columns, whose addresses are in the pools of this table."""
        self._table = None
        size = self._size + len(columns["row"])
        for name, added in columns.items():
            column = self._columns[name]
            if len(column) < size:
                column = np.empty(max(size, 2 * len(column)), column.dtype)
                column[: self._size] = self._columns[name][: self._size]
                self._columns[name] = column
            column[self._size : size] = added
        self._size = size
