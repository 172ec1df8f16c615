"""A ledger in memory: flat arrays that grow, an index by id, each distinct prompt once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from math import nan
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from provenance.columns import Ints, distinct, offsets_of
from provenance.errors import LedgerError
from provenance.ledger._forks import new_lock
from provenance.ledger._growing import GrowingTable
from provenance.ledger._prompts import Key, holders
from provenance.ledger.stats import LedgerStats, SessionStats
from provenance.models import SampledSequence
from provenance.sequences import (
    ABSENT,
    COLUMNS,
    Record,
    SequenceTable,
    TableBuilder,
    microseconds,
    moment_of_use,
    table_of_models,
)

P = ParamSpec("P")
T = TypeVar("T")


def _one_at_a_time(
    method: Callable[Concatenate[MemoryLedger, P], T],
) -> Callable[Concatenate[MemoryLedger, P], T]:
    @wraps(method)
    def alone(self: MemoryLedger, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class MemoryLedger:
    """Sequences held in memory: read from files, or recorded by a program that keeps them itself.

    Threads may share it: a recorder writes from one while a check reads from another.
    """

    def __init__(self, sequences: Iterable[SampledSequence] = ()) -> None:
        self._lock = new_lock()
        self._uses: Counter[tuple[str, str]] = Counter()
        self._clear()
        self.record(sequences)

    def _clear(self) -> None:
        # Row 0 is blank: a lookup answers with it where nothing is known.
        self._rows = GrowingTable(_blank())
        self._index: dict[str, dict[str, int]] = {}
        self._prompts: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._rows) - 1

    def __getstate__(self) -> dict[str, Any]:
        # Copies, since whoever pickles walks through them when others may write again.
        with self._lock:
            state = vars(self) | {
                "_uses": self._uses.copy(),
                "_rows": self._rows.snapshot(),
                "_index": {session: index.copy() for session, index in self._index.items()},
                "_prompts": self._prompts.copy(),
            }
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock(), _rows=GrowingTable(state["_rows"]))

    def record(self, sequences: Iterable[SampledSequence]) -> int:
        """Record sequences, all or none (see ``Ledger.record``)."""
        return self._record(table_of_models(sequences))  # nobody waits for the caller's iterator

    @_one_at_a_time
    def _record(self, table: SequenceTable) -> int:
        first: dict[tuple[str, str], int] = {}
        for row, key in enumerate(zip(table.session_id, table.sequence_id, strict=True)):
            earlier, at = first.setdefault(key, row), self._index.get(key[0], {}).get(key[1])
            if not table.same_content(earlier, table, row) or (
                at is not None and not self._rows.table.same_content(at, table, row)
            ):
                raise LedgerError(
                    f"sequence {key[1]!r} of session {key[0]!r} is recorded already, with other content; "
                    "nothing was recorded"
                )
        before = len(self)
        self.load(table)
        return len(self) - before

    @_one_at_a_time
    def load(self, table: SequenceTable) -> None:
        """Add a table as it is, without the rows of a lookup that found nothing.

        A repeat of a record is dropped, its last use kept. Of records that conflict the first is kept and
        marked, so that SEQ008 reports it; a mark that a record has already stays.
        """
        if not table.known.all():
            table = table.take(np.flatnonzero(table.known))
        for session in dict.fromkeys(table.session_id.tolist()):
            own = np.flatnonzero(table.session_id == session)
            self._load_session(session, table if len(own) == len(table) else table.take(own))

    def _load_session(self, session: str, table: SequenceTable) -> None:
        index = self._index.setdefault(session, {})
        ids = table.sequence_id.tolist()
        first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
        new = [
            row
            for row, sequence_id in enumerate(ids)
            if sequence_id not in index and first[sequence_id] == row
        ]
        if new:
            size = len(self._rows)
            self._append(table if len(new) == len(ids) else table.take(np.array(new, np.int64)))
            index.update(zip([ids[row] for row in new], range(size, len(self._rows)), strict=True))
        if len(new) == len(ids):
            return
        known = self._rows.table
        for row in sorted(set(range(len(ids))) - set(new)):
            at = index[ids[row]]
            if known.same_content(at, table, row):
                known.last_used_at[at] = max(known.last_used_at[at], table.last_used_at[row])
                known.conflicting[at] |= table.conflicting[row]
            else:
                known.conflicting[at] = True

    @_one_at_a_time
    def lookup(self, ids: Sequence[str], session: str | None) -> SequenceTable:
        """One row for each id (see ``Ledger.lookup``)."""
        own = self._index.get(session, {}) if session is not None else {}
        rows = np.array([own.get(sequence_id, 0) for sequence_id in ids], np.int64)
        ambiguous = []
        for i in (rows == 0).nonzero()[0].tolist():
            elsewhere = {name: index[ids[i]] for name, index in self._index.items() if ids[i] in index}
            rows[i] = elsewhere[min(elsewhere)] if elsewhere else 0
            if len(elsewhere) > 1:
                ambiguous.append(i)
        found = self._rows.table.take(rows)
        found.ambiguous[ambiguous] = True
        return found

    @_one_at_a_time
    def renew(self, ids: Sequence[str], session: str, at: datetime) -> int:
        """Restart the day of sequences (see ``Ledger.renew``)."""
        index = self._index.get(session, {})
        rows = [index.get(sequence_id) for sequence_id in ids]
        for sequence_id, row in zip(ids, rows, strict=True):
            if row is None:
                raise LedgerError(
                    f"sequence {sequence_id!r} of session {session!r} is not recorded; nothing was renewed"
                )
        table, moment = self._rows.table, moment_of_use(at)
        for row in {row for row in rows if row is not None}:
            table.last_used_at[row] = max(table.last_used_at[row], moment)
        self._uses.update((session, sequence_id) for sequence_id in set(ids))
        return len(set(ids))

    @_one_at_a_time
    def uses(self, sequence_id: str, session: str) -> int:
        """How many training requests used a sequence, as far as ``renew`` was told."""
        return self._uses[session, sequence_id]

    @_one_at_a_time
    def expiring(self, before: datetime, session: str | None = None) -> SequenceTable:
        """What was last used before a time, the oldest first (see ``Ledger.expiring``)."""
        table, used = self._rows.table, self._last_use()
        chosen = (used < microseconds(before)) & table.record_stability_info & table.known
        if session is not None:
            chosen &= table.session_id == session
        rows = np.flatnonzero(chosen)
        return table.take(rows[np.argsort(used[rows], kind="stable")])

    @_one_at_a_time
    def prune(self, before: datetime) -> int:
        """Forget what was last used before a time (see ``Ledger.prune``)."""
        size = len(self)
        kept = np.flatnonzero(self._rows.table.known & (self._last_use() >= microseconds(before)))
        table = self._rows.table.take(kept)
        self._clear()
        self.load(table)
        kept_keys = zip(table.session_id, table.sequence_id, strict=True)
        self._uses = Counter({key: self._uses[key] for key in kept_keys if key in self._uses})
        return size - len(self)

    @_one_at_a_time
    def stats(self) -> LedgerStats:
        """What is held, in numbers (see ``Ledger.stats``)."""
        table, used = self._rows.table, self._last_use()
        prompts = len(distinct(table.prompt_start[table.prompt_length > 0]))
        return LedgerStats(
            sessions=tuple(
                self._session_stats(session, np.array(list(index.values()), np.int64), used)
                for session, index in sorted(self._index.items())
                if index
            ),
            prompts=prompts,
            prompt_blocks=prompts,
            stored_bytes=self._rows.pool.nbytes + self._rows.logprobs.nbytes,
        )

    def _session_stats(self, session: str, rows: Ints, used: Ints) -> SessionStats:
        table = self._rows.table
        uses = Counter(min(self._uses[session, i], 2) for i in self._index[session])
        return SessionStats.of(
            session,
            int(table.sampled_at[rows].min()),
            int(used[rows].max()),
            sequences=len(rows),
            recorded=int(np.count_nonzero(table.record_stability_info[rows])),
            sampled_tokens=int(table.token_length[rows].sum()),
            unused=uses[0],
            used_once=uses[1],
            used_again=uses[2],
        )

    def _last_use(self) -> Ints:
        return np.maximum(self._rows.table.sampled_at, self._rows.table.last_used_at)

    def _append(self, table: SequenceTable) -> None:
        """Add the rows of a table, with its tokens and those of its prompts that are not there yet."""
        there, size = self._rows.table, len(self._rows)
        holder, new = holders(table, there, self._prompts)
        own = np.flatnonzero(holder == np.arange(size, size + len(table)))
        prompts = table.pool.joined(table.prompt_start[own], table.prompt_length[own])
        tokens = table.pool.joined(table.token_start, table.token_length)
        first = self._rows.pool.append(np.concatenate([np.zeros(0, np.int32), *prompts, *tokens]))
        logprobs = table.logprobs.joined(table.logprob_start, table.logprob_length)
        first_logprob = self._rows.logprobs.append(np.concatenate([np.zeros(0, np.float32), *logprobs]))
        ends = first + offsets_of(table.prompt_length[own])
        prompt_start = np.empty(len(table), np.int64)
        prompt_start[own] = ends[:-1]
        old = holder < size
        prompt_start[~old] = prompt_start[holder[~old] - size]
        prompt_start[old] = there.prompt_start[holder[old]]
        columns = {
            "prompt_start": prompt_start,
            "token_start": ends[-1] + offsets_of(table.token_length)[:-1],
            "logprob_start": first_logprob + offsets_of(table.logprob_length)[:-1],
            "ambiguous": np.zeros(len(table), np.bool_),  # what a lookup said of another ledger
        }
        self._rows.append({name: getattr(table, name) for name in COLUMNS} | columns)
        self._prompts.update(new)


def _blank() -> SequenceTable:
    builder = TableBuilder()
    builder.append(
        Record(b"", b"", b"", 0, ABSENT, ABSENT, ABSENT, False, nan, nan, "", "", None, None, None), -1
    )
    return replace(builder.finish(), known=np.zeros(1, np.bool_))
