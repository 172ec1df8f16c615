"""A table of sampled sequences as flat numpy arrays: what a ledger answers a lookup with.

Prompts and sampled tokens lie in one pool, so that a prompt span and a sampled span are the same thing to
whoever compares tokens: a start in the pool and a length. Several sequences may share one prompt.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from provenance.columns import Floats, Ints, Mask, view
from provenance.errors import LedgerError
from provenance.models import SampledSequence
from provenance.pool import Pool

#: An absent time or integer.
ABSENT: Final = np.iinfo(np.int64).min

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class SequenceTable:
    """``n`` sequences. Starts are addresses in ``pool`` and ``logprobs``, which may hold more."""

    sequence_id: Texts
    """(n,) of str."""
    session_id: Texts
    """(n,) of str."""
    prompt_start: Ints
    prompt_length: Ints
    token_start: Ints
    token_length: Ints
    logprob_start: Ints
    logprob_length: Ints
    sampled_at: Ints
    """(n,): microseconds since 1970 UTC."""
    last_used_at: Ints
    """(n,): microseconds since 1970 UTC, ABSENT where it was never used."""
    record_stability_info: Mask
    model: Texts
    """(n,) of str or None, like policy_version and stop_reason."""
    policy_version: Texts
    stop_reason: Texts
    temperature: Floats
    """(n,): NaN where it was not recorded, like top_p."""
    top_p: Floats
    top_k: Ints
    """(n,): ABSENT where it was not recorded, like seed."""
    seed: Ints
    row: Ints
    """(n,): number of the record in its file or list, from 0; -1 without one."""
    line: Ints
    """(n,): physical line number, from 1; 0 without one."""
    file: Texts
    """(n,) of str or None."""
    pool: Pool
    """Prompt and sampled tokens, int32; -1 in a prompt where the position is no text."""
    logprobs: Pool
    """Logprobs of sampled tokens, float32; a null was turned into NaN."""
    known: Mask
    """(n,): a lookup found the id; what an unknown row holds elsewhere is empty."""
    ambiguous: Mask
    """(n,): the id belongs to several sessions and nothing says which of them is meant."""
    conflicting: Mask
    """(n,): the ledger holds several records of this (session, id) with different content."""

    def __len__(self) -> int:
        return len(self.sequence_id)

    def take(self, rows: Ints) -> SequenceTable:
        """The given rows in the given order; the pools are shared, not copied."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return SequenceTable(**columns, pool=self.pool, logprobs=self.logprobs)

    def prompt(self, i: int) -> npt.NDArray[np.int32]:
        """Prompt tokens of sequence ``i``, int32."""
        return self.pool.slice(int(self.prompt_start[i]), int(self.prompt_length[i]))

    def tokens(self, i: int) -> npt.NDArray[np.int32]:
        """Sampled tokens of sequence ``i``, int32."""
        return self.pool.slice(int(self.token_start[i]), int(self.token_length[i]))

    def sampled_logprobs(self, i: int) -> Floats:
        """Logprobs of the sampled tokens of sequence ``i``, float32."""
        return self.logprobs.slice(int(self.logprob_start[i]), int(self.logprob_length[i]))

    def same_content(self, i: int, other: SequenceTable, j: int) -> bool:
        """Whether two records say the same, byte for byte, apart from their last use and place."""
        return (
            all(_equal(getattr(self, name)[i], getattr(other, name)[j]) for name in COMPARED)
            and np.array_equal(self.tokens(i), other.tokens(j))
            and np.array_equal(self.sampled_logprobs(i), other.sampled_logprobs(j), equal_nan=True)
            and np.array_equal(self.prompt(i), other.prompt(j))
        )


#: The fields that have an entry for each sequence.
COLUMNS: Final = tuple(f.name for f in fields(SequenceTable) if f.name not in ("pool", "logprobs"))
#: What two records must agree in, beside prompt, tokens and logprobs, to be the same.
COMPARED: Final = (
    "sampled_at",
    "record_stability_info",
    "model",
    "policy_version",
    "stop_reason",
    "temperature",
    "top_p",
    "top_k",
    "seed",
)


def _equal(a: Any, b: Any) -> bool:
    # NaN stands for "not recorded", and two records that both lack a value agree on it.
    return bool(a == b) or (a != a and b != b)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: What a time of a sequence may be, the years 1 to 9999, in microseconds since 1970 UTC.
