"""Each mutation keeps its promise: what must be reported is, where it was done, and nothing else."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest
from _fuzz import any_batch, batches, examples, promise, promises, state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance import mutations, strategies
from provenance.mutations import Dataset, Place, _mutation, registry
from provenance.rules import registry as rules
from provenance.strategies import _broken, _valid

QUICK = ("plain", "images", "strict", "gspo", "cross_entropy")


@cache
def some(kind: str, count: int = 3) -> list[Dataset]:
    return examples(batches(kind), count)


@cache
def roomy(code: str) -> list[Dataset]:
    """Datasets that have a place for what breaks a rule."""
    return examples(_valid.batch(_broken._room(code)), 2)[1:]


def datasets_for(name: str) -> list[Dataset]:
    rooms = [dataset for code in registry()[name].fires for dataset in roomy(code)]
    return [dataset for kind in QUICK for dataset in some(kind)[1:]] + rooms


@pytest.mark.parametrize("name", registry())
def test_promise(name: str) -> None:
    places = list(promises(registry()[name], datasets_for(name)))
    assert places, "no dataset has a place for it"


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_batch(), st.sampled_from(list(registry())), st.integers(0, 99))
def test_promise_on_every_dataset(dataset: Dataset, name: str, seed: int) -> None:
    promise(registry()[name], dataset, seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_batch(), st.sampled_from(list(registry())), st.integers(0, 99))
def test_promise_without_a_ledger(dataset: Dataset, name: str, seed: int) -> None:
    dataset.sequences = None
    promise(registry()[name], dataset, seed)


def test_every_rule_is_broken_by_a_pure_mutation() -> None:
    pure = {code for found in registry().values() if found.pure for code in found.fires}
    assert pure == set(rules())


def test_names_and_sentences() -> None:
    for name, found in registry().items():
        assert found.name == name == name.lower()
        assert found.mutate.__name__ == name.replace("-", "_")
        assert found.summary in (found.mutate.__doc__ or "")
        assert found.family in (
            "advantages",
            "files",
            "options",
            "records",
            "shapes",
            "spans",
            "tokens",
            "values",
        )


# Applying them


def test_the_same_seed_gives_the_same_result() -> None:
    names = ["tokenised-again", "advantage-residue", "record-lost", "tokenised-again", "line-truncated"]
    dataset = some("plain", 6)[-1]
    one, other, third = dataset.copy(), dataset.copy(), dataset.copy()
    applied = mutations.apply(one, names, seed=3)
    assert mutations.apply(other, names, seed=3) == applied
    assert state(one) == state(other) != state(dataset)
    assert [found.name for found, _ in applied] == names
    assert mutations.apply(third, names, seed=4) != applied


def test_all_mutations_can_be_applied_to_one_dataset() -> None:
    for kind in QUICK:
        dataset = some(kind)[-1].copy()
        names = list(registry())
        random.Random(kind).shuffle(names)
        applied = mutations.apply(dataset, names, seed=0)
        assert applied
        assert not dataset.report(max_examples=1).valid


def test_what_can_break_nothing_is_left_out() -> None:
    dataset = some("plain")[-1].copy()
    before = state(dataset)
    assert mutations.apply(dataset, ["epsilon-as-threshold", "ratio-mask-without-a-one"], seed=0) == []
    assert state(dataset) == before


def test_an_unknown_name_changes_nothing() -> None:
    dataset = some("plain")[-1].copy()
    before = state(dataset)
    with pytest.raises(
        provenance.SchemaError, match="no mutation is called 'record-lots', did you mean 'record-lost'"
    ):
        mutations.apply(dataset, ["no-signal", "record-lots"], seed=0)
    assert state(dataset) == before


# Data of other people

_DATUM = some("plain")[-1].datums[0]
STRANGE: list[Any] = [
    None,
    [],
    "datum",
    {},
    {"model_input": 5, "loss_fn_inputs": []},
    {"model_input": {"chunks": [{"type": "dmel", "dmel": "AAIBAw=="}]}, "loss_fn_inputs": {}},
    {"model_input": {"chunks": [None]}, "loss_fn_inputs": {"advantages": None}},
    {"model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, None]}]}, "loss_fn_inputs": {}},
    {**_DATUM, "loss_fn_inputs": {"advantages": 3}},
    {**_DATUM, "loss_fn_inputs": {"advantages": {"data": "1", "dtype": "float32"}}},
    {**_DATUM, "loss_fn_inputs": {"advantages": {"data": [None, "x"], "dtype": "float32", "shape": 2}}},
    {**_DATUM, "model_input_spans": None},
    {**_DATUM, "model_input_spans": [], "loss_fn_input_spans": []},
    {**_DATUM, "loss_fn_input_spans": [{"type": "sampled", "sequence_id": 3, "length": -1}]},
    {**_DATUM, "loss_fn_input_spans": [3]},
    {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
        "loss_fn_inputs": {
            "target_tokens": {
                "data": [2, 3],
                "dtype": "int64",
                "shape": [2, 9],
                "sparse_crow_indices": [0, 1, 2],
                "sparse_col_indices": [0, 0],
            },
            "weights": {"data": [[0.0], [1.0]], "dtype": "float32"},
        },
    },
]
RECORDS: list[Any] = [
    None,
    {},
    {"sequence_id": "a"},
    {"sequence_id": 3, "tokens": [1]},
    {"sequence_id": "b", "tokens": 1},
]


@pytest.mark.parametrize("name", registry())
def test_strange_data_do_not_stop_it(name: str) -> None:
    for number, datum in enumerate(STRANGE):
        for datums in ([datum], [datum, _DATUM]):
            dataset = Dataset(
                datums=copy.deepcopy(datums), sequences=copy.deepcopy(RECORDS), now=strategies.NOW
            )
            before = state(dataset)
            place = registry()[name].mutate(dataset, random.Random(number))
            assert place is not None or state(dataset) == before


def test_a_dataset_without_datums_has_no_place() -> None:
    found = [
        name
        for name, each in registry().items()
        if each.mutate(Dataset(datums=[]), random.Random(0)) is not None
    ]
    assert found == ["option-is-true", "option-misspelt"]


# The dataset


def test_a_copy_shares_nothing() -> None:
    dataset = some("images")[-1]
    before = state(dataset)
    twin = dataset.copy()
    mutations.apply(twin, [name for name in registry() if name != "no-datums"], seed=1)
    assert state(dataset) == before
    assert state(twin) != before


def test_lines_stand_for_their_rows() -> None:
    dataset = some("plain", 6)[-1].copy()
    ((_, place),) = mutations.apply(dataset, ["line-truncated"], seed=0)
    lines = dataset.to_jsonl().splitlines()
    assert len(lines) == len(dataset.datums)
    assert lines[place.row] == dataset.lines[place.row]
    report = dataset.report()
    assert report == dataset.report()
    (violation,) = report
    assert (violation.code, violation.location.file, violation.location.line) == (
        "FMT001",
        None,
        place.row + 1,
    )


def test_lines_follow_their_datums_into_another_order() -> None:
    dataset = Dataset(datums=[{"datum_id": str(i)} for i in range(9)], lines={4: b'{"datum_id": "4"}'})
    mutations.apply(dataset, ["datums-reordered"], seed=0)
    (row,) = dataset.lines
    assert dataset.datums[row] == {"datum_id": "4"}
    assert sorted(datum["datum_id"] for datum in dataset.datums) == list("012345678")


# Declarations


def _declared(monkeypatch: pytest.MonkeyPatch, doc: str | None, **declaration: Any) -> None:
    monkeypatch.setattr(_mutation, "_registry", dict(_mutation._registry))

    def new_fault(dataset: Dataset, rng: random.Random) -> Place | None:
        return None

    new_fault.__doc__ = doc
    _mutation.mutation(**declaration)(new_fault)


@pytest.mark.parametrize(
    ("doc", "declaration", "problem"),
    [
        (None, {"fires": ("SEQ003",)}, "needs a first line that is a sentence"),
        ("no sentence", {"fires": ("SEQ003",)}, "needs a first line that is a sentence"),
        ("A fault.", {"fires": ("SEQ999",)}, "no rule has the code SEQ999"),
        ("A fault.", {"fires": ("SEQ003",), "may": ("SEQ003",)}, "a code is named twice"),
        ("A fault.", {"fires": (), "may": ("SEQ003",)}, "'may' without 'fires'"),
    ],
)
def test_an_incomplete_declaration_is_refused(
    monkeypatch: pytest.MonkeyPatch, doc: str | None, declaration: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TypeError, match=f"mutation new-fault: .*{problem}"):
        _declared(monkeypatch, doc, **declaration)


def test_a_name_is_used_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _declared(monkeypatch, "A fault.", fires=("SEQ003",))
    assert "new-fault" in _mutation.registry()
    with pytest.raises(TypeError, match="the name is used already"):
        _mutation.mutation(fires=("SEQ003",))(_mutation.registry()["new-fault"].mutate)
