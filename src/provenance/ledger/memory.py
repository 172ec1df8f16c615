"""A ledger in memory: flat arrays that grow, an index by id, each distinct prompt once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import wraps
from hashlib import blake2b
from math import nan
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np

from provenance.columns import Ints, Mask, offsets_of
from provenance.errors import LedgerError
from provenance.ledger._growing import GrowingTable
from provenance.ledger.stats import LedgerStats, SessionStats
from provenance.models import SampledSequence
from provenance.pool import ranges_agree
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

#: Tokens of a prompt, evenly spread, that make its digest together with its length.
_SAMPLED_TOKENS: Final = 8
_ODD: Final = np.int64(0x9E3779B97F4A7C15 - 2**64)


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
        self._lock = threading.RLock()
        self._uses: Counter[tuple[str, str]] = Counter()
        self._clear()
        self.record(sequences)

    def _clear(self) -> None:
        # Row 0 is blank: a lookup answers with it where nothing is known.
        self._rows = GrowingTable(_blank())
        self._index: dict[str, dict[str, int]] = {}
        self._prompts: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._rows) - 1

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    @_one_at_a_time
    def record(self, sequences: Iterable[SampledSequence]) -> int:
        """Record sequences, all or none (see ``Ledger.record``)."""
        table = table_of_models(sequences)
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
        """Add a table as it is.

        A repeat of a record is dropped, its last use kept. Of records that conflict the first is kept and
        marked, so that SEQ008 reports it.
        """
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
        rows = np.flatnonzero(table.prompt_length > 0)
        rows = rows[np.unique(table.prompt_start[rows], return_index=True)[1]]
        # Prompts with equal digests may be there twice.
        stored = self._rows.pool.slices(table.prompt_start[rows], table.prompt_length[rows])
        prompts = len({blake2b(tokens.tobytes()).digest() for tokens in stored})
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
        digests = _digests(table)
        address, new = self._sort_out_prompts(table, digests)
        prompts = table.pool.joined(table.prompt_start[new], table.prompt_length[new])
        tokens = table.pool.joined(table.token_start, table.token_length)
        first = self._rows.pool.append(np.concatenate([np.zeros(0, np.int32), *prompts, *tokens]))
        logprobs = table.logprobs.joined(table.logprob_start, table.logprob_length)
        first_logprob = self._rows.logprobs.append(np.concatenate([np.zeros(0, np.float32), *logprobs]))
        # Places among the new prompts are negative, so that they cannot be taken for addresses.
        address = np.where(address < 0, first - 1 - address, address)
        self._prompts.update(zip(digests[new].tolist(), address[new].tolist(), strict=True))
        own = {
            "prompt_start": address,
            "token_start": first + int(table.prompt_length[new].sum()) + offsets_of(table.token_length)[:-1],
            "logprob_start": first_logprob + offsets_of(table.logprob_length)[:-1],
        }
        self._rows.append({name: getattr(table, name) for name in COLUMNS} | own)

    def _sort_out_prompts(self, table: SequenceTable, digests: Ints) -> tuple[Ints, Ints]:
        """Find each row's prompt among those that are there and those of the other rows.

        Returns:
            (n,) the address of a prompt that is there, or -1 - the place it will have among the new ones; and
            the rows whose prompts are new.
        """
        _, first, group = np.unique(digests, return_index=True, return_inverse=True)
        source = first[group]
        repeats = np.flatnonzero(source != np.arange(len(source)))
        different = _differ(table, repeats, source[repeats])
        source[repeats[different]] = repeats[different]  # same digest, other prompt
        new = np.flatnonzero(source == np.arange(len(source)))
        known = np.array([self._prompts.get(digest, -1) for digest in digests[new].tolist()], np.int64)
        there = np.flatnonzero(known >= 0)
        rows = new[there]
        found = self._rows.pool.slices(known[there], table.prompt_length[rows])
        prompts = table.pool.slices(table.prompt_start[rows], table.prompt_length[rows])
        same = [np.array_equal(a, b) for a, b in zip(found, prompts, strict=True)]
        known[there[~np.array(same, np.bool_)]] = -1
        place = np.zeros(len(source), np.int64)
        place[new] = known
        new = new[known < 0]
        place[new] = -1 - offsets_of(table.prompt_length[new])[:-1]
        return place[source], new


def _digests(table: SequenceTable) -> Ints:
    """(n,): numbers that equal prompts share; others seldom do, since length or some token differs."""
    length = table.prompt_length
    digest = length.copy()
    for part in range(_SAMPLED_TOKENS):
        place = np.maximum(length - 1, 0) * part // (_SAMPLED_TOKENS - 1)
        tokens = table.pool.at(table.prompt_start + place, length > 0)
        digest = digest * _ODD + tokens
    return digest


def _differ(table: SequenceTable, rows: Ints, others: Ints) -> Mask:
    """(len(rows),): the prompts of two rows are not the same."""
    same_length = table.prompt_length[rows] == table.prompt_length[others]
    rows, others = rows[same_length], others[same_length]
    starts = table.prompt_start
    differ: Mask = ~same_length
    differ[same_length] = ~ranges_agree(
        table.pool, starts[rows], table.pool, starts[others], table.prompt_length[rows]
    )
    return differ


def _blank() -> SequenceTable:
    builder = TableBuilder()
    builder.append(
        Record(b"", b"", b"", 0, ABSENT, ABSENT, ABSENT, False, nan, nan, "", "", None, None, None), -1
    )
    return replace(builder.finish(), known=np.zeros(1, np.bool_))
