"""The ledgers, against each other and against a dictionary that does the same."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from _ledgers import HOUR, NOON, postgresql, sequence
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from provenance import Ledger, LedgerError, MemoryLedger, SampledSequence, SqlLedger
from provenance.ledger import SessionStats
from provenance.sequences import ABSENT, SequenceTable, microseconds, table_of_models

Make = Callable[..., Any]


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes ledgers of a kind, which hold the given sequences."""
    opened: list[SqlLedger] = []
    number = count()

    def make(sequences: Any = ()) -> MemoryLedger | SqlLedger:
        if request.param == "memory":
            return MemoryLedger(sequences)
        place = postgresql() if request.param == "postgresql" else tmp_path / f"{next(number)}.db"
        opened.append(SqlLedger(place))
        opened[-1].record(sequences)
        return opened[-1]

    yield make
    for ledger in opened:
        ledger.close()


def size(ledger: Ledger) -> int:
    return ledger.stats().sequences


def stored(table: SequenceTable) -> int:
    """How many tokens the pool of a ledger's answer holds, those of other sequences too."""
    return sum(map(len, table.pool._segments))


def moment(at: datetime | None) -> int:
    return ABSENT if at is None else microseconds(at)


def uses_of(ledger: Any, session_id: str, *ids: str) -> list[int]:
    return [ledger.uses(i, session_id) for i in ids]


def test_the_memory_ledger_is_a_ledger() -> None:
    assert isinstance(MemoryLedger(), Ledger)
    assert not isinstance([], Ledger)


def test_record_counts_what_is_new(make: Make) -> None:
    ledger = make([sequence("a")])
    assert ledger.record([sequence("a"), sequence("b"), sequence("b"), sequence("a", "t")]) == 2
    assert ledger.record([]) == 0
    assert size(ledger) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_tokens": [11, 12, 14]},
        {"prompt_tokens": [11, 12]},
        {"tokens": [21, 23]},
        {"tokens": [21], "logprobs": [-0.5]},
        {"logprobs": [-0.5, -0.125]},
        {"sampled_at": NOON + HOUR},
        {"record_stability_info": False},
        {"model": "m"},
        {"policy_version": 3},
        {"stop_reason": "length"},
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"top_k": 5},
        {"seed": 0},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("together", [False, True], ids=["later", "together"])
def test_record_refuses_conflicts_and_records_nothing(
    make: Make, change: dict[str, Any], together: bool
) -> None:
    ledger = make() if together else make([sequence()])
    given = [sequence("new"), *([sequence()] if together else []), sequence(**change)]
    with pytest.raises(LedgerError, match="sequence 'a' of session 's' is recorded already"):
        ledger.record(given)
    assert size(ledger) == (0 if together else 1)
    assert ledger.lookup(["new", "a"], "s").known.tolist() == [False, not together]
    assert not ledger.lookup(["a"], "s").conflicting.any()
    # The same key in another session is another sequence.
    assert ledger.record([sequence("a", "t", **change)]) == 1


def test_an_identical_repeat_keeps_the_later_use(make: Make) -> None:
    ledger = make([sequence(last_used_at=NOON + HOUR)])
    for last, expected in ((None, 1), (NOON, 1), (NOON + 2 * HOUR, 2)):
        assert ledger.record([sequence(last_used_at=last)]) == 0
        assert ledger.lookup(["a"], "s").last_used_at.tolist() == [microseconds(NOON + expected * HOUR)]


def test_load_keeps_the_first_of_conflicting_records_and_marks_it() -> None:
    for parts in ([[sequence(), sequence(tokens=[7, 8])]], [[sequence()], [sequence(tokens=[7, 8])]]):
        ledger = MemoryLedger()
        for part in parts:
            ledger.load(table_of_models([*part, sequence("b")]))
        found = ledger.lookup(["a", "b"], "s")
        assert found.conflicting.tolist() == [True, False]
        assert found.tokens(0).tolist() == [21, 22]
        assert len(ledger) == 2


def test_lookup_answers_in_the_order_of_the_ids(make: Make) -> None:
    ledger = make(sequence(name, tokens=[i, 2]) for i, name in enumerate("abcd"))
    found = ledger.lookup(["d", "missing", "a", "a", ""], "s")
    assert found.known.tolist() == [True, False, True, True, False]
    assert [found.tokens(i).tolist() for i in range(5)] == [[3, 2], [], [0, 2], [0, 2], []]
    assert found.sequence_id.tolist() == ["d", "", "a", "a", ""]
    assert len(ledger.lookup([], "s")) == 0


