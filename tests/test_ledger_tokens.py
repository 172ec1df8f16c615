"""How a SQL ledger packs token ids, and what it keeps of prompts in memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance import LedgerError
from provenance.ledger.sql._prompts import PromptCache
from provenance.ledger.sql._tokens import pack, unpack

IDS = st.one_of(*(st.integers(-(2**bits), 2**bits - 1) for bits in (7, 15, 23, 31)))


@given(st.lists(st.lists(st.lists(IDS, max_size=5), max_size=4), max_size=4))
def test_ids_come_back(calls: list[list[list[int]]]) -> None:
    packed = [buffer for call in calls for buffer in pack([np.array(ids, "<i4").tobytes() for ids in call])]
    given_ids = [ids for call in calls for ids in call]
    found = unpack(packed, np.array([len(ids) for ids in given_ids], np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == [i for ids in given_ids for i in ids]


@pytest.mark.parametrize(
    ("widest", "size"),
    [(127, 1), (128, 2), (-128, 1), (-129, 2), (150_000, 3), (2**23 - 1, 3), (2**23, 4), (-(2**31), 4)],
)
def test_an_id_takes_as_many_bytes_as_the_widest_needs(widest: int, size: int) -> None:
    assert [len(b) for b in pack([np.array([0, widest], "<i4").tobytes(), b""])] == [2 * size, 0]


@pytest.mark.parametrize(("buffer", "count"), [(b"abc", 2), (b"abcde", 1), (b"", 1), (b"a", 0)])
def test_a_length_that_does_not_fit_is_refused(buffer: bytes, count: int) -> None:
    with pytest.raises(LedgerError, match="damaged: the length of packed tokens does not fit their number"):
        unpack([buffer], np.array([count]))


def test_the_cache_of_prompts_is_bounded_and_keeps_what_was_used_last() -> None:
    cache = PromptCache(limit=100_000)
    prompt = np.zeros(200, np.int32)  # 1,000 bytes, with what Python needs for it
    for number in range(1000):
        cache.put(b"%d" % number, prompt)
        assert cache.get(b"0") is prompt
    kept = [number for number in range(1000) if cache.get(b"%d" % number) is not None]
    assert 50 <= len(kept) <= 102
    assert kept[-1] == 999
