"""Sampled sequences as rows of the database and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from math import nan
from typing import Any, Final

import numpy as np

from provenance.columns import Array, Ints, any_in_rows, offsets_of, view
from provenance.errors import LedgerError
from provenance.ledger.sql._prompts import chain_of
from provenance.ledger.sql._schema import SEQUENCES
from provenance.sequences import ABSENT, COMPARED, SEGMENT, Pool, SequenceTable, Texts, microseconds

Row = dict[str, Any]
Key = tuple[str, str]

_TEXTS: Final = ("sequence_id", "session_id", "model", "policy_version", "stop_reason")
_INTEGERS: Final = ("sampled_at", "last_used_at", "top_k", "seed")
_REALS: Final = ("temperature", "top_p")
#: What makes two records the same; the prompt is compared by its key.
_CONTENT: Final = ("tokens", "prompt", *COMPARED)
#: What is read of a sequence, in this order.
COLUMNS: Final = tuple(column for column in SEQUENCES.c if column.name not in ("uses", "last_use"))
#: What a lookup answers with, in place of a row, where nothing is known.
BLANK: Final = ("", "", None, 0, 0, None, False, None, None, None, None, None, None, None, b"", b"")
_EARLIEST: Final = microseconds(datetime(MINYEAR, 1, 1, tzinfo=UTC))
_LATEST: Final = microseconds(datetime(MAXYEAR, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))


def is_storable(text: str) -> bool:
    """Whether every database can hold it: PostgreSQL takes no NUL, and none a lone surrogate."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def key_of(row: Row) -> Key:
    """What identifies a sequence, in the order of the primary key."""
    return row["sequence_id"], row["session_id"]


def rows_of(table: SequenceTable) -> tuple[list[Row], list[Row]]:
    """The rows of a table's sequences, one for each key, and of the blocks of their prompts; both sorted.

    Sorted, because two transactions that insert the same keys in different orders would wait for each other.

    Raises:
        LedgerError: a record cannot be kept, or two with one key have different content.
    """
    _refuse(table)
    blocks: dict[bytes, Row] = {}
    ends: dict[bytes, bytes | None] = {}
    prompts = []
    for tokens in table.pool.slices(table.prompt_start, table.prompt_length):
        prompt = tokens.astype("<i4", copy=False).tobytes()
        if prompt not in ends:
            chain = chain_of(prompt)
            blocks |= {block["key"]: block for block in chain}
            ends[prompt] = chain[-1]["key"] if chain else None
        prompts.append(ends[prompt])
    used = np.maximum(table.sampled_at, table.last_used_at)
    columns = {
        **{name: getattr(table, name).tolist() for name in _TEXTS},
        "prompt": prompts,
        "prompt_length": table.prompt_length.tolist(),
        "sampled_at": table.sampled_at.tolist(),
        "last_used_at": _or_none(table.last_used_at, ABSENT),
        "last_use": used.tolist(),
        "uses": [0] * len(table),
        "record_stability_info": table.record_stability_info.tolist(),
        "temperature": _or_none(table.temperature),
        "top_p": _or_none(table.top_p),
        "top_k": _or_none(table.top_k, ABSENT),
        "seed": _or_none(table.seed, ABSENT),
        "tokens": _buffers(table.pool.slices(table.token_start, table.token_length), "<i4"),
        "logprobs": _buffers(table.logprobs.slices(table.logprob_start, table.logprob_length), "<f4"),
    }
    rows: dict[Key, Row] = {}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        earlier = rows.setdefault(key_of(row), row)
        if earlier is not row:
            if not same_content(earlier, row):
                raise LedgerError(conflict(table, key_of(row)))
            if later_use(row, earlier):
                earlier |= {name: row[name] for name in ("last_used_at", "last_use")}
    return [rows[key] for key in sorted(rows)], [blocks[key] for key in sorted(blocks)]


def same_content(row: Row, other: Mapping[str, Any]) -> bool:
    """Whether two records with one key say the same, apart from their last use."""
    return all(row[name] == other[name] for name in _CONTENT) and (
        row["logprobs"] == other["logprobs"]
        # 0.0 and -0.0 have different bytes.
        or np.array_equal(view(row["logprobs"], np.float32), view(other["logprobs"], np.float32))
    )