EARLIEST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
LATEST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def microseconds(moment: datetime) -> int:
    """An aware time as microseconds since 1970 UTC; finer digits are cut."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of_use(at: datetime) -> int:
    """A time that is to be kept, as microseconds since 1970 UTC.

    Raises:
        LedgerError: it has no offset from UTC, or lies outside of the years 1 to 9999 there.
    """
    if at.utcoffset() is None:
        raise LedgerError(f"time {at.isoformat()!r} has no offset from UTC; nothing was changed")
    try:
        return microseconds(at.astimezone(UTC))
    except OverflowError:
        raise LedgerError(
            f"time {at.isoformat()!r} lies outside of the years 1 to 9999 in UTC; nothing was changed"
        ) from None


def rfc3339(moment: int) -> str:
    """Microseconds since 1970 UTC as an RFC 3339 time in UTC.

    Raises:
        OverflowError: It lies outside of the years 1 to 9999.
    """
    return (_EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


class Record(NamedTuple):
    """One sequence as a builder takes it; arrays as the bytes of their buffers."""

    prompt: bytes
    """int32 ids, -1 where the position is no text."""
    tokens: bytes
    """int32 ids."""
    logprobs: bytes
    """float32, NaN for a null."""
    sampled_at: int
    """Microseconds since 1970 UTC."""
    last_used_at: int
    """Microseconds since 1970 UTC; ABSENT for none, as in top_k and seed."""
    top_k: int
    seed: int
    record_stability_info: bool
    temperature: float
    """NaN for none, as in top_p."""
    top_p: float
    sequence_id: str
    session_id: str
    model: str | None
    policy_version: str | None
    stop_reason: str | None


class TableBuilder:
    """Collects records one by one. ``finish`` may be called once."""

    def __init__(self, *, file: str | None = None) -> None:
        self.rows = 0
        self.stored = 0
        """Number of tokens and logprobs, which is what memory goes into."""
        self._file = file
        self._pool = bytearray()
        self._logprobs = bytearray()
        self._numbers: array[int] = array("q")
        self._stability = bytearray()
        self._reals: array[float] = array("f")
        self._texts: list[str | None] = []

    def append(self, record: Record, row: int, line: int = 0) -> None:
        """Add a record; ``row`` is its number in its file or list, ``line`` its physical line or 0."""
        prompt, tokens, logprobs = record.prompt, record.tokens, record.logprobs
        # Four bytes a token, and a logprob.
        start, sizes = len(self._pool) // 4, (len(prompt) // 4, len(tokens) // 4, len(logprobs) // 4)
        self._numbers.extend((row, line, start, *sizes, len(self._logprobs) // 4, *record[3:7]))
        self._stability.append(record.record_stability_info)
        self._reals.extend(record[8:10])
        self._texts.extend(record[10:])
        self._pool += prompt
        self._pool += tokens
        self._logprobs += logprobs
        self.stored += sum(sizes)
        self.rows += 1

    def finish(self) -> SequenceTable:
        """The table. Nothing is said about ids that occur twice: every row is ``known``."""
        n = self.rows
        row, line, start, prompt, tokens, count, logprob, sampled, used, top_k, seed = (
            view(self._numbers, np.int64).reshape(-1, 11).T.copy()
        )
        reals = view(self._reals, np.float32).reshape(-1, 2).T.copy()
        texts: Texts = np.empty(len(self._texts), np.object_)
        texts[:] = self._texts
        sequence_id, session_id, model, policy_version, stop_reason = texts.reshape(-1, 5).T.copy()
        return SequenceTable(
            sequence_id=sequence_id,
            session_id=session_id,
            prompt_start=start,
            prompt_length=prompt,
            token_start=start + prompt,
            token_length=tokens,
            logprob_start=logprob,
            logprob_length=count,
            sampled_at=sampled,
            last_used_at=used,
            record_stability_info=view(self._stability, np.bool_),
            model=model,
            policy_version=policy_version,
            stop_reason=stop_reason,
            temperature=reals[0],
            top_p=reals[1],
            top_k=top_k,
            seed=seed,
            row=row,
            line=line,
            file=np.full(n, self._file, np.object_),
            pool=Pool(view(self._pool, np.int32)),
            logprobs=Pool(view(self._logprobs, np.float32)),
            known=np.ones(n, np.bool_),
            ambiguous=np.zeros(n, np.bool_),
            conflicting=np.zeros(n, np.bool_),
        )


def record_of_model(sequence: SampledSequence) -> Record:
    """A sampled sequence as a builder takes it."""
    return Record(
        prompt=sequence.prompt_tokens.tobytes(),
        tokens=sequence.tokens.tobytes(),
        logprobs=sequence.logprobs.tobytes(),
        sampled_at=microseconds(sequence.sampled_at),
        last_used_at=ABSENT if sequence.last_used_at is None else microseconds(sequence.last_used_at),
        top_k=ABSENT if sequence.top_k is None else sequence.top_k,
        seed=ABSENT if sequence.seed is None else sequence.seed,
        record_stability_info=sequence.record_stability_info,
        temperature=math.nan if sequence.temperature is None else sequence.temperature,
        top_p=math.nan if sequence.top_p is None else sequence.top_p,
        sequence_id=sequence.sequence_id,
        session_id=sequence.session_id,
        model=sequence.model,
        policy_version=sequence.policy_version,
        stop_reason=sequence.stop_reason,
    )


def table_of_models(sequences: Iterable[SampledSequence]) -> SequenceTable:
    """The table of sampled sequences."""
    builder = TableBuilder()
    for row, sequence in enumerate(sequences):
        builder.append(record_of_model(sequence), row)
    return builder.finish()