def test_lookup_gives_everything_that_was_recorded(make: Make) -> None:
    full = sequence(
        last_used_at=NOON + HOUR,
        model="m",
        policy_version=3,
        stop_reason="stop",
        temperature=0.5,
        top_p=0.25,
        top_k=5,
        seed=-1,
        prompt_tokens=[11, -1],
    )
    found = make([full, sequence("bare")]).lookup(["a", "bare"], "s")
    assert found.prompt(0).tolist() == [11, -1]
    assert found.sampled_logprobs(0).tolist() == [-0.5, -0.25]
    assert (found.model[0], found.policy_version[0], found.stop_reason[0]) == ("m", "3", "stop")
    assert (found.temperature[0], found.top_p[0], found.top_k[0], found.seed[0]) == (0.5, 0.25, 5, -1)
    assert (found.sampled_at[0], found.last_used_at[0]) == (microseconds(NOON), microseconds(NOON + HOUR))
    assert (found.model[1], found.policy_version[1], found.stop_reason[1]) == (None, None, None)
    assert np.isnan([found.temperature[1], found.top_p[1]]).all()
    assert (found.top_k[1], found.seed[1], found.last_used_at[1]) == (ABSENT, ABSENT, ABSENT)


@pytest.mark.parametrize(
    ("session", "expected"),
    [("s", [("s", False), ("s", False), ("t", False)]), ("t", [("t", False), ("s", False), ("t", False)])]
    + [(other, [(None, True), ("s", False), ("t", False)]) for other in ("u", None)],
)
def test_lookup_prefers_the_session(make: Make, session: str | None, expected: list[Any]) -> None:
    both = [sequence("both", "s"), sequence("both", "t", tokens=[7, 8])]
    ledger = make([*both, sequence("in s", "s"), sequence("in t", "t")])
    found = ledger.lookup(["both", "in s", "in t"], session)
    assert found.known.all()
    for i, (home, ambiguous) in enumerate(expected):
        assert found.ambiguous[i] == ambiguous
        assert home is None or found.session_id[i] == home


def test_views_that_were_handed_out_stay_as_they_were() -> None:
    ledger = MemoryLedger([sequence()])
    before = ledger.lookup(["a"], "s")
    ledger.record(sequence(f"b{i}", prompt_tokens=[i] * 500) for i in range(100))
    ledger.renew(["a"], "s", NOON + HOUR)
    ledger.load(table_of_models([sequence(tokens=[1, 2])]))
    assert before.tokens(0).tolist() == [21, 22]
    assert before.prompt(0).tolist() == [11, 12, 13]
    assert before.last_used_at[0] == ABSENT
    assert not before.conflicting[0]


def test_a_table_that_was_loaded_is_not_changed() -> None:
    table = table_of_models([sequence()])
    ledger = MemoryLedger()
    ledger.load(table)
    ledger.renew(["a"], "s", NOON + HOUR)
    ledger.load(table_of_models([sequence(tokens=[1, 2])]))
    assert table.last_used_at[0] == ABSENT
    assert not table.conflicting[0]


def test_renew_counts_uses_and_never_goes_back(make: Make) -> None:
    ledger = make([sequence("a"), sequence("b"), sequence("a", "t")])
    assert ledger.renew(["a", "b", "a"], "s", NOON + HOUR) == 2
    assert ledger.renew(["a"], "s", NOON) == 1
    assert ledger.lookup(["a", "b"], "s").last_used_at.tolist() == [microseconds(NOON + HOUR)] * 2
    assert uses_of(ledger, "s", "a", "b") == [2, 1]
    assert uses_of(ledger, "t", "a") == [0]
    assert ledger.lookup(["a"], "t").last_used_at.tolist() == [ABSENT]


@pytest.mark.parametrize(("ids", "session"), [(["a", "missing"], "s"), (["a"], "u"), (["only t"], "s")])
def test_renew_of_what_is_not_recorded_changes_nothing(make: Make, ids: list[str], session: str) -> None:
    ledger = make([sequence("a"), sequence("only t", "t")])
    with pytest.raises(LedgerError, match="is not recorded; nothing was renewed"):
        ledger.renew(ids, session, NOON + HOUR)
    assert ledger.lookup(["a"], "s").last_used_at.tolist() == [ABSENT]
    assert uses_of(ledger, session, *ids) == [0] * len(ids)


