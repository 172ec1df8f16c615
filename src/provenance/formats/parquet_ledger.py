"""A ledger over Parquet files that are larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import numpy as np

from provenance.columns import Fault, Ints, distinct, ranges
from provenance.errors import LedgerError, ReadError, SchemaError
from provenance.formats._folders import parquet_files
from provenance.formats._parquet_pieces import Pieces, bytes_in_memory
from provenance.ledger import LedgerStats, MemoryLedger
from provenance.ledger._forks import new_lock
from provenance.models import SampledSequence
from provenance.sequences import SequenceTable, microseconds

__all__ = ["LARGE", "ParquetLedger", "is_large"]

#: Bytes that the sequences of files may take in memory; `check` leaves what takes more in the files.
LARGE: Final = 2**31

_NONE: Final[Ints] = np.zeros(0, np.int64)


def is_large(paths: Sequence[str]) -> bool:
    """Tell whether the files are Parquet, each of them, and their sequences too many to hold in memory."""
    try:
        sizes = [bytes_in_memory(path) for path in paths]
    except ReadError:  # which reading them will say, in their order
        return False
    return None not in sizes and sum(filter(None, sizes)) > LARGE


class ParquetLedger:
    """Sequences in Parquet files, found by their ids and read when they are asked for.

    In memory are 16 bytes of index for each record, the records that were read last, and the answer. Reading
    is cheap where the datums ask in about the order in which the records lie: each row group is decoded once.
    Answers are those of a `MemoryLedger` that has loaded the files. Nothing can be written. Threads may share
    it, and a pickled one opens the files anew.
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        cache_bytes: int = 2**28,
        on_bytes: Callable[[str, int], None] | None = None,
    ) -> None:
        """Read what identifies each record, and judge all of them.

        Args:
            paths: A file or several, in the order that says which of records that conflict is the first; a
                folder stands for the Parquet files in it.
            cache_bytes: About how much the records take that are kept when they were read.
            on_bytes: Called with a file and the bytes of it that were read since the last call.

        Raises:
            ReadError: A file cannot be opened or is damaged; also in `lookup` and `expiring`.
            SchemaError: ``paths`` are no paths, or ``cache_bytes`` is no number of bytes.
        """
        if type(cache_bytes) is not int or cache_bytes < 0:
            raise SchemaError(f"cache_bytes is {cache_bytes!r}, expected a number of bytes")
        given: Any = [paths] if isinstance(paths, str | os.PathLike) else paths
        if not isinstance(given, Iterable):
            kind = type(paths).__name__
            raise SchemaError(f"cannot read a ledger from a {kind}: give paths of Parquet files")
        names = [os.fspath(path) for path in given]
        for name in names:
            if os.path.isdir(name) and not parquet_files(name):  # noqa: PTH112 - as parquet_files does
                raise ReadError(name, "a folder without a Parquet file")
        files = [file for name in names for file in parquet_files(name) or [name]]
        self._cache_bytes = cache_bytes
        self._lock = new_lock()
        self._pieces = Pieces(files, cache_bytes)
        self.faults: list[tuple[str, Fault]] = []
        """What is wrong with the files, and with the records that are missing because of it."""
        hashes, rows = [_NONE], [_NONE]
        for number, path in enumerate(self._pieces.paths):
            count = None if on_bytes is None else _bound(on_bytes, path)
            offset = self._pieces.offsets[number]
            for table, faults in self._pieces.scan(number, count):
                hashes.append(_hashes(table.sequence_id.tolist()))
                rows.append(table.row + offset)
                self.faults += [(path, fault) for fault in faults]
        joined = np.concatenate(hashes)
        del hashes  # as large as what it was joined into
        order = np.argsort(joined)
        self._hashes = joined[order]
        """Hashes of the ids of all records, ascending."""
        self._rows = np.concatenate(rows)[order]
        """The row of each, counted over all files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ParquetLedger, cache_bytes=self._cache_bytes), (self._pieces.paths,)

    def close(self) -> None:
        """Close the files, and forget what was read; another lookup opens them again."""
        with self._lock:
            self._pieces.close()

    def lookup(self, ids: Sequence[str], session: str | None) -> SequenceTable:
        """One row for each id (see ``Ledger.lookup``)."""
        with self._lock:
            return self._held(_hashes(ids)).lookup(ids, session)

    def expiring(self, before: datetime, session: str | None = None) -> SequenceTable:
        """What was last used before a time, the oldest first (see ``Ledger.expiring``); reads all files."""
        limit = microseconds(before)
        found = [_NONE]
        with self._lock:
            for number in range(len(self._pieces.paths)):
                for table, _ in self._pieces.scan(number):
                    chosen = np.maximum(table.sampled_at, table.last_used_at) < limit
                    chosen &= table.record_stability_info
                    if session is not None:
                        chosen &= table.session_id == session
                    found.append(_hashes(table.sequence_id[chosen].tolist()))
            return self._held(np.concatenate(found)).expiring(before, session)

    def _held(self, hashes: Ints) -> MemoryLedger:
        """All records whose ids have one of the hashes: those that are meant, and by chance others."""
        wanted = distinct(hashes)
        first = np.searchsorted(self._hashes, wanted)
        rows = np.sort(self._rows[ranges(first, np.searchsorted(self._hashes, wanted, "right") - first)])
        held = MemoryLedger()
        while len(rows):
            piece = self._pieces.at(int(rows[0]))
            here = int(np.searchsorted(rows, piece.stop))
            held.load(piece.take(rows[:here]))
            rows = rows[here:]
        return held

    def record(self, sequences: Iterable[SampledSequence]) -> int:  # noqa: ARG002 - as in Ledger
        """Refuse: Parquet files are not written to."""
        self._refuse("nothing was recorded")

    def renew(self, ids: Sequence[str], session: str, at: datetime) -> int:  # noqa: ARG002 - as in Ledger
        """Refuse: Parquet files are not written to."""
        self._refuse("nothing was renewed")

    def prune(self, before: datetime) -> int:  # noqa: ARG002 - as in Ledger
        """Refuse: Parquet files are not written to."""
        self._refuse("nothing was pruned")

    def stats(self) -> LedgerStats:
        """Refuse: repeated records and prompts cannot be told apart without holding all of them."""
        self._refuse("nothing was counted")

    def _refuse(self, so: str) -> NoReturn:
        raise LedgerError(
            f"a ledger over Parquet files answers lookups only, {so}: provenance ledger import makes a "
            "database of them"
        )


def _hashes(ids: Sequence[str]) -> Ints:
    # Python's own are keyed: nobody can make ids that share one.
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _bound(on_bytes: Callable[[str, int], None], path: str) -> Callable[[int], None]:
    return lambda count: on_bytes(path, count)
