"""Sampled sequences as rows of the database and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, Final

import numpy as np

from provenance.columns import Array, Mask, any_in_rows, offsets_of
from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import Tokens, chain_of
from provenance.ledger.sql._schema import SEQUENCES
from provenance.ledger.sql._sound import unsound
from provenance.ledger.sql._tokens import misfits, pack, unpack
from provenance.pool import SEGMENT, Pool
from provenance.sequences import ABSENT, EARLIEST, LATEST, SequenceTable, Texts

#: Values of each column, by its name.
Columns = dict[str, list[Any]]

_TEXTS: Final = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
_INTEGERS: Final = ("sampled_at", "last_used_at", "top_k", "seed")
_REALS: Final = ("temperature", "top_p")
#: What is read of a sequence, in this order.
COLUMNS: Final = tuple(c.name for c in SEQUENCES.c if c.name not in ("number", "uses", "last_use"))
#: What a lookup answers with, in place of a row, where nothing is known.
BLANK: Final = ("", "", None, 0, 0, None, False, None, None, None, None, None, None, None, b"", b"")


def is_storable(text: str) -> bool:
    """Whether every database can hold it: PostgreSQL takes no NUL, and none a lone surrogate."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def distinct(table: SequenceTable) -> SequenceTable:
    """The sequences of a table, one for each key with the latest of its uses, sorted by id and session.

    Sorted, because two transactions that insert the same keys in different orders would wait for each other.

    Raises:
        LedgerError: a record cannot be kept, or two with one key have different content.
    """
    _refuse(table)
    keys = list(zip(table.sequence_id.tolist(), table.session_id.tolist(), strict=True))
    first: dict[tuple[str, str], int] = {}
    used = table.last_used_at.copy()
    for row, key in enumerate(keys):
        earlier = first.setdefault(key, row)
        if earlier != row:
            if not table.same_content(earlier, table, row):
                raise LedgerError(conflict(table, row))
            used[earlier] = max(used[earlier], used[row])
    rows = np.array([first[key] for key in sorted(first)], np.int64)
    return replace(table, last_used_at=used).take(rows)


def rows_of(table: SequenceTable) -> tuple[Columns, Columns]:
    """A table as rows of sequences, in its order, and of the blocks of their prompts, one after the other."""
    blocks: dict[bytes, tuple[bytes | None, bytes]] = {}
    ends: dict[bytes, bytes | None] = {}
    prompts = []
    for prompt in _buffers(table.pool.slices(table.prompt_start, table.prompt_length), "<i4"):
        if prompt not in ends:
            chain = chain_of(prompt)
            blocks |= {key: (parent, part) for key, parent, part in chain}
            ends[prompt] = chain[-1][0] if chain else None
        prompts.append(ends[prompt])
    tokens = table.pool.slices(table.token_start, table.token_length)
    logprobs = table.logprobs.slices(table.logprob_start, table.logprob_length)
    sequences: Columns = {
        **{name: getattr(table, name).tolist() for name in _TEXTS},
        "prompt": prompts,
        "prompt_length": table.prompt_length.tolist(),
        "sampled_at": table.sampled_at.tolist(),
        "last_used_at": _or_none(table.last_used_at, ABSENT),
        "last_use": np.maximum(table.sampled_at, table.last_used_at).tolist(),
        "record_stability_info": table.record_stability_info.tolist(),
        "temperature": _or_none(table.temperature),
        "top_p": _or_none(table.top_p),
        "top_k": _or_none(table.top_k, ABSENT),
        "seed": _or_none(table.seed, ABSENT),
        "packed_tokens": pack(list(_buffers(tokens, "<i4"))),
        "logprobs": list(_buffers(logprobs, "<f4")),
    }
    return sequences, {
        "key": list(blocks),
        "parent": [parent for parent, _ in blocks.values()],
        "packed_tokens": pack([part for _, part in blocks.values()]),
    }


def conflict(table: SequenceTable, row: int) -> str:
    """The message about a record that contradicts an earlier one."""
    return f"{_who(table, row)} is recorded already, with other content; nothing was recorded"


def _who(table: SequenceTable, row: int) -> str:
    file, line = table.file[row], int(table.line[row])
    place = "" if file is None else f" ({file}, {f'line {line}' if line else f'row {table.row[row]}'})"
    return f"sequence {table.sequence_id[row]!r} of session {table.session_id[row]!r}{place}"