def later_use(row: Row, other: Mapping[str, Any]) -> bool:
    """Whether a record was used later than another one."""
    used, before = row["last_used_at"], other["last_used_at"]
    return used is not None and (before is None or used > before)


def conflict(table: SequenceTable, key: Key) -> str:
    """The message about a record that contradicts an earlier one."""
    keys = list(zip(table.sequence_id, table.session_id, strict=True))
    # The last of those in the table: the others agree with it, or it is the one that does not.
    row = len(keys) - 1 - keys[::-1].index(key)
    return f"{_who(table, row)} is recorded already, with other content; nothing was recorded"


def _who(table: SequenceTable, row: int) -> str:
    file, line = table.file[row], int(table.line[row])
    place = "" if file is None else f" ({file}, {f'line {line}' if line else f'row {table.row[row]}'})"
    return f"sequence {table.sequence_id[row]!r} of session {table.session_id[row]!r}{place}"


def table_of(rows: Sequence[Sequence[Any]], prompts: Mapping[bytes, bytes]) -> SequenceTable:
    """Values of ``COLUMNS`` as a table in which equal prompts have one address."""
    n = len(rows)
    values = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    column = dict(zip((c.name for c in COLUMNS), values, strict=True))
    lengths = _lengths(prompts.values())
    starts = offsets_of(lengths)[:-1]
    # An empty prompt has no block.
    place: dict[bytes | None, int] = {None: len(prompts)} | {end: i for i, end in enumerate(prompts)}
    prompt = np.array([place[end] for end in column["prompt"]], np.int64)
    token_length, logprob_length = _lengths(column["tokens"]), _lengths(column["logprobs"])
    numbers: dict[str, Any] = {name: _present(column[name], ABSENT, np.int64) for name in _INTEGERS}
    numbers |= {name: _present(column[name], nan, np.float32) for name in _REALS}
    texts: dict[str, Any] = {name: _objects(column[name]) for name in _TEXTS}
    return SequenceTable(
        **texts,
        **numbers,
        prompt_start=np.append(starts, 0)[prompt],
        prompt_length=np.append(lengths, 0)[prompt],
        token_start=SEGMENT + offsets_of(token_length)[:-1],
        token_length=token_length,
        logprob_start=offsets_of(logprob_length)[:-1],
        logprob_length=logprob_length,
        record_stability_info=np.array(column["record_stability_info"], np.bool_),
        row=np.full(n, -1),
        line=np.zeros(n, np.int64),
        file=np.full(n, None, np.object_),
        pool=Pool(_joined(prompts.values(), "<i4"), _joined(column["tokens"], "<i4")),
        logprobs=Pool(_joined(column["logprobs"], "<f4")),
        known=np.ones(n, np.bool_),
        ambiguous=np.zeros(n, np.bool_),
        conflicting=np.zeros(n, np.bool_),
    )


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
    outside = (table.sampled_at < _EARLIEST) | (table.sampled_at > _LATEST) | (table.last_used_at > _LATEST)
    outside |= (table.last_used_at != ABSENT) & (table.last_used_at < _EARLIEST)
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


def _buffers(arrays: Iterable[Array], dtype: str) -> list[bytes]:
    return [array.astype(dtype, copy=False).tobytes() for array in arrays]


def _lengths(buffers: Iterable[bytes]) -> Ints:
    return np.array([len(buffer) // 4 for buffer in buffers], np.int64)


def _joined(buffers: Iterable[bytes], dtype: str) -> Array:
    """The numbers of all buffers, in the machine's byte order."""
    numbers: Array = np.frombuffer(b"".join(buffers), dtype).astype(dtype[1:], copy=False)
    return numbers


def _present(values: Iterable[Any], absent: float, dtype: type[np.generic]) -> Array:
    return np.array([absent if value is None else value for value in values], dtype)


def _objects(values: Sequence[str | None]) -> Texts:
    texts: Texts = np.empty(len(values), np.object_)
    texts[:] = values
    return texts