def test_expiring_names_the_oldest_first(make: Make) -> None:
    ledger = make(
        [
            sequence("late", sampled_at=NOON + 3 * HOUR),
            sequence("used", sampled_at=NOON - 9 * HOUR, last_used_at=NOON + 2 * HOUR),
            sequence("early", sampled_at=NOON - HOUR),
            sequence("unrecorded", sampled_at=NOON - 5 * HOUR, record_stability_info=False),
            sequence("other", "t", sampled_at=NOON),
        ]
    )
    assert ledger.expiring(NOON + 9 * HOUR).sequence_id.tolist() == ["early", "other", "used", "late"]
    assert ledger.expiring(NOON + 2 * HOUR, "s").sequence_id.tolist() == ["early"]
    assert ledger.expiring(NOON, "u").sequence_id.tolist() == []


def test_prune_forgets_what_was_not_used_since(make: Make) -> None:
    ledger = make([sequence("old", sampled_at=NOON - HOUR), sequence("new"), sequence("old", "t")])
    ledger.renew(["old"], "s", NOON - HOUR)
    assert ledger.prune(NOON) == 1
    assert ledger.prune(NOON) == 0
    assert size(ledger) == 2
    assert ledger.lookup(["old", "new"], "s").session_id.tolist() == ["t", "s"]
    assert ledger.record([sequence("old", tokens=[5, 6])]) == 1
    assert ledger.lookup(["old"], "s").tokens(0).tolist() == [5, 6]
    assert uses_of(ledger, "s", "old") == [0]


def test_pruning_keeps_the_mark_of_a_conflict() -> None:
    ledger = MemoryLedger([sequence("old", sampled_at=NOON - HOUR), sequence("new")])
    ledger.load(table_of_models([sequence("new", tokens=[1, 2])]))
    assert ledger.prune(NOON) == 1
    assert ledger.lookup(["new"], "s").conflicting.all()


def test_stats_count_sessions_uses_and_prompts(make: Make) -> None:
    ledger = make(
        [
            sequence("a", sampled_at=NOON + HOUR),
            sequence("b", last_used_at=NOON + 3 * HOUR),
            sequence("c", record_stability_info=False, prompt_tokens=[1] * 200),
            sequence("a", "t", prompt_tokens=[]),
        ]
    )
    ledger.renew(["a", "b"], "s", NOON + 2 * HOUR)
    ledger.renew(["b"], "s", NOON)
    stats = ledger.stats()
    assert stats.sessions == (
        SessionStats(
            session_id="s",
            sequences=3,
            recorded=2,
            sampled_tokens=6,
            unused=1,
            used_once=1,
            used_again=1,
            first_sampled_at=NOON,
            last_use=NOON + 3 * HOUR,
        ),
        SessionStats(
            session_id="t",
            sequences=1,
            recorded=1,
            sampled_tokens=2,
            unused=1,
            used_once=0,
            used_again=0,
            first_sampled_at=NOON,
            last_use=NOON,
        ),
    )
    assert (stats.sequences, stats.used_again, stats.prompts) == (4, 1, 2)
    assert stats.stored_bytes > 800
    assert make().stats().sessions == ()


@pytest.mark.parametrize("odd", ["a\0b", "\0", "\ud800", "x\udfff"])
def test_ids_that_no_database_holds_are_unknown(make: Make, odd: str) -> None:
    ledger = make([sequence()])
    assert ledger.lookup([odd, "a"], "s").known.tolist() == [False, True]
    assert ledger.lookup(["a"], odd).known.tolist() == [True]
    assert len(ledger.expiring(NOON + 99 * HOUR, odd)) == 0
    assert ledger.uses(odd, "s") == ledger.uses("a", odd) == 0
    with pytest.raises(LedgerError, match="is not recorded"):
        ledger.renew([odd], "s", NOON)


def test_prompts_are_stored_once() -> None:
    prompt = list(range(1000))
    ledger = MemoryLedger(sequence(f"a{i}", prompt_tokens=prompt) for i in range(50))
    for part in range(50):
        ledger.record([sequence(f"b{part}", "t", prompt_tokens=prompt, tokens=[part], logprobs=[-1.0])])
    found = ledger.lookup(["a0", "a49", "b0", "b49"], None)
    assert len(set(found.prompt_start.tolist())) == 1
    assert stored(found) <= 1000 + 100 + 50 + 16
    assert [found.prompt(i).tolist() for i in range(4)] == [prompt] * 4
    assert found.tokens(3).tolist() == [49]


