"""A memory ledger holds each distinct prompt once, and nothing of what is no record."""

from __future__ import annotations

import random
import time
import tracemalloc
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from _ledgers import HOUR, NOON, sequence
from _paths import check_case, contract_of
from _paths import found as found_in

from provenance import MemoryLedger, SampledSequence, check
from provenance.ledger import _prompts
from provenance.pool import SEGMENT, Pool
from provenance.rules import registry
from provenance.sequences import table_of_models

PLACE = 100  # of a token that is in no digest


def prompt(token: int, place: int = PLACE) -> list[int]:
    tokens = list(range(2000))
    tokens[place] = token
    return tokens


def game(number: int, token: int) -> SampledSequence:
    return sequence(str(number), prompt_tokens=prompt(token), tokens=[number], logprobs=[-0.5])


def record_one_by_one(given: list[SampledSequence]) -> MemoryLedger:
    ledger = MemoryLedger()
    for each in given:
        ledger.record([each])
    return ledger


def record_in_parts(given: list[SampledSequence]) -> MemoryLedger:
    ledger = MemoryLedger()
    for start in range(0, len(given), 7):
        ledger.record(given[start : start + 7])
    return ledger


def pruned(given: list[SampledSequence]) -> MemoryLedger:
    ledger = record_one_by_one([*given, sequence("old", sampled_at=NOON - HOUR)])
    ledger.prune(NOON)
    return ledger


def test_these_prompts_have_one_digest() -> None:
    digests = _prompts._digests(table_of_models([game(1, 1), game(2, 2), game(3, 3)]))
    assert len(set(digests.tolist())) == 1


@pytest.mark.parametrize("fill", [MemoryLedger, record_one_by_one, record_in_parts, pruned])
@pytest.mark.parametrize("ordered", [True, False])
def test_prompts_of_one_digest_are_stored_once(fill: Any, ordered: bool) -> None:
    tokens = [token for token in range(20) for _ in range(8)]
    if not ordered:
        random.Random(0).shuffle(tokens)
    ledger = fill([game(number, token) for number, token in enumerate(tokens)])
    stats = ledger.stats()
    assert (stats.sequences, stats.prompts, stats.prompt_blocks) == (160, 20, 20)
    assert stats.stored_bytes == 20 * 2000 * 4 + 160 * 8
    found = ledger.lookup([str(number) for number in range(160)], "s")
    assert [found.prompt(number).tolist() for number in range(160)] == [prompt(token) for token in tokens]
    assert [found.tokens(number).tolist() for number in range(160)] == [[number] for number in range(160)]


def test_what_one_digest_was_first_is_found_behind_others() -> None:
    ledger = MemoryLedger([game(0, 0)])
    assert ledger.record([game(1, 1), game(2, 0), game(3, 1), game(4, 2)]) == 4
    assert ledger.record([game(5, 2), game(6, 0), game(7, 1)]) == 3
    assert ledger.stats().prompts == 3
    starts = ledger.lookup([str(number) for number in range(8)], "s").prompt_start.tolist()
    assert [starts.index(start) for start in starts] == [0, 1, 0, 1, 4, 4, 0, 1]


def test_equal_hashes_are_not_enough_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_prompts, "blake2b", lambda _, digest_size: blake2b(b"", digest_size=digest_size))
    monkeypatch.setattr(_prompts, "_digests", lambda table: np.zeros(len(table), np.int64))
    given = [sequence(str(i), prompt_tokens=[1, 2, i][: i % 4]) for i in range(12)]
    for ledger in (MemoryLedger(given), record_one_by_one(given)):
        found = ledger.lookup([str(i) for i in range(12)], "s")
        assert [found.prompt(i).tolist() for i in range(12)] == [[1, 2, i][: i % 4] for i in range(12)]


