"""Long ranges of numbers are looked at in blocks, and no verdict depends on how large these are."""

from __future__ import annotations

import numpy as np
import pytest
from _paths import check_case, found

from provenance import pool as pools
from provenance.pool import SEGMENT, Pool, ranges_agree
from provenance.rules import registry

RANGES = pytest.mark.parametrize(
    ("starts", "lengths"),
    [
        ([], []),
        ([4], [0]),
        ([0, 3, 3], [3, 0, 5]),
        ([5, SEGMENT + 1, 0, SEGMENT], [2, 4, 0, 3]),
        ([SEGMENT, 2, 7], [9, 1, 1]),
    ],
)


@pytest.mark.parametrize("ranges_of_a_block", [1, 2, 1000])
@pytest.mark.parametrize("size", [1, 3, 1000])
@RANGES
def test_blocks_hold_what_is_gathered(monkeypatch, size, ranges_of_a_block, starts, lengths):
    monkeypatch.setattr(pools, "_BLOCK", size)
    monkeypatch.setattr(pools, "_RANGES", ranges_of_a_block)
    pool = Pool(np.arange(10), np.arange(100, 110))
    begin, count = np.array(starts, np.int64), np.array(lengths, np.int64)
    blocks = list(pool.blocks(begin, count))
    ranges = [number for chosen, _ in blocks for number in range(len(starts))[chosen]]
    assert ranges == list(range(len(starts)))
    numbers = np.concatenate([np.zeros(0, np.int64), *(numbers for _, numbers in blocks)])
    assert numbers.tolist() == pool.gather(begin, count).tolist()
    for chosen, part in blocks:
        assert len(part) == count[chosen].sum()
        assert len(count[chosen]) <= ranges_of_a_block
        assert len(part) - count[chosen][-1:].sum() < size  # what is longer is a single range


@RANGES
def test_what_is_equal_block_by_block_is_equal_as_a_whole(monkeypatch, starts, lengths):
    monkeypatch.setattr(pools, "_RANGES", 2)
    pool, other = Pool(np.arange(10), np.arange(100, 110)), Pool(np.arange(10) % 7, np.arange(100, 110))
    begin, count = np.array(starts, np.int64), np.array(lengths, np.int64)
    own, others = pool.gather(begin, count), other.gather(begin, count)
    assert pool.equal(begin, count, others).tolist() == (own == others).tolist()
    of_ranges = np.split(own == others, np.cumsum(count)[:-1]) if len(count) else []
    agree = ranges_agree(pool, begin, other, begin, count)
    assert agree.tolist() == [bool(each.all()) for each in of_ranges]


@pytest.mark.parametrize("code", ["SEQ003", "SEQ004", "SEQ006", "SEQ007", "SEQ011", "SEQ012"])
def test_the_size_of_a_block_changes_no_verdict(monkeypatch, code):
    rule = registry()[code]
    cases = [*rule.good, *rule.bad]
    whole = [(found(report), report.checked) for report in map(check_case, cases)]
    assert any(violations for violations, _ in whole)
    monkeypatch.setattr(pools, "_BLOCK", 2)
    monkeypatch.setattr(pools, "_RANGES", 1)
    assert [(found(report), report.checked) for report in map(check_case, cases)] == whole
