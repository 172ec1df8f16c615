"""A table of sampled sequences as flat numpy arrays: what a ledger answers a lookup with.

Prompts and sampled tokens lie in one pool, so that a prompt span and a sampled span are the same thing to
whoever compares tokens: a start in the pool and a length. Several sequences may share one prompt.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from provenance.columns import Array, Floats, Ints, Mask, offsets_of
from provenance.models import SampledSequence

#: An absent time or integer.
ABSENT: Final = np.iinfo(np.int64).min

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class SequenceTable:
    """``n`` sequences. Starts and lengths address ``pool`` and ``logprobs``, which may hold more."""

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
    pool: npt.NDArray[np.int32]
    """Prompt and sampled tokens; -1 in a prompt where the position is no text."""
    logprobs: Floats
    """Logprobs of sampled tokens; a null was turned into NaN."""
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
        return SequenceTable(
            **{
                f.name: getattr(self, f.name) if f.name in _POOLS else getattr(self, f.name)[rows]
                for f in fields(self)
            }
        )

    def prompt(self, i: int) -> npt.NDArray[np.int32]:
        """Prompt tokens of sequence ``i``, int32."""
        return self.pool[self.prompt_start[i] : self.prompt_start[i] + self.prompt_length[i]]

    def tokens(self, i: int) -> npt.NDArray[np.int32]:
        """Sampled tokens of sequence ``i``, int32."""
        return self.pool[self.token_start[i] : self.token_start[i] + self.token_length[i]]

    def sampled_logprobs(self, i: int) -> Floats:
        """Logprobs of the sampled tokens of sequence ``i``, float32."""
        return self.logprobs[self.logprob_start[i] : self.logprob_start[i] + self.logprob_length[i]]

    def same_content(self, i: int, other: SequenceTable, j: int) -> bool:
        """Whether two records say the same, byte for byte, apart from their last use and place."""
        return (
            all(_equal(getattr(self, name)[i], getattr(other, name)[j]) for name in _COMPARED)
            and np.array_equal(self.tokens(i), other.tokens(j))
            and np.array_equal(self.sampled_logprobs(i), other.sampled_logprobs(j), equal_nan=True)
            and np.array_equal(self.prompt(i), other.prompt(j))
        )


_POOLS: Final = ("pool", "logprobs")
_COMPARED: Final = (
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
_FIELDS: Final = (
    "sequence_id",
    "session_id",
    "sampled_at",
    "last_used_at",
    "record_stability_info",
    "model",
    "policy_version",
    "stop_reason",
    "temperature",
    "top_p",
    "top_k",
    "seed",
)


def microseconds(moment: datetime | None) -> int:
    """An aware time as microseconds since 1970 UTC; None is ABSENT."""
    return ABSENT if moment is None else (moment - _EPOCH) // _MICROSECOND


def rfc3339(moment: int) -> str:
    """Microseconds since 1970 UTC as an RFC 3339 time in UTC."""
    return (_EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z")


class SequenceTableBuilder:
    """Collects sequences one by one."""

    def __init__(self, file: str | None = None) -> None:
        self._file = file
        self._values: dict[str, list[Any]] = {name: [] for name in _FIELDS}
        self._rows, self._lines = array("q"), array("q")
        self._prompts: list[Array | Sequence[int]] = []
        self._tokens: list[Array | Sequence[int]] = []
        self._logprobs: list[Array | Sequence[float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(
        self,
        *,
        prompt: Array | Sequence[int],
        tokens: Array | Sequence[int],
        logprobs: Array | Sequence[float],
        row: int = -1,
        line: int = 0,
        **values: Any,
    ) -> None:
        """Add a sequence.

        Args:
            prompt: int32 ids, -1 where the position is no text.
            tokens: sampled int32 ids.
            logprobs: float32, NaN for a null.
            row: its number in its file or list.
            line: its physical line, 0 without one.
            values: the other fields by name, times as microseconds (ABSENT for none), None for what was
                not recorded.
        """
        for name, column in self._values.items():
            column.append(values.get(name))
        self._rows.append(row)
        self._lines.append(line)
        self._prompts.append(prompt)
        self._tokens.append(tokens)
        self._logprobs.append(logprobs)

    def finish(self) -> SequenceTable:
        """The table of what was added."""
        values, n = self._values, len(self._rows)
        prompt_length, token_length, logprob_length = (
            np.fromiter(map(len, lists), np.int64, n) for lists in (self._prompts, self._tokens, self._logprobs)
        )
        return SequenceTable(
            **{name: _texts(values[name]) for name in _TEXTS},
            **{name: _integers(values[name]) for name in _INTEGERS},
            **{name: np.array([np.nan if v is None else v for v in values[name]], np.float32) for name in _REALS},
            record_stability_info=np.array(values["record_stability_info"], np.bool_),
            prompt_start=offsets_of(prompt_length)[:-1],
            prompt_length=prompt_length,
            token_start=offsets_of(token_length)[:-1] + prompt_length.sum(),
            token_length=token_length,
            logprob_start=offsets_of(logprob_length)[:-1],
            logprob_length=logprob_length,
            row=np.array(self._rows, np.int64),
            line=np.array(self._lines, np.int64),
            file=np.full(n, self._file, np.object_),
            pool=_joined([*self._prompts, *self._tokens], np.int32),
            logprobs=_joined(self._logprobs, np.float32),
            known=np.ones(n, np.bool_),
            ambiguous=np.zeros(n, np.bool_),
            conflicting=np.zeros(n, np.bool_),
        )


_TEXTS: Final = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
_INTEGERS: Final = ("sampled_at", "last_used_at", "top_k", "seed")
_REALS: Final = ("temperature", "top_p")


def _texts(values: list[Any]) -> Texts:
    texts = np.empty(len(values), np.object_)
    texts[:] = values
    return texts


def _integers(values: list[Any]) -> Ints:
    return np.array([ABSENT if v is None else v for v in values], np.int64)


def _joined(lists: Sequence[Any], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *(np.asarray(values, dtype) for values in lists)])


def table_of_models(sequences: Iterable[SampledSequence]) -> SequenceTable:
    """The table of sampled sequences."""
    builder = SequenceTableBuilder()
    for row, sequence in enumerate(sequences):
        builder.append(
            prompt=sequence.prompt_tokens,
            tokens=sequence.tokens,
            logprobs=sequence.logprobs,
            row=row,
            **{
                name: microseconds(getattr(sequence, name)) if name.endswith("_at") else getattr(sequence, name)
                for name in _FIELDS
            },
        )
    return builder.finish()