def test_a_repeat_leaves_nothing_behind() -> None:
    ledger = MemoryLedger([sequence()])
    segments = len(ledger._rows.pool._segments), len(ledger._rows.logprobs._segments)
    given = table_of_models([sequence(), sequence()])
    tracemalloc.start()
    try:
        for count in range(200):
            if count == 100:
                before = tracemalloc.get_traced_memory()[0]
            ledger.record([sequence()])
            ledger.load(given)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert (len(ledger._rows.pool._segments), len(ledger._rows.logprobs._segments)) == segments
    assert grown < 100 * 16


# Many segments


def test_numbers_are_found_in_any_segment_and_order() -> None:
    rng = np.random.default_rng(0)
    pool = Pool(*(np.arange(100 * k, 100 * k + 10, dtype=np.int32) for k in range(50)))
    segment, place = rng.integers(0, 50, 400), rng.integers(0, 10, 400)
    there = rng.random(400) < 0.7
    addresses = np.where(there, segment * SEGMENT + place, 10**6 * SEGMENT)
    found = pool.at(addresses, there)
    assert found.tolist() == np.where(there, 100 * segment + place, 0).tolist()
    assert pool.at(addresses, np.zeros(400, np.bool_)).tolist() == [0] * 400
    assert pool.at(addresses[:0], there[:0]).tolist() == []


def test_finding_numbers_takes_a_time_that_is_linear_in_the_segments() -> None:
    def seconds(segments: int) -> float:
        pool = Pool(*np.arange(segments, dtype=np.int32)[:, None])
        addresses, there = np.arange(segments) * SEGMENT, np.ones(segments, np.bool_)
        taken = []
        for _ in range(3):
            start = time.thread_time()
            pool.at(addresses, there)
            taken.append(time.thread_time() - start)
        return min(taken)

    assert seconds(32_000) < 32 * seconds(2_000)  # about 16; 60 where each segment looks at all rows


# What is no record


def test_rows_that_a_lookup_did_not_find_are_no_records() -> None:
    ledger = MemoryLedger()
    ledger.load(MemoryLedger([sequence()]).lookup(["x", "a", "y", "a"], "s"))
    assert len(ledger) == ledger.stats().sequences == 1
    assert ledger.lookup(["", "x", "a"], "s").known.tolist() == [False, False, True]
    assert not ledger.lookup([""], "").known.any()
    ledger.load(MemoryLedger().lookup(["x"], "s"))
    assert [home.session_id for home in ledger.stats().sessions] == ["s"]


def test_what_a_lookup_said_of_another_ledger_is_not_said_of_this() -> None:
    both = MemoryLedger([sequence("a", "s"), sequence("a", "t")])
    found = both.lookup(["a"], None)
    assert found.ambiguous.all()
    ledger = MemoryLedger()
    ledger.load(found)
    assert not ledger.lookup(["a"], None).ambiguous.any()
    assert found.ambiguous.all()  # the table given stays as it is


@pytest.mark.parametrize("first", [(), [sequence()]], ids=["new", "repeat"])
def test_what_conflicts_in_one_ledger_conflicts_in_what_loads_it(first: Any) -> None:
    other = MemoryLedger([sequence(), sequence("b")])
    other.load(table_of_models([sequence(tokens=[7, 8])]))
    ledger = MemoryLedger(first)
    ledger.load(other.lookup(["a", "b"], "s"))
    assert ledger.lookup(["a", "b"], "s").conflicting.tolist() == [True, False]


@pytest.mark.parametrize("code", ["SEQ003", "SEQ004", "SEQ005", "SEQ006"])
def test_a_table_of_a_lookup_is_a_ledger_like_its_sequences(code: str) -> None:
    example = registry()[code].bad[0]
    given = [SampledSequence.model_validate(each) for each in example.sequences]
    both = MemoryLedger(each.model_copy(update={"session_id": home}) for each in given for home in "ts")
    table = both.lookup([*(each.sequence_id for each in given), "no such"], None)
    assert table.ambiguous.any()
    report = check(
        list(example.datums),
        contract_of(example),
        ledger=table,
        session="s",
        now=example.now,
        loss_config=example.config,
    )
    assert code in {violation.code for violation in report.violations}
    assert found_in(report) == found_in(check_case(example))