def columns_of(rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Rows of values of ``COLUMNS`` by column."""
    values = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return dict(zip(COLUMNS, values, strict=True))


def table_of(column: Mapping[str, Sequence[Any]], prompts: Mapping[bytes, Tokens]) -> SequenceTable:
    """Columns as a table in which equal prompts have one address.

    Args:
        column: what ``columns_of`` returned, and ``refuse_unsound`` took.
        prompts: by the key of their last block.

    Raises:
        LedgerError: prompt, tokens and logprobs of a row do not fit each other, or are no token ids.
    """
    n = len(column["sequence_id"])
    lengths = np.array([len(prompt) for prompt in prompts.values()], np.int64)
    starts = offsets_of(lengths)[:-1]
    # An empty prompt has no block.
    place: dict[bytes | None, int] = {None: len(prompts)} | {end: i for i, end in enumerate(prompts)}
    prompt = np.array([place[end] for end in column["prompt"]], np.int64)
    prompt_length = np.append(lengths, 0)[prompt]
    _refuse_where(prompt_length != column["prompt_length"], column, "prompt_length", "that of its prompt")
    size = np.array([len(logprobs) for logprobs in column["logprobs"]], np.int64)
    _refuse_where(size % 4 != 0, column, "logprobs", "four bytes for each token")
    length = size // 4
    start = offsets_of(length)[:-1]
    uneven = misfits(column["packed_tokens"], length)
    _refuse_where(uneven, column, "packed_tokens", "an id for each logprob, all of one size")
    tokens = unpack(column["packed_tokens"], length)
    _refuse_where(any_in_rows(tokens < 0, offsets_of(length)), column, "packed_tokens", "ids from 0 on")
    numbers: dict[str, Any] = {name: _present(column[name], ABSENT, np.int64) for name in _INTEGERS}
    numbers |= {name: _present(column[name], nan, np.float32) for name in _REALS}
    texts: dict[str, Any] = {name: _objects(column[name]) for name in _TEXTS}
    return SequenceTable(
        **texts,
        **numbers,
        prompt_start=np.append(starts, 0)[prompt],
        prompt_length=prompt_length,
        token_start=SEGMENT + start,
        token_length=length,
        logprob_start=start,
        logprob_length=length,
        record_stability_info=np.array(column["record_stability_info"], np.bool_),
        row=np.full(n, -1),
        line=np.zeros(n, np.int64),
        file=np.full(n, None, np.object_),
        pool=Pool(np.concatenate([np.zeros(0, np.int32), *prompts.values()]), tokens),
        logprobs=Pool(np.frombuffer(b"".join(column["logprobs"]), "<f4").astype(np.float32, copy=False)),
        known=np.ones(n, np.bool_),
        ambiguous=np.zeros(n, np.bool_),
        conflicting=np.zeros(n, np.bool_),
    )


def _refuse_where(wrong: Mask, column: Mapping[str, Sequence[Any]], name: str, expected: str) -> None:
    if wrong.any():
        raise unsound(column, int(wrong.argmax()), name, expected)


def _refuse(table: SequenceTable) -> None:
    """Refuse what a model could not hold (files may), and text that some database could not."""
    for name in _TEXTS:
        texts = getattr(table, name).tolist()
        if not is_storable("".join(text for text in texts if text is not None)):
            row = next(i for i, text in enumerate(texts) if text is not None and not is_storable(text))
            raise LedgerError(
                f"{_who(table, row)} has a {name} {texts[row]!r} with a NUL or half of a surrogate pair, "
                "which a database cannot keep; nothing was recorded"
            )
    uneven = table.logprob_length != table.token_length
    logprobs = table.logprobs.gather(table.logprob_start, table.logprob_length)
    infinite = any_in_rows(~np.isfinite(logprobs), offsets_of(table.logprob_length))
    outside = (table.sampled_at < EARLIEST) | (table.sampled_at > LATEST) | (table.last_used_at > LATEST)
    outside |= (table.last_used_at != ABSENT) & (table.last_used_at < EARLIEST)
    for failing, reason in (
        (uneven, "has not as many logprobs as tokens"),
        (infinite, "has a logprob that is null or not finite"),
        (outside, "has a time outside of the years 1 to 9999"),
    ):
        if failing.any():
            row = int(failing.argmax())
            raise LedgerError(f"{_who(table, row)} {reason}; nothing was recorded")


def _or_none(values: Array, absent: int | None = None) -> list[Any]:
    """Values as Python objects, None for ``absent`` and for NaN."""
    return [None if value == absent or value != value else value for value in values.tolist()]


def _buffers(arrays: Iterable[Array], dtype: str) -> Iterator[bytes]:
    return (array.astype(dtype, copy=False).tobytes() for array in arrays)


def _present(values: Iterable[Any], absent: float, dtype: type[np.generic]) -> Array:
    return np.array([absent if value is None else value for value in values], dtype)


def _objects(values: Sequence[str | None]) -> Texts:
    texts: Texts = np.empty(len(values), np.object_)
    texts[:] = values
    return texts
