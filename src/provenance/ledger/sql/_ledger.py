"""A ledger in a SQL database, for any number of processes that record and read at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from logging import INFO
from typing import Any, Final, Self, TypeVar

from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from provenance._log import event
from provenance.errors import LedgerError
from provenance.ledger.sql._engine import engines_of, place_of
from provenance.ledger.sql._migrate import create_or_migrate
from provenance.ledger.sql._prompts import PromptCache
from provenance.ledger.sql._prune import STEP, forget, make_way, sweep
from provenance.ledger.sql._reads import (
    OLDEST_FIRST,
    ROWS,
    TRAINABLE,
    as_stored,
    look_up,
    of_session,
    read_table,
)
from provenance.ledger.sql._rows import is_storable
from provenance.ledger.sql._schema import SEQUENCES, VERSION, version_of
from provenance.ledger.sql._sound import refuse_stored, refuse_unsound, refuse_unsound_use
from provenance.ledger.sql._sqlite import is_stale
from provenance.ledger.sql._statements import rows_of_ids
from provenance.ledger.sql._stats import stats_of
from provenance.ledger.sql._words import in_words, is_standoff
from provenance.ledger.sql._writes import insert_table, name_prompts, renew_ids
from provenance.ledger.stats import LedgerStats, time_of
from provenance.models import SampledSequence
from provenance.sequences import SequenceTable, microseconds, moment_of_use, table_of_models

T = TypeVar("T")

#: Of one table of ``SqlLedger.tables``, about; each prompt counts, also one that is shared.
_TABLE_BYTES: Final = 64 << 20
_TABLE_ROWS: Final = 4096
_EXPIRING: Final = ("sequence_id", "session_id", "last_use", "record_stability_info")
#: How often a write is tried that PostgreSQL undoes because it and others wait for each other.
_ATTEMPTS: Final = 5


class SqlLedger:
    """Sampled sequences in a SQLite file, or in PostgreSQL where many hosts sample.

    What was recorded, renewed or pruned is there after a crash of the program, and after a loss of power (as
    far as the disk keeps what it acknowledged). Threads and processes may share a ledger; a writer waits
    for others, five minutes at most. Prompts are stored once, also where one only extends another.
    """

    def __init__(
        self, place: str | os.PathLike[str], *, create: bool = True, read_only: bool = False
    ) -> None:
        """Open a ledger, or create one.

        Args:
            place: path of a SQLite file, a new one's ending in .db, .sqlite or .sqlite3; or an address,
                ``sqlite:///PATH`` or ``postgresql://USER:PASSWORD@HOST/NAME``.
            create: create the ledger where there is none. One that an older program made is brought up to
                date in either case, in one transaction.
            read_only: refuse to write; nothing is created then. A SQLite file may lie in a folder that
                cannot be written.

        Raises:
            LedgerError: it cannot be opened, is no ledger, or is one of a newer version; or of an older one,
                and ``read_only``.
            MissingDependencyError: psycopg, for PostgreSQL, is not installed.
        """
        with in_words(os.fspath(place)):
            found = place_of(place)
        # Without the options of an address: a password may be among them.
        self._place = found if isinstance(found, str) else found.set(query={}).render_as_string()
        self._prompts = PromptCache()
        with in_words(self._place):
            self._writing, self._reading = engines_of(found, create=create, read_only=read_only)
        try:
            self._open(create=create)
        except BaseException:
            self.close()
            raise
        event(INFO, "ledger opened", ledger=self._place, read_only=read_only)

    def _open(self, *, create: bool) -> None:
        version = self._read(version_of)
        if version == VERSION:
            return
        if version is not None and self._writing is None:
            raise LedgerError(
                f"{self._place}: a ledger of version {version}, and this program reads version {VERSION}: "
                "provenance ledger upgrade brings it up to date"
            )
        if version is None and (self._writing is None or not create):
            raise LedgerError(
                f"{self._place}: holds no ledger yet; "
                "provenance ledger import makes one from files of sequences"
            )
        started = time.monotonic()
        self._write(create_or_migrate)
        action = "ledger created" if version is None else "ledger upgraded"
        event(INFO, action, ledger=self._place, version=VERSION, since=started)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        for engine in (self._writing, self._reading):
            if engine is not None:
                engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SqlLedger({self._place!r})"

    # --- writing

    def record(self, sequences: Iterable[SampledSequence]) -> int:
        """Record sequences, all or none (see ``Ledger.record``).

        Raises:
            LedgerError: also for an id or a text with a NUL or a lone surrogate.
        """
        table = table_of_models(sequences)

        def insert(connection: Connection) -> int:
            name_prompts(connection)
            return insert_table(connection, table)

        return self._write(insert)

    def record_tables(self, tables: Iterable[SequenceTable]) -> int:
        """Record tables, all or none, holding one of them at a time; others that record wait until the end.

        Returns:
            How many sequences were new.

        Raises:
            LedgerError: as for ``record``, and for a record that is inconsistent in itself.
        """

        def insert(connection: Connection) -> int:
            name_prompts(connection, alone=True)
            return sum(insert_table(connection, table) for table in tables)

        return self._write(insert, attempts=1)  # the tables are gone after the first

    def renew(self, ids: Sequence[str], session: str, at: datetime) -> int:
        """Restart the day of sequences (see ``Ledger.renew``)."""
        moment = moment_of_use(at)
        return self._write(lambda connection: renew_ids(connection, ids, session, moment))

    def prune(self, before: datetime) -> int:
        """Forget what was last used before a time (see ``Ledger.prune``).

        In short transactions, so that others go on meanwhile, and not all or none: what was forgotten before
        an error stays so. The file does not shrink: what is recorded next takes the place.
        """
        moment, pruned, started = microseconds(before), 0, time.monotonic()
        self._read(refuse_unsound_use)
        while True:
            start = time.monotonic()
            step = self._write(lambda connection: forget(connection, moment))
            pruned += step
            if step < STEP:
                break
            make_way(start)
        if pruned:
            with in_words(self._place):
                sweep(self._writable())
        event(INFO, "sequences pruned", ledger=self._place, sequences=pruned, since=started)
        return pruned

    # --- reading

    def lookup(self, ids: Sequence[str], session: str | None) -> SequenceTable:
        """One row for each id (see ``Ledger.lookup``)."""
        return self._read(lambda connection: look_up(connection, ids, session, self._prompts))

    def expiring(self, before: datetime, session: str | None = None) -> SequenceTable:
        """What was last used before a time, the oldest first (see ``Ledger.expiring``)."""
        query = of_session(ROWS, session).order_by(*OLDEST_FIRST)
        query = query.where(SEQUENCES.c.last_use < microseconds(before), TRAINABLE)

        def read(connection: Connection) -> SequenceTable:
            refuse_unsound_use(connection)
            return self._table(connection, connection.execute(query).all())

        return self._read(read)

    def last_uses(self, before: datetime, session: str | None = None) -> Iterator[tuple[str, str, datetime]]:
        """Of what ``expiring`` would give: sequence_id, session_id, and when it was sampled or used last.

        Nothing else is read, so that there may be any number of them.
        """
        query = of_session(select(*map(as_stored, _EXPIRING)).order_by(*OLDEST_FIRST), session)
        query = query.where(SEQUENCES.c.last_use < microseconds(before), TRAINABLE)
        with in_words(self._place), self._reading.connect() as connection, connection.begin():
            refuse_unsound_use(connection)
            for rows in connection.execute(query, execution_options={"yield_per": 1000}).partitions():
                ids, sessions, uses, _ = values = tuple(zip(*rows, strict=True))
                refuse_unsound(dict(zip(_EXPIRING, values, strict=True)))
                yield from zip(ids, sessions, map(time_of, uses), strict=True)
            _refuse_stale(connection)

    def sessions(self) -> list[str]:
        """The sessions that it holds sequences of, sorted."""
        query = select(SEQUENCES.c.session_id).distinct()

        def read(connection: Connection) -> list[str]:
            sessions = connection.scalars(query).all()
            if not all(isinstance(session, str) and session for session in sessions):
                refuse_stored(connection, ["session_id"])
            return sorted(sessions)

        return self._read(read)

    def uses(self, sequence_id: str, session: str) -> int:
        """How many training requests used a sequence, as far as ``renew`` was told."""
        if not (is_storable(sequence_id) and is_storable(session)):
            return 0

        def read(connection: Connection) -> int:
            for row in rows_of_ids(connection, ["uses"], [sequence_id], session):
                refuse_unsound({"sequence_id": [sequence_id], "session_id": [session], "uses": row})
                return int(row[0])
            return 0

        return self._read(read)

    def stats(self) -> LedgerStats:
        """The ledger in numbers."""
        return self._read(stats_of)

    def tables(self, session: str | None = None) -> Iterator[SequenceTable]:
        """All sequences, or those of a session, as they are now; the oldest last use first.

        Yields:
            Tables of at most 4,096 sequences and about 64 MB.

        Raises:
            LedgerError: the file of a ledger that is read only was changed meanwhile.
        """
        query = of_session(ROWS, session).order_by(*OLDEST_FIRST)
        with in_words(self._place), self._reading.connect() as connection, connection.begin():
            rows, size = [], 0
            for row in connection.execute(query, execution_options={"yield_per": 256}):
                rows.append(row)
                size += _bytes_of(row)
                if len(rows) == _TABLE_ROWS or size >= _TABLE_BYTES:
                    yield self._fresh_table(connection, rows)
                    rows, size = [], 0
            if rows:
                yield self._fresh_table(connection, rows)

    def _fresh_table(self, connection: Connection, rows: Sequence[Any]) -> SequenceTable:
        table = self._table(connection, rows)
        _refuse_stale(connection)
        return table

    def _table(self, connection: Connection, rows: Sequence[Any]) -> SequenceTable:
        return read_table(connection, rows, self._prompts)

    # --- transactions

    def _writable(self) -> Engine:
        if self._writing is None:
            raise LedgerError("opened read-only")
        return self._writing

    def _write(self, work: Callable[[Connection], T], *, attempts: int = _ATTEMPTS) -> T:
        """Do something in a transaction, and again where others were in the way and the server undid it."""
        with in_words(self._place):
            while True:
                attempts -= 1
                try:
                    with self._writable().begin() as connection:
                        return work(connection)
                except DBAPIError as error:
                    if not (attempts and is_standoff(error)):
                        raise
                    event(INFO, "transaction retried", ledger=self._place, attempts_left=attempts)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with in_words(self._place):
            while True:
                with self._reading.connect() as connection, connection.begin():
                    try:
                        answer = work(connection)
                    except Exception:
                        if not is_stale(connection):
                            raise
                    else:
                        if not is_stale(connection):
                            return answer


def _bytes_of(row: Any) -> int:
    """About what a row takes; one that holds what no program writes is refused when its table is made."""
    length, logprobs = row.prompt_length, row.logprobs
    return 4 * length + 2 * len(logprobs) if isinstance(length, int) and isinstance(logprobs, bytes) else 0


def _refuse_stale(connection: Connection) -> None:
    if is_stale(connection):
        raise LedgerError("a writer changed it while it was read; please try again")
