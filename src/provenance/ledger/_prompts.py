"""Each distinct prompt once: which record holds the prompt of which."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import numpy as np

from provenance.columns import Ints, Mask
from provenance.pool import ranges_agree
from provenance.sequences import SequenceTable

#: What prompts are found by: a digest of their length and some tokens, or a hash of all that they hold.
Key = int | bytes

#: Tokens of a prompt, evenly spread, that make its digest together with its length.
_SAMPLED_TOKENS: Final = 8
_ODD: Final = np.int64(0x9E3779B97F4A7C15 - 2**64)


def holders(
    table: SequenceTable, there: SequenceTable, known: Mapping[Key, int]
) -> tuple[Ints, dict[Key, int]]:
    """Find each row's prompt among those that are there and those of the other rows.

    Args:
        table: (n,) rows that will follow those that are there, and are numbered as if they did.
        there: Rows that are there.
        known: The row of each distinct prompt that is there, by its digest. A prompt that differs from the
            one of its digest is there by its hash.

    Returns:
        (n,) the number of a row with the same prompt, its own where the prompt is new; and what is to be
        added to ``known``.
    """
    size = len(there)
    own = np.arange(size, size + len(table))
    digests = _digests(table)
    _, first, group = np.unique(digests, return_index=True, return_inverse=True)
    keys = digests[first].tolist()
    found = [known.get(key, row) for key, row in zip(keys, own[first].tolist(), strict=True)]
    new: dict[Key, int] = {key: row for key, row in zip(keys, found, strict=True) if row >= size}
    holder = np.array(found, np.int64)[group]
    for held, offset, rows in (
        (there, 0, np.flatnonzero(holder < size)),
        (table, size, np.flatnonzero((holder >= size) & (holder < own))),
    ):
        differ = _differ(table, rows, held, holder[rows] - offset)
        holder[rows[differ]] = -1
    for row in np.flatnonzero(holder < 0).tolist():
        prompt = table.prompt(row)
        key = blake2b(prompt.tobytes(), digest_size=16).digest()
        at = known[key] if key in known else new.setdefault(key, size + row)
        other = there.prompt(at) if at < size else table.prompt(at - size)
        holder[row] = at if np.array_equal(other, prompt) else size + row
    return holder, new


def _digests(table: SequenceTable) -> Ints:
    """(n,): numbers that equal prompts share; others seldom do, since length or some token differs."""
    length = table.prompt_length
    place = np.maximum(length - 1, 0)[:, None] * np.arange(_SAMPLED_TOKENS) // (_SAMPLED_TOKENS - 1)
    there = (length > 0).repeat(_SAMPLED_TOKENS)
    tokens = table.pool.at((table.prompt_start[:, None] + place).ravel(), there)
    digest = length.copy()
    for each in tokens.reshape(-1, _SAMPLED_TOKENS).T:
        digest = digest * _ODD + each
    return digest


def _differ(table: SequenceTable, rows: Ints, other: SequenceTable, others: Ints) -> Mask:
    """(len(rows),): the prompts of two rows are not the same."""
    length = table.prompt_length[rows]
    differ: Mask = length != other.prompt_length[others]
    same = np.flatnonzero(~differ)
    its, of_others = table.prompt_start[rows[same]], other.prompt_start[others[same]]
    differ[same] = ~ranges_agree(table.pool, its, other.pool, of_others, length[same])
    return differ