def test_pruning_frees_prompts() -> None:
    old = [sequence(f"a{i}", prompt_tokens=[i] * 1000, sampled_at=NOON - HOUR) for i in range(10)]
    ledger = MemoryLedger([*old, sequence("b", prompt_tokens=[3] * 1000)])
    assert ledger.prune(NOON) == 10
    found = ledger.lookup(["b"], "s")
    assert stored(found) < 1100
    assert found.prompt(0).tolist() == [3] * 1000


# Any sequence of operations, held against a dictionary

NAMES = st.sampled_from("abc")
SESSIONS = st.sampled_from("st")
MOMENTS = st.integers(0, 5).map(lambda hours: NOON + hours * HOUR)
# The last three have one digest in memory.
PROMPTS = [[11, 12, 13], [11, 12], [], [7] * 128, [7] * 299 + [8]]
PROMPTS += [[7] * 300, [7] * 100 + [8] + [7] * 199, [7] * 100 + [9] + [7] * 199]
SEQUENCES = st.builds(
    sequence,
    NAMES,
    SESSIONS,
    prompt_tokens=st.sampled_from(PROMPTS),
    tokens=st.sampled_from([[21, 22], [21, 23]]),
    sampled_at=st.sampled_from([NOON, NOON + HOUR]),
    last_used_at=st.one_of(st.none(), MOMENTS),
    record_stability_info=st.sampled_from([True, True, False]),
)
Key = tuple[str, str]


def key_of(given: SampledSequence) -> Key:
    return given.session_id, given.sequence_id


def same(a: SampledSequence, b: SampledSequence) -> bool:
    return a.model_copy(update={"last_used_at": None}) == b.model_copy(update={"last_used_at": None})


class Operations(RuleBasedStateMachine):
    ledger: Any

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[Key, SampledSequence] = {}
        self.last_used: dict[Key, int] = {}
        self.conflicting: set[Key] = set()
        self.uses: Counter[Key] = Counter()

    def add(self, given: SampledSequence) -> None:
        key, last = key_of(given), moment(given.last_used_at)
        if key not in self.records:
            self.records[key], self.last_used[key] = given, last
        elif same(self.records[key], given):
            self.last_used[key] = max(self.last_used[key], last)
        else:
            self.conflicting.add(key)

    def used(self, key: Key) -> int:
        return max(microseconds(self.records[key].sampled_at), self.last_used[key])

    @rule(given=st.lists(SEQUENCES, max_size=4))
    def record(self, given: list[SampledSequence]) -> None:
        known = dict(self.records)
        refused = any(not same(known.setdefault(key_of(g), g), g) for g in given)
        if refused:
            with pytest.raises(LedgerError):
                self.ledger.record(given)
            return
        new = len({key_of(g) for g in given} - set(self.records))
        for one in given:
            self.add(one)
        assert self.ledger.record(given) == new

    @rule(ids=st.lists(NAMES, max_size=3), session=SESSIONS, at=MOMENTS)
    def renew(self, ids: list[str], session: str, at: datetime) -> None:
        keys = {(session, i) for i in ids}
        if not keys <= set(self.records):
            with pytest.raises(LedgerError):
                self.ledger.renew(ids, session, at)
            return
        assert self.ledger.renew(ids, session, at) == len(keys)
        self.uses.update(keys)
        for key in keys:
            self.last_used[key] = max(self.last_used[key], microseconds(at))

    @rule(before=MOMENTS)
    def prune(self, before: datetime) -> None:
        old = {key for key in self.records if self.used(key) < microseconds(before)}
        assert self.ledger.prune(before) == len(old)
        for key in old:
            del self.records[key], self.last_used[key], self.uses[key]
        self.conflicting -= old

    @rule(before=MOMENTS, session=st.one_of(st.none(), SESSIONS))
    def expiring(self, before: datetime, session: str | None) -> None:
        found = self.ledger.expiring(before, session)
        used = np.maximum(found.sampled_at, found.last_used_at).tolist()
        assert used == sorted(used)
        assert sorted(zip(found.session_id, found.sequence_id, strict=True)) == sorted(
            key
            for key, record in self.records.items()
            if record.record_stability_info
            and self.used(key) < microseconds(before)
            and session in (None, key[0])
        )

    @rule(
        ids=st.lists(st.sampled_from("abcd"), max_size=5),
        session=st.one_of(st.none(), st.sampled_from("stu")),
    )
    def lookup(self, ids: list[str], session: str | None) -> None:
        found = self.ledger.lookup(ids, session)
        assert len(found) == len(ids)
        for i, name in enumerate(ids):
            own = (session, name) in self.records
            homes = [session] if own else [home for home, other in self.records if other == name]
            assert found.known[i] == bool(homes)
            assert found.ambiguous[i] == (len(homes) > 1)
            if len(homes) == 1:
                self.assert_row(found, i, (str(homes[0]), name))

    def assert_row(self, found: Any, i: int, key: Key) -> None:
        record = self.records[key]
        assert (found.session_id[i], found.sequence_id[i]) == key
        assert found.prompt(i).tolist() == record.prompt_tokens.tolist()
        assert found.tokens(i).tolist() == record.tokens.tolist()
        assert found.sampled_logprobs(i).tolist() == record.logprobs.tolist()
        assert found.sampled_at[i] == microseconds(record.sampled_at)
        assert found.last_used_at[i] == self.last_used[key]
        assert found.record_stability_info[i] == record.record_stability_info
        assert found.conflicting[i] == (key in self.conflicting)

    @invariant()
    def holds_the_same(self) -> None:
        stats = self.ledger.stats()
        assert stats.sequences == len(self.records)
        assert stats.prompts == len(
            {tuple(r.prompt_tokens) for r in self.records.values() if len(r.prompt_tokens)}
        )
        assert stats.used_again == sum(uses > 1 for uses in self.uses.values())
        for (session, name), uses in self.uses.items():
            assert self.ledger.uses(name, session) == uses


