"""A dataset that is checked in parts gives the report of the whole, however it is cut and joined."""

from __future__ import annotations

import copy
import json
import pickle
import random
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_properties import Dataset, datasets

import provenance
from provenance.engine.keys import KeySet
from provenance.engine.part import Example, Occurrence, Part
from provenance.engine.parts import CheckInParts
from provenance.engine.threads import in_order
from provenance.report import Count, FileCount, Location, Severity, Violation

Json = dict[str, Any]


def text(report: provenance.Report) -> str:
    return json.dumps(report.to_dict(), indent=1)


def cut(datums: list[Any], bounds: list[int]) -> list[list[Any]]:
    places = sorted({0, len(datums), *(bound for bound in bounds if bound < len(datums))})
    return [datums[a:b] for a, b in pairwise(places)]


def parts_of(checker: CheckInParts, stretches: list[list[Any]], sequences: Any) -> tuple[Part, list[Part]]:
    start, ledger = checker.start(sequences)
    assert ledger is not None
    # What another process gets, and what it sends back.
    worker = pickle.loads(pickle.dumps((checker, ledger)))
    return start, [worker[0].look(stretch, worker[1]) for stretch in stretches]


def tree(checker: CheckInParts, parts: list[Part], rng: random.Random) -> list[Part]:
    """The parts, joined in neighbouring pairs in any order."""
    parts = list(parts)
    while len(parts) > 1:
        at = rng.randrange(len(parts) - 1)
        parts[at : at + 2] = [checker.join(parts[at], parts[at + 1])]
    return parts


def as_whole(dataset: Dataset, bounds: list[int], seed: int, contract: Any, examples: int) -> None:
    circumstances = {"session": "session-1", "now": "2026-01-02T12:00:00Z", "max_examples": examples}
    whole = provenance.check(dataset.datums, contract, ledger=dataset.sequences, **circumstances)
    checker = CheckInParts(contract, ledger=True, **circumstances)
    start, parts = parts_of(checker, cut(dataset.datums, bounds), dataset.sequences)
    assert text(checker.report(start, parts)) == text(whole)
    assert text(checker.report(start, tree(checker, parts, random.Random(seed)))) == text(whole)


MANY = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(
    dataset=datasets(max_datums=6, max_damages=6),
    bounds=st.lists(st.integers(1, 8), max_size=5),
    seed=st.integers(0, 99),
    strict=st.booleans(),
    examples=st.sampled_from([0, 1, 2, 20]),
)
def test_parts_are_the_whole(
    dataset: Dataset, bounds: list[int], seed: int, strict: bool, examples: int
) -> None:
    if len(dataset.datums) > 1 and seed % 2:  # an epoch more, so that sequences come again
        dataset.datums.extend(copy.deepcopy(dataset.datums))
    contract = provenance.Contract.for_loss(dataset.loss)
    if strict:
        contract = contract.with_severity({"SEQ010": "error", "ADV003": "error"})
    as_whole(dataset, bounds, seed, contract, examples)


@pytest.mark.slow
@settings(MANY, max_examples=300)
@given(
    dataset=datasets(max_datums=8, max_damages=8),
    bounds=st.lists(st.integers(1, 16), max_size=7),
    seed=st.integers(0, 9999),
    examples=st.sampled_from([1, 3, 20]),
)
def test_parts_are_the_whole_at_length(dataset: Dataset, bounds: list[int], seed: int, examples: int) -> None:
    dataset.datums.extend(copy.deepcopy(dataset.datums))
    contract = provenance.Contract.for_loss(dataset.loss).with_severity({"SEQ010": "error"})
    as_whole(dataset, bounds, seed, contract, examples)


def test_no_part_is_an_empty_dataset() -> None:
    checker = CheckInParts(ledger=False, now="2026-01-02T12:00:00Z")
    start, ledger = checker.start()
    assert ledger is None
    whole = provenance.check([], now="2026-01-02T12:00:00Z")
    for _ in range(2):  # the start is what it was
        assert text(checker.report(start, [])) == text(whole)
    assert whole.codes() == {"FMT005"}


def part_of_a_file(number: int) -> Part:
    """A file of a hundred datums, one of which is bad, with a record that breaks a rule of its own."""
    place = Location(file=f"{number}.jsonl", row=7, sequence_id=f"sequence {number}")

    def example(code: str, at: tuple[int, ...]) -> Example:
        return Example(at, Violation(code=code, name="", severity=Severity.ERROR, location=place, message=""))

    sequences, records = KeySet(), KeySet()
    sequences.add([f"sequence {number}"])
    records.add([("session-1", f"sequence {number}")])
    return Part(
        origin=False,
        datums=100,
        bad_datums=1,
        counts={"VAL001": Count(1, 1, 1), "SEQ007": Count(0, 1, 1)},
        files={f"{number}.jsonl": FileCount(100, 1, {"VAL001": Count(1, 1, 1)}, frozenset(["VAL001"]))},
        seen={"SEQ010": sequences, "SEQ007": records},
        failing={"SEQ007": records},
        occurrences={"SEQ010": [Occurrence((7, 0), place)]},
        examples={"VAL001": [example("VAL001", (7, 0))], "SEQ007": [example("SEQ007", (-1, number))]},
    )


def test_many_parts_are_joined_with_work_for_each_once() -> None:
    checker = CheckInParts(ledger=True, now="2026-01-02T12:00:00Z", max_examples=10_000)
    start, _ = checker.start([])

    def calls(count: int) -> int:
        """How many functions are called to join so many parts."""
        parts, called = [part_of_a_file(number) for number in range(count)], 0

        def note(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal called
            called += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            report = checker.report(start, parts)
        finally:
            sys.setprofile(before)
        assert (report.datums, len(report.files), len(report.violations)) == (
            100 * count,
            count,
            2 * count,
        )
        return called

    assert calls(400) < 6 * calls(100)  # a chain of copies takes 16 times


@given(names=st.lists(st.lists(st.text(max_size=3), unique=True), max_size=8), lasting=st.booleans())
def test_keys_are_a_set(names: list[list[str]], lasting: bool) -> None:
    keys, there = KeySet(lasting=lasting), set[str]()
    for some in names:
        assert keys.add(some).tolist() == [name in there for name in some]
        there |= set(some)
        assert keys.has(some).all()
    assert len(keys.keys()) == len(there)
    copied = KeySet(KeySet(keys.keys()).keys())
    assert copied.common(keys) == len(there)
    both = KeySet(lasting=lasting)
    both.add(["another name"])
    both.update(keys)
    assert len(both.keys()) == len(there | {"another name"})


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 40])
def test_the_pool_keeps_the_order(workers: int, count: int) -> None:
    drawn: list[int] = []

    def items() -> Any:
        for number in range(count):
            drawn.append(number)
            yield number

    taken = 0
    for square in in_order(lambda number: number**2, items(), workers):
        assert square == taken**2
        taken += 1
        assert len(drawn) <= taken + workers + 1
    assert taken == count


def test_the_pool_ends_with_the_first_error() -> None:
    def work(number: int) -> int:
        if number >= 3:
            raise ValueError(number)
        return number

    found = in_order(work, range(100), 2)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="3"):
        next(found)


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_what_came_before_a_stream_failed_is_worked_on(workers: int, count: int) -> None:
    def items() -> Any:
        yield from range(count)
        raise OSError("the next file is not there")

    taken: list[int] = []
    with pytest.raises(OSError, match="not there"):
        taken.extend(in_order(lambda number: number, items(), workers))
    assert taken == list(range(count))
