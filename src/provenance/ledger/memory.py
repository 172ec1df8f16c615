"""A ledger in memory: flat arrays that grow, an index by id, each distinct prompt once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from math import nan
from typing import Final

import numpy as np

from provenance.columns import Array, Ints, Mask, offsets_of
from provenance.errors import LedgerError
from provenance.models import SampledSequence
from provenance.sequences import ABSENT, Record, SequenceTable, TableBuilder, microseconds, table_of_models

#: Tokens at the end of a prompt that make its digest: turns of one conversation begin alike.
_TAIL: Final = 64
_POOLS: Final = ("pool", "logprobs")
_COLUMNS: Final = tuple(f.name for f in fields(SequenceTable) if f.name not in _POOLS)


class MemoryLedger:
    """Sequences held in memory: read from files, or recorded by a program that keeps them itself."""

    def __init__(self, sequences: Iterable[SampledSequence] = ()) -> None:
        self._uses: Counter[tuple[str, str]] = Counter()
        self._clear()
        self.record(sequences)

    def _clear(self) -> None:
        # Row 0 is blank: a lookup answers with it where nothing is known.
        blank = _blank()
        self._pool, self._logprobs = blank.pool, blank.logprobs
        self._parts = [blank]
        self._size = 1
        self._index: dict[str, dict[str, int]] = {}
        self._prompts: dict[int, int] = {}

    def __len__(self) -> int:
        return self._size - 1

    def record(self, sequences: Iterable[SampledSequence]) -> int:
        """Record sequences, all or none (see ``Ledger.record``)."""
        table = table_of_models(sequences)
        first: dict[tuple[str, str], int] = {}
        for row, key in enumerate(zip(table.session_id, table.sequence_id, strict=True)):
            earlier, at = first.setdefault(key, row), self._index.get(key[0], {}).get(key[1])
            if not table.same_content(earlier, table, row) or (
                at is not None and not self._table.same_content(at, table, row)
            ):
                raise LedgerError(
                    f"sequence {key[1]!r} of session {key[0]!r} is recorded already, with other content; "
                    "nothing was recorded"
                )
        before = len(self)
        self.load(table)
        return len(self) - before

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
        size = self._size
        self._append(table if len(new) == len(ids) else table.take(np.array(new, np.int64)))
        index.update(zip([ids[row] for row in new], range(size, self._size), strict=True))
        if len(new) == len(ids):
            return
        known = self._table
        for row in sorted(set(range(len(ids))) - set(new)):
            at = index[ids[row]]
            if known.same_content(at, table, row):
                known.last_used_at[at] = max(known.last_used_at[at], table.last_used_at[row])
            else:
                known.conflicting[at] = True

    def lookup(self, ids: Sequence[str], session: str | None) -> SequenceTable:
        """One row for each id (see ``Ledger.lookup``)."""
        own = self._index.get(session, {}) if session is not None else {}
        rows = np.array([own.get(sequence_id, 0) for sequence_id in ids], np.int64)
        ambiguous = np.zeros(len(ids), np.bool_)
        for i in np.flatnonzero(rows == 0).tolist():
            elsewhere = [index[ids[i]] for index in self._index.values() if ids[i] in index]
            rows[i], ambiguous[i] = elsewhere[0] if elsewhere else 0, len(elsewhere) > 1
        return replace(self._table.take(rows), ambiguous=ambiguous)

    def renew(self, ids: Sequence[str], session: str, at: datetime) -> int:
        """Restart the day of sequences (see ``Ledger.renew``)."""
        index = self._index.get(session, {})
        rows = [index.get(sequence_id) for sequence_id in ids]
        for sequence_id, row in zip(ids, rows, strict=True):
            if row is None:
                raise LedgerError(
                    f"sequence {sequence_id!r} of session {session!r} is not recorded; nothing was renewed"
                )
        table, moment = self._table, microseconds(at)
        for row in {row for row in rows if row is not None}:
            table.last_used_at[row] = max(table.last_used_at[row], moment)
        self._uses.update((session, sequence_id) for sequence_id in set(ids))
        return len(set(ids))

    def uses(self, sequence_id: str, session: str) -> int:
        """How many training requests used a sequence, as far as ``renew`` was told."""
        return self._uses[session, sequence_id]

    def expiring(self, before: datetime, session: str | None = None) -> SequenceTable:
        """What was last used before a time, the oldest first (see ``Ledger.expiring``)."""
        table, used = self._table, self._last_use()
        chosen = (used < microseconds(before)) & table.record_stability_info & table.known
        if session is not None:
            chosen &= table.session_id == session
        rows = np.flatnonzero(chosen)
        return table.take(rows[np.argsort(used[rows], kind="stable")])

    def prune(self, before: datetime) -> int:
        """Forget what was last used before a time (see ``Ledger.prune``)."""
        size = len(self)
        kept = np.flatnonzero(self._table.known & (self._last_use() >= microseconds(before)))
        table = self._table.take(kept)
        self._clear()
        self.load(table)
        return size - len(self)

    def _last_use(self) -> Ints:
        return np.maximum(self._table.sampled_at, self._table.last_used_at)

    @property
    def _table(self) -> SequenceTable:
        """All records in one table, row 0 the blank one."""
        if len(self._parts) > 1:
            columns = {
                name: np.concatenate([getattr(part, name) for part in self._parts]) for name in _COLUMNS
            }
            self._parts = [SequenceTable(**columns, pool=self._pool, logprobs=self._logprobs)]
        return self._parts[0]

    def _append(self, table: SequenceTable) -> None:
        """Add the rows of a table, with its tokens and those of its prompts that are not there yet."""
        prompts = table.pool.slices(table.prompt_start, table.prompt_length)
        tokens = table.pool.joined(table.token_start, table.token_length)
        new, address, known = self._sort_out(prompts)
        first = self._pool.append(np.concatenate([np.zeros(0, np.int32), *new.values(), *tokens]))
        logprobs = table.logprobs.joined(table.logprob_start, table.logprob_length)
        first_logprob = self._logprobs.append(np.concatenate([np.zeros(0, np.float32), *logprobs]))
        address[~known] += first
        for place, prompt in new.items():
            self._prompts.setdefault(_digest(prompt), first + place)
        self._parts.append(
            replace(
                table,
                prompt_start=address,
                token_start=first + sum(map(len, new.values())) + offsets_of(table.token_length)[:-1],
                logprob_start=first_logprob + offsets_of(table.logprob_length)[:-1],
            )
        )
        self._size += len(table)

    def _sort_out(self, prompts: list[Array]) -> tuple[dict[int, Array], Ints, Mask]:
        """The distinct prompts to add, by place; the place of each prompt, or its address; which it is."""
        new: dict[int, Array] = {}
        place_of: dict[int, int] = {}
        address, known = np.zeros(len(prompts), np.int64), np.zeros(len(prompts), np.bool_)
        length = 0
        for row, prompt in enumerate(prompts):
            digest = _digest(prompt)
            place = place_of.get(digest)
            if place is not None and new[place].tobytes() == prompt.tobytes():
                address[row] = place
                continue
            at = self._prompts.get(digest)
            if at is not None and self._pool.slice(at, len(prompt)).tobytes() == prompt.tobytes():
                address[row], known[row] = at, True
                continue
            place_of[digest] = address[row] = length
            new[length] = prompt
            length += len(prompt)
        return new, address, known


def _digest(prompt: Array) -> int:
    """What equal prompts have in common; others seldom, since length and last tokens mostly differ."""
    return hash((len(prompt), prompt[-_TAIL:].tobytes()))


def _blank() -> SequenceTable:
    builder = TableBuilder()
    builder.append(
        Record(b"", b"", b"", 0, ABSENT, ABSENT, ABSENT, False, nan, nan, "", "", None, None, None), -1
    )
    return replace(builder.finish(), known=np.zeros(1, np.bool_))