class InMemory(Operations):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = MemoryLedger()

    @rule(given=st.lists(SEQUENCES, max_size=4))
    def load(self, given: list[SampledSequence]) -> None:
        for one in given:
            self.add(one)
        self.ledger.load(table_of_models(given))


class InSqlite(Operations):
    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.ledger = SqlLedger(Path(self.folder.name) / "ledger.db")

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestInSqlite = InSqlite.TestCase
TestInSqlite.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)


@pytest.mark.slow
class TestManyInMemory(InMemory.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


@pytest.mark.slow
class TestManyInSqlite(InSqlite.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=50, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("at", [datetime.max.replace(tzinfo=timezone(-HOUR)), NOON.replace(tzinfo=None)])
def test_a_use_at_a_time_that_cannot_be_kept_changes_nothing(make: Any, at: datetime) -> None:
    ledger = make([sequence("a")])
    with pytest.raises(LedgerError, match="nothing was changed"):
        ledger.renew(["a"], "s", at)
    assert ledger.uses("a", "s") == 0


def test_threads_may_read_a_memory_ledger_while_others_record() -> None:
    ledger, wrong = MemoryLedger(), []

    def work(number: int) -> None:
        for i in range(150):
            name = f"{number}-{i}"
            ledger.record([sequence(name, tokens=[number, i])])
            if ledger.lookup([name], "s").tokens(0).tolist() != [number, i]:
                wrong.append(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert wrong == []
    assert len(pickle.loads(pickle.dumps(ledger))) == len(ledger) == 8 * 150


def test_a_memory_ledger_grows_in_place_and_is_pickled_without_its_room() -> None:
    ledger = MemoryLedger()
    for number in range(1100):
        ledger.record([sequence(str(number), tokens=[number, 0])])
        ledger.renew([str(number // 2)], "s", NOON + number * HOUR)
    table = ledger.lookup([str(number) for number in range(1100)], "s")
    assert table.known.all()
    assert [table.tokens(i).tolist() for i in range(1100)] == [[i, 0] for i in range(1100)]
    renewed = [microseconds(NOON + (2 * i + 1) * HOUR) for i in range(550)]
    assert table.last_used_at.tolist() == renewed + [ABSENT] * 550
    rows = ledger._rows
    assert len(rows._columns["row"]) > len(rows) == 1101
    again = pickle.loads(pickle.dumps(ledger))
    assert len(again._rows._columns["row"]) == 1101
    assert again.record([sequence("more")]) == 1
    assert again.lookup(["more", "7"], "s").tokens(1).tolist() == [7, 0]
    assert len(ledger) == 1100
