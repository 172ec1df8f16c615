"""What a check sees beside violations, held against plain loops over the same data."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _columns import assert_same_columns
from hypothesis import HealthCheck, given, settings
from test_properties import PARAMETERS, Dataset, datasets

import provenance
from provenance.columns import Columns
from provenance.engine import observe as observing
from provenance.engine.observe import Observer
from provenance.engine.room import with_room
from provenance.engine.run import Run
from provenance.formats import columns_of
from provenance.loss_spec import LOSSES
from provenance.observations import BadDatum, Histogram, Observations
from provenance.reports.strip import datum_to_text
from provenance.rules import Case, case, registry
from provenance.rules._examples import DROP, RECORD, TWO_TARGETS, WITH_IMAGE, WITHOUT_SPANS

Json = dict[str, Any]
Counts = dict[str, tuple[int, list[int], int, int]]

#: Rules whose violations are in no datum, or in one that has no columns.
ELSEWHERE = {code for code, rule in registry().items() if rule.at in ("record", "dataset", "config", "file")}
FILES = {code for code, rule in registry().items() if rule.at == "file"}
GATES = {code for code, rule in registry().items() if rule.gate}
LEAST = 2.0**-149


def observed(data: Any, loss: Any = "stable_reinforce", **options: Any) -> Observations:
    found = provenance.check(data, loss, observe=True, **options).observations
    assert found is not None
    return found


def seen_in(of: Case, **changes: Any) -> Observations:
    options = {"ledger": list(of.sequences), "session": of.session, "now": of.now, **changes}
    return observed(list(of.datums), of.loss, **options)


def bins(histogram: Histogram) -> dict[float, int]:
    """Lower edge -> values in that bin, where there are some."""
    return {histogram.edges[i]: histogram.counts[i] for i in np.flatnonzero(histogram.counts)}


def outside(histogram: Histogram) -> tuple[int, int, int]:
    return histogram.below, histogram.above, histogram.unusable


def counts_of(histograms: Any) -> Counts:
    return {name: (h.below, h.counts.tolist(), h.above, h.unusable) for name, h in histograms.items()}


# The same by loops


def values_of(dataset: Dataset, passed: Iterable[int], now: str) -> dict[str, list[float | None]]:
    """Every value that is to be counted, None for a null."""
    takes = LOSSES[dataset.loss].takes
    records = {record["sequence_id"]: record for record in dataset.sequences}
    values: dict[str, list[float | None]] = {}
    for datum in (dataset.datums[row] for row in passed):
        inputs = {n: t["data"] for n, t in datum["loss_fn_inputs"].items() if t and t.get("data") is not None}
        length = len(inputs["target_tokens"])
        shape = datum["loss_fn_inputs"]["target_tokens"].get("shape") or [length]
        values.setdefault("lengths", []).append(shape[0])
        target_spans = datum.get("loss_fn_input_spans")
        if target_spans is None:
            trained = [value is None or value != 0 for value in inputs.get("advantages", [])]
        else:
            trained = [span["type"] == "sampled" for span in target_spans for _ in range(span["length"])]
        for name in ("logprobs", "advantages"):
            if name in inputs and takes(name):
                chosen = [v for v, is_trained in zip(inputs[name], trained, strict=True) if is_trained]
                values.setdefault(name, []).extend(single(v) for v in chosen)
        spans = [*(datum.get("model_input_spans") or []), *(target_spans or [])]
        for name in {span["sequence_id"] for span in spans if span["type"] == "sampled"} & set(records):
            last = max(moment(records[name].get(key)) for key in ("sampled_at", "last_used_at"))
            values.setdefault("ages", []).append(moment(now) - last)
        position = 0
        for span in target_spans or []:
            if span["type"] == "sampled" and "logprobs" in inputs and takes("logprobs"):
                given_here = inputs["logprobs"][position : position + span["length"]]
                recorded = recorded_by(records.get(span["sequence_id"]), span)
                values.setdefault("log_ratios", []).extend(map(difference, given_here, recorded))
            position += span["length"]
    return values


def single(value: float | None) -> float | None:
    with np.errstate(over="ignore"):
        return None if value is None else float(np.float32(value))


def difference(given_here: float | None, recorded: float | None) -> float | None:
    if given_here is None or recorded is None:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.float32(given_here) - np.float32(recorded))


def recorded_by(record: Json | None, span: Json) -> list[float | None]:
    """The recorded logprobs that a span claims; none where they cannot be compared."""
    stop = span.get("offset", 0) + span["length"]
    if record is None or len(record["logprobs"]) != len(record["tokens"]) or stop > len(record["tokens"]):
        return []
    return list(record["logprobs"][span.get("offset", 0) : stop])


def moment(text: str | None) -> float:
    return -math.inf if text is None else datetime.fromisoformat(text).timestamp()


def counted(values: Sequence[float | None], edges: Sequence[float]) -> tuple[int, list[int], int, int]:
    below, above, unusable, counts = 0, 0, 0, [0] * (len(edges) - 1)
    for value in values:
        if value is None or not math.isfinite(value):
            unusable += 1
        elif value < edges[0]:
            below += 1
        elif value >= edges[-1]:
            above += 1
        else:
            counts[[edges[i] <= value < edges[i + 1] for i in range(len(counts))].index(True)] += 1
    return below, counts, above, unusable


def chosen_datums(report: provenance.Report, most: int = 3) -> list[tuple[int, list[str]]]:
    """Rows of the bad datums to keep where there is room for all, with what is told of each."""
    by_row: dict[int, list[provenance.Violation]] = {}
    for violation in report:
        if violation.code not in ELSEWHERE and violation.location.row is not None:
            by_row.setdefault(violation.location.row, []).append(violation)
    times: Counter[str] = Counter()
    chosen = []
    for row, violations in sorted(by_row.items()):
        codes = {violation.code for violation in violations}
        if min(times[code] for code in codes) < most:
            times.update(codes)
            chosen.append((row, [told(v) for code in sorted(codes) for v in first(violations, code)]))
    return chosen


def first(violations: Iterable[provenance.Violation], code: str) -> list[provenance.Violation]:
    return [violation for violation in violations if violation.code == code][:20]


def told(violation: provenance.Violation) -> str:
    at = violation.location
    return f"{at.row} {at.field} {at.index} {at.length} {at.sequence_id} {violation.code} {violation.message}"


def kept(datums: Iterable[BadDatum]) -> list[tuple[int, list[str]]]:
    return [(int(bad.columns.row[0]), [told(v) for v in bad.violations]) for bad in datums]


def places_in(bad: BadDatum) -> list[tuple[str, str | None, Any, int | None]]:
    """Code, field, index and length of what is marked in a datum."""
    found: list[tuple[str, str | None, Any, int | None]] = []
    for places in bad.places:
        tensor = bad.columns.inputs.get(places.field)
        flat = tensor is None or registry()[places.code].at != "element" or tensor.rank[0] < 2
        width = 0 if tensor is None or flat else max(int(tensor.width[0]), 1)
        for start, length in zip(places.start.tolist(), places.length.tolist(), strict=True):
            found.append((places.code, places.field, divmod(start, width) if width else start, length))
    return sorted(found)


def places_of(violations: Iterable[provenance.Violation]) -> list[tuple[str, str | None, Any, int | None]]:
    at = ((v.code, v.location) for v in violations)
    return sorted((code, at.field, at.index, at.length) for code, at in at if at.index is not None)


def hold_against_loops(dataset: Dataset, *, now: str, session: str, **parameters: Any) -> Observations | None:
    """Compare with the loops; None for a ledger that they do not understand."""
    contract = provenance.Contract.for_loss(dataset.loss).with_parameters(**parameters)
    options: Any = {"ledger": dataset.sequences, "session": session, "now": now, "max_examples": 10_000}
    report = provenance.check(dataset.datums, contract, observe=True, **options)
    plain = provenance.check(dataset.datums, contract, **options)
    assert report.to_dict() == plain.to_dict()
    assert plain.observations is None
    seen = report.observations
    assert seen is not None
    assert kept(seen.datums) == chosen_datums(report)
    assert seen.omitted == 0
    in_data = [v for v in report if v.code not in ELSEWHERE - FILES and v.location.file is None]
    assert seen.bad_datums == len({v.location.row for v in in_data if v.location.row is not None})
    for bad in seen.datums:
        here = [v for v in report if v.code not in ELSEWHERE and v.location.row == bad.columns.row[0]]
        assert bad.counts == Counter(violation.code for violation in here)
        assert places_in(bad) == places_of(here)
        assert_same_columns(bad.columns, with_room(columns_of([dataset.datums[bad.columns.row[0]]])))
        assert set(bad.columns.ids) == ids_in(bad)
        assert datum_to_text(bad.columns, bad.violations)
    names = [record["sequence_id"] for record in dataset.sequences]
    if len(set(names)) != len(names) or any(
        v.code.startswith("FMT") and v.location.row is None for v in report
    ):
        return None
    broken = {v.location.row for v in report if v.code in GATES}
    passed = [row for row in range(len(dataset.datums)) if row not in broken]
    expected = {
        name: counted(values, seen.histograms[name].edges.tolist())
        for name, values in values_of(dataset, passed, now).items()
        if values
    }
    assert counts_of(seen.histograms) == expected
    return seen


def ids_in(bad: BadDatum) -> set[str]:
    columns = bad.columns
    mentions = [*columns.input_spans.sequence.tolist(), *columns.target_spans.sequence.tolist()]
    return {columns.ids[sequence] for sequence in mentions if sequence >= 0}


# Histograms


def test_edges_show_what_matters() -> None:
    edges = {name: h.edges for name, h in seen_in(case()).histograms.items()}
    assert set(edges) == {"logprobs", "advantages", "log_ratios", "lengths", "ages"}
    for name, of in edges.items():
        assert (np.diff(of) > 0).all(), name
        assert len(of) < 100, name
    for name in ("advantages", "log_ratios"):
        of = edges[name][edges[name] != LEAST]
        assert of.tolist() == [-edge for edge in reversed(of.tolist())], name
    assert edges["logprobs"][[0, -2, -1]].tolist() == [-20, 0, LEAST]
    assert edges["lengths"][[0, -1]].tolist() == [1, 2**20]
    assert edges["ages"][[0, 48, 96]].tolist() == [0, 86_400, 172_800]
    for name in ("advantages", "log_ratios", "logprobs"):  # a bin for zeros alone
        assert {0, LEAST} <= set(edges[name].tolist()), name


def test_histograms_of_one_datum() -> None:
    seen = seen_in(case({"loss_fn_inputs.logprobs.data": [0.0, 0.0, -0.125, -0.25, -0.625]})).histograms
    assert bins(seen["logprobs"]) == {-0.15: 1, -0.3: 1, -0.7: 1}
    assert bins(seen["advantages"]) == {1: 3}
    assert bins(seen["log_ratios"]) == {0: 2, 0.1: 1}
    assert bins(seen["lengths"]) == {4: 1}
    assert bins(seen["ages"]) == {7200: 1}
    assert all(outside(histogram) == (0, 0, 0) for histogram in seen.values())


@pytest.mark.parametrize(
    ("changes", "name", "expected"),
    [
        ({"loss_fn_inputs.logprobs.data.2": -20.5}, "logprobs", (1, 0, 0)),
        ({"loss_fn_inputs.logprobs.data.2": -20.0}, "logprobs", (0, 0, 0)),
        ({"loss_fn_inputs.logprobs.data.2": 1e-5}, "logprobs", (0, 1, 0)),
        ({"loss_fn_inputs.logprobs.data.2": -0.0}, "logprobs", (0, 0, 0)),
        ({"loss_fn_inputs.logprobs.data.2": float("-inf")}, "logprobs", (0, 0, 1)),
        ({"loss_fn_inputs.logprobs.data.2": None}, "logprobs", (0, 0, 1)),
        ({"loss_fn_inputs.logprobs.data.2": None}, "log_ratios", (0, 0, 1)),
        ({"loss_fn_inputs.logprobs.data.0": None}, "logprobs", (0, 0, 0)),
        ({"loss_fn_inputs.logprobs.data.2": -20.0}, "log_ratios", (1, 0, 0)),
        ({"sequences.0.logprobs.0": float("nan")}, "log_ratios", (0, 0, 1)),
        ({"sequences.0.logprobs.0": -20.0}, "log_ratios", (0, 1, 0)),
        ({"loss_fn_inputs.advantages.data.2": 100.0}, "advantages", (0, 1, 0)),
        ({"loss_fn_inputs.advantages.data.2": -100.5}, "advantages", (1, 0, 0)),
        ({"sequences.0.sampled_at": "2026-01-02T12:01:00Z"}, "ages", (1, 0, 0)),
        (
            {"sequences.0.sampled_at": "2025-12-01T00:00:00Z", "sequences.0.last_used_at": None},
            "ages",
            (0, 1, 0),
        ),
    ],
)
def test_what_lies_outside(changes: Json, name: str, expected: tuple[int, int, int]) -> None:
    assert outside(seen_in(case(changes)).histograms[name]) == expected


def test_single_precision_values_beside_an_edge() -> None:
    edges = seen_in(case()).histograms["advantages"].edges
    at = np.float32(edges)
    values = [
        float(v) for v in (*at, *np.nextafter(at, np.float32(-200)), *np.nextafter(at, np.float32(200)))
    ]
    value_lists = {"data": values, "dtype": "float32", "shape": [len(values)]}
    changes: Json = {f"loss_fn_inputs.{name}": value_lists for name in ("advantages", "logprobs")}
    changes["loss_fn_inputs.target_tokens"] = {"data": [5] * len(values), "dtype": "int64"}
    changes["model_input.chunks.0.tokens"] = [5] * len(values)
    seen = seen_in(case({**WITHOUT_SPANS, **changes}, loss="ppo")).histograms["advantages"]
    assert counts_of({"": seen})[""] == counted([value for value in values if value], edges.tolist())


def test_a_difference_that_is_tiny_is_no_zero() -> None:
    changes = {"loss_fn_inputs.logprobs.data.2": -1e-45, "sequences.0.logprobs.0": 0.0}
    assert bins(seen_in(case(changes)).histograms["log_ratios"]) == {-0.0001: 1, 0: 2}


@pytest.mark.parametrize(
    ("window", "bin_"), [(3 * 3600.0, 7200.0), (1e-300, 2.0), (0.0, 2.0), (2.0**62, 0.0)]
)
def test_ages_are_drawn_against_the_window(window: float, bin_: float) -> None:
    contract = provenance.Contract.for_loss("stable_reinforce").with_parameters(window=window)
    of = case()
    seen = observed(list(of.datums), contract, ledger=list(of.sequences), session=of.session, now=of.now)
    ages = seen.histograms["ages"]
    assert ages.edges[48] == max(window, 1)
    assert bins(ages) == ({bin_: 1} if bin_ != 2 else {})
    assert ages.above == (bin_ == 2)


def test_times_as_far_apart_as_can_be_do_not_wrap_around() -> None:
    of = case()
    table = provenance.MemoryLedger([provenance.SampledSequence.model_validate(of.sequences[0])]).lookup(
        ("s:1",), of.session
    )
    table.sampled_at[:] = -(2**63) + 2
    table.last_used_at[:] = -(2**63)
    assert outside(seen_in(of, ledger=table).histograms["ages"]) == (0, 1, 0)


def test_a_sequence_counts_once_for_each_datum_that_names_it() -> None:
    of = case(turns="multi")
    twice = [*of.datums, *of.datums]
    seen = observed(twice, ledger=list(of.sequences), session=of.session, now=of.now)
    assert bins(seen.histograms["ages"]) == {7200: 4}


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"ledger": None}, {"ages", "log_ratios"}),
        ({"ledger": []}, {"ages", "log_ratios"}),
        ({"session": None}, set()),
        ({"now": None}, set()),
    ],
)
def test_what_is_not_given_is_not_drawn(changes: Json, missing: set[str]) -> None:
    names = {"logprobs", "advantages", "lengths", "log_ratios", "ages"}
    assert set(seen_in(case(), **changes).histograms) == names - missing


def test_an_id_of_several_sessions_has_no_age() -> None:
    of = case({"sequences.1": {**RECORD, "session_id": "session-2", "sampled_at": "2026-01-02T11:59:00Z"}})
    assert bins(seen_in(of).histograms["ages"]) == {7200: 1}
    assert set(seen_in(of, session=None).histograms) == {"logprobs", "advantages", "lengths"}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("spans", [True, False])
def test_every_loss(loss: str, spans: bool) -> None:
    of = case({} if spans else WITHOUT_SPANS, loss=loss)
    seen = seen_in(of)
    values = {"logprobs", "advantages"} if loss != "cross_entropy" else set()
    names = {"lengths", *values, *({"ages"} if spans else ()), *({"log_ratios"} if spans and values else ())}
    assert set(seen.histograms) == names
    if values:
        assert bins(seen.histograms["advantages"]) == {1: 3}
        assert seen.histograms["logprobs"].counts.sum() == 3


def test_inputs_of_a_custom_loss_may_be_of_any_shape() -> None:
    of = case(
        {
            "datums.0.loss_fn_inputs.advantages": {"data": [0.5], "dtype": "float32", "shape": []},
            "datums.1.loss_fn_inputs.logprobs.shape": [5, 1],
            "sequences.1.logprobs": [0.0, 0.0, 0.0],
        },
        copies=3,
        loss="custom",
    )
    seen = seen_in(of).histograms
    assert bins(seen["lengths"]) == {4: 3}
    assert seen["logprobs"].counts.sum() == 6
    assert bins(seen["log_ratios"]) == {0: 6}
    assert bins(seen["advantages"]) == {1: 6}


def test_in_a_datum_with_spans_an_advantage_alone_counts_for_nothing() -> None:
    changes = {f"datums.1.{path}": value for path, value in WITHOUT_SPANS.items()}
    changes |= {f"datums.{row}.loss_fn_inputs.advantages.data.0": 7.0 for row in range(2)}
    assert bins(seen_in(case(changes, copies=2, loss="ppo")).histograms["advantages"]) == {1: 6, 7: 1}


def test_an_input_that_the_loss_does_not_take_is_no_reason_to_leave_a_datum_out() -> None:
    stray = {"loss_fn_inputs.logprobs": {"data": [-1.0], "dtype": "float32", "shape": [1]}}
    seen = seen_in(case(stray, loss="cross_entropy")).histograms
    assert bins(seen["lengths"]) == {4: 1}
    assert set(seen) == {"lengths", "ages"}


def test_an_empty_dataset(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for data in ([], str(tmp_path / "empty.jsonl")):
        seen = observed(data, allow_empty=True)
        assert dict(seen.histograms) == {}
        assert (seen.datums, seen.omitted, seen.bad_datums) == ((), 0, 0)


def examples(code: str) -> Iterator[Case]:
    return (example for example in (*registry()[code].good, *registry()[code].bad) if example.lines is None)


@pytest.mark.parametrize("code", [code for code in registry() if next(examples(code), None) is not None])
def test_examples_of_rules_by_loops(code: str) -> None:
    compared = 0
    for example in examples(code):
        dataset = Dataset(
            [dict(d) for d in example.datums], [dict(s) for s in example.sequences], example.loss
        )
        if example.loss != "custom":
            told = {"now": example.now, "session": example.session, **example.parameters}
            compared += hold_against_loops(dataset, **told) is not None
    assert compared


def test_an_image_of_unknown_length_has_room() -> None:
    changes = {"model_input.chunks.1.expected_tokens": DROP, "loss_fn_inputs.logprobs.data.2": 5.0}
    of = case({**WITH_IMAGE, **WITHOUT_SPANS, **changes}, loss="ppo")
    seen = hold_against_loops(
        Dataset([dict(d) for d in of.datums], [dict(s) for s in of.sequences], of.loss),
        now=of.now,
        session=of.session,
    )
    assert seen is not None
    assert [bad.columns.positions for bad in seen.datums] == [5]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(dataset=datasets())
def test_broken_data_by_loops_and_in_parts(
    dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(dataset, tmp_path_factory)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(dataset=datasets())
def test_much_broken_data_by_loops_and_in_parts(
    dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> None:
    agree(dataset, tmp_path_factory)


def agree(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> None:
    circumstances = {"now": "2026-01-02T12:00:00Z", "session": "session-1"}
    hold_against_loops(dataset, **circumstances, **PARAMETERS)
    contract = provenance.Contract.for_loss(dataset.loss).with_parameters(**PARAMETERS)
    path = tmp_path_factory.mktemp("observe") / "data.jsonl"
    path.write_text("".join(json.dumps(datum) + "\n" for datum in dataset.datums), encoding="utf-8")
    whole, *parts = (
        observed(data, contract, ledger=dataset.sequences, **circumstances)
        for data in (dataset.datums, one_by_one(dataset.datums), path)
    )
    for part in parts:
        assert counts_of(part.histograms) == counts_of(whole.histograms)
        assert kept(part.datums) == kept(whole.datums)
        assert [places_in(bad) for bad in part.datums] == [places_in(bad) for bad in whole.datums]
        assert part.bad_datums == whole.bad_datums


def one_by_one(datums: list[Json]) -> list[Columns]:
    """Batches of a datum each."""
    return [replace(columns_of([datum]), row=np.array([row])) for row, datum in enumerate(datums)]


# However it is cut


def many(copies: int = 40) -> Case:
    """Datums of which every third is bad, each in one of several ways."""
    ways: list[Json] = [
        {"loss_fn_inputs.logprobs.data.1": None},
        {"loss_fn_inputs.logprobs.data.1": 0.5},
        {"loss_fn_inputs.advantages.data.0": 3.0},
        {"model_input.chunks.0.tokens.1": 99},
        {"loss_fn_input_spans.1.length": 1},
        {"loss_fn_inputs.advantages.data.1": -150.0},
    ]
    changes = {
        f"datums.{row}.{path}": value
        for row in range(0, copies, 3)
        for path, value in ways[row // 3 % len(ways)].items()
    }
    return case(changes, copies=copies, turns="multi")


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_row_groups_and_workers_change_nothing(workers: int, rows: int, tmp_path: Path) -> None:
    of = many()
    lines, whole, cut = tmp_path / "data.jsonl", tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    provenance.write_datums(of.datums, lines)
    provenance.write_datums(of.datums, whole)
    pq.write_table(pq.read_table(whole), cut, row_group_size=rows)
    expected = seen_in(of)
    for path in (lines, cut):
        run = Run(
            "stable_reinforce", ledger=list(of.sequences), session=of.session, now=of.now, read_all=True
        )
        observer = Observer(run.contract)
        for step in run.steps(path, workers=workers):
            observer.add(step)
        seen = observer.observations()
        assert counts_of(seen.histograms) == counts_of(expected.histograms)
        assert kept(seen.datums) == kept(expected.datums)


def test_files_follow_each_other(tmp_path: Path) -> None:
    of = many()
    for number in range(2):
        provenance.write_datums(of.datums[number * 20 : number * 20 + 20], tmp_path / f"{number}.jsonl")
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(2)]
    seen = observed(paths, ledger=list(of.sequences), session=of.session, now=of.now)
    expected = seen_in(of)
    assert counts_of(seen.histograms) == counts_of(expected.histograms)
    places = [(bad.columns.file, int(bad.columns.row[0])) for bad in seen.datums]
    assert places == [(paths[row // 20], row % 20) for row, _ in kept(expected.datums)]
    for bad in seen.datums:
        assert {violation.location.file for violation in bad.violations} == {bad.columns.file}


# Bad datums


def test_the_first_datums_of_each_rule_are_kept() -> None:
    of = many(100)
    report = provenance.check(
        list(of.datums),
        ledger=list(of.sequences),
        session=of.session,
        now=of.now,
        observe=True,
        max_examples=1,
    )
    full = provenance.check(
        list(of.datums), ledger=list(of.sequences), session=of.session, now=of.now, max_examples=1000
    )
    assert report.observations is not None
    rows = [row for row, _ in kept(report.observations.datums)]
    assert kept(report.observations.datums) == chosen_datums(full)
    assert rows == sorted(set(rows))
    for code in {v.code for v in full if v.code not in ELSEWHERE}:
        of_code = sorted({v.location.row for v in full if v.code == code})
        assert of_code[:3] == [row for row in of_code if row in rows][:3]


def test_a_datum_counts_for_each_rule_that_it_breaks() -> None:
    changes: Json = {f"datums.{row}.loss_fn_inputs.logprobs.data.2": 5.0 for row in range(5)}
    changes |= {f"datums.{row}.loss_fn_inputs.advantages.data.2": 1e6 for row in range(3)}
    seen = observed(list(case(changes, copies=5).datums))
    assert [int(bad.columns.row[0]) for bad in seen.datums] == [0, 1, 2]
    assert {violation.code for violation in seen.datums[0].violations} == {"ADV004", "VAL002"}


def test_violations_of_a_datum_are_those_that_inspect_shows(tmp_path: Path) -> None:
    from provenance.reports.find import find_datum

    of, path = many(), tmp_path / "data.jsonl"
    provenance.write_datums(of.datums, path)
    options: Any = {"ledger": list(of.sequences), "session": of.session, "now": of.now}
    for bad in observed(path, **options).datums:
        found = find_datum(path, row=int(bad.columns.row[0]), **options)
        assert bad.violations == found.report.violations
        assert_same_columns(bad.columns, found.columns, places=True)


#: Some weights of two targets a position are NaN.
WEIGHTS: list[Json] = [
    {"data": [0.0, 0.0, 1.0, np.nan, 0.0, np.nan, np.nan, 1.0, np.nan, 0.5]},
    {
        "data": [1.0, np.nan, np.nan, np.nan, 1.0, np.nan, 0.5],
        "sparse_crow_indices": [0, 0, 2, 3, 5, 7],
        "sparse_col_indices": [0, 1, 1, 0, 1, 0, 1],
    },
]


@pytest.mark.parametrize("weights", WEIGHTS, ids=["dense", "sparse"])
def test_places_in_rows_and_columns(weights: Json) -> None:
    weights = weights | {"dtype": "float32", "shape": [5, 2]}
    of = case({**TWO_TARGETS, "loss_fn_inputs.weights": weights}, loss="cross_entropy")
    report = provenance.check([*case(loss="cross_entropy").datums, *of.datums], of.loss, observe=True)
    assert report.observations is not None
    (bad,) = report.observations.datums
    marked = [(index, length) for code, _, index, length in places_in(bad) if code == "VAL001"]
    assert marked == [((1, 1), 1), ((2, 1), 2), ((4, 0), 1)]
    assert places_in(bad) == places_of(report)


def test_places_are_bounded_and_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_PLACES", 3)
    changes: Json = {"loss_fn_inputs.logprobs.data": [-1.0] + [5.0, -1.0] * 12}
    changes["loss_fn_inputs.advantages.data"] = [1e6, 1e6] + [1.0] * 23
    changes["loss_fn_inputs.target_tokens.data"] = changes["model_input.chunks.0.tokens"] = [7] * 25
    changes |= {f"loss_fn_inputs.{name}.shape": [25] for name in ("logprobs", "advantages", "target_tokens")}
    (bad,) = observed(list(case({**WITHOUT_SPANS, **changes}, loss="ppo").datums), "ppo").datums
    assert bad.counts == {"VAL002": 12, "ADV004": 1}
    assert len(bad.violations) == 13
    marked = {places.code: (places.start.tolist(), places.length.tolist()) for places in bad.places}
    assert marked == {"VAL002": ([1, 3, 5], [1, 1, 1]), "ADV004": ([0], [2])}


def test_a_datum_keeps_nothing_of_its_batch() -> None:
    of = many(400)
    for bad in seen_in(of).datums:
        columns = bad.columns
        arrays = [
            columns.tokens,
            columns.offsets,
            columns.input_spans.sequence,
            columns.target_spans.sequence,
        ]
        arrays += [tensor.values for tensor in columns.inputs.values()]
        arrays += [array for places in bad.places for array in (places.start, places.length)]
        assert all(array.base is None or array.base.nbytes < 1000 for array in arrays)
        assert set(columns.ids) == ids_in(bad)
        assert len(columns.ids) == 2


def test_what_cannot_be_read_is_left_to_the_violations(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    good = json.dumps(case().datums[0])
    broken = json.dumps(case({"loss_fn_inputs.logprobs.data.2": 5.0}).datums[0])
    path.write_text(f"nonsense\n{good}\n{{}}\n{broken}\n", encoding="utf-8")
    seen = observed(path)
    assert [int(bad.columns.row[0]) for bad in seen.datums] == [3]
    assert {violation.location.row for violation in seen.datums[0].violations} == {3}
    assert seen.bad_datums == 3
    assert bins(seen.histograms["lengths"]) == {4: 2}


#: What breaks a datum of ppo: input, value, and the rule.
WAYS: list[tuple[str, float, str]] = [
    ("logprobs", np.nan, "VAL001"),
    ("logprobs", 1.0, "VAL002"),
    ("target_tokens", 2**31 + 5, "TOK001"),
    ("advantages", 1e6, "ADV004"),  # a warning
]


def without_spans(lengths: Sequence[int], ways: Sequence[int]) -> pa.Table:
    """Datums of these lengths, each broken in one of the ways."""
    columns: dict[str, list[Any]] = {
        "model_input_tokens": [],
        "target_tokens": [],
        "logprobs": [],
        "advantages": [],
    }
    for length, way in zip(lengths, ways, strict=True):
        tokens = np.arange(length + 1)
        values = {
            "target_tokens": tokens[1:],
            "logprobs": np.full(length, -1.0),
            "advantages": np.ones(length),
        }
        name, value, _ = WAYS[way]
        values[name][1] = value
        for column, found in {"model_input_tokens": tokens[:-1], **values}.items():
            columns[column].append(found)
    return pa.table({name: pa.array(found) for name, found in columns.items()})


def test_too_long_a_datum_is_left_out_and_a_later_one_taken() -> None:
    lengths = (200_001, 10, 200_000, 300_000, 11, 12)
    seen = observed(without_spans(lengths, [0] * 6), "ppo")
    assert [bad.columns.positions for bad in seen.datums] == [10, 200_000, 11]
    assert (seen.omitted, seen.bad_datums) == (2, 6)


def test_room_for_positions_is_bounded_and_errors_have_it_first() -> None:
    order = [3, 3, 3, 0, 0, 0, 1, 1, 1]  # warnings, then two errors
    seen = observed(without_spans([150_000] * 9, order), "ppo")
    sizes = [bad.columns.positions for bad in seen.datums]
    assert sum(sizes) <= 1_000_000
    assert [int(bad.columns.row[0]) for bad in seen.datums] == [3, 4, 5, 6, 7, 8]
    assert seen.omitted == 3


def test_room_for_datums_is_bounded_and_each_rule_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "_OF_ALL", 4)
    order = [3, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    seen = observed(without_spans([8] * len(order), order), "ppo")
    rows = [int(bad.columns.row[0]) for bad in seen.datums]
    assert rows == [1, 2, 5, 8]  # the first of each error, then the second of the first error
    assert [{v.code for v in bad.violations} for bad in seen.datums] == [
        {WAYS[order[row]][2]} for row in rows
    ]
    assert seen.omitted == 3 + 3 + 3 + 2 - 4


def test_thousands_of_bad_datums_keep_the_bound() -> None:
    order = [row % len(WAYS) for row in range(5000)]
    report = provenance.check(without_spans([8] * len(order), order), "ppo", observe=True)
    assert report.bad_datums == 3750
    seen = report.observations
    assert seen is not None
    assert [int(bad.columns.row[0]) for bad in seen.datums] == list(range(12))
    assert (seen.omitted, seen.bad_datums) == (0, 5000)
    assert bins(seen.histograms["lengths"]) == {8: 5000}


# What is read


def test_a_contract_that_reads_no_input_shows_them_all_the_same(tmp_path: Path) -> None:
    full = provenance.Contract.for_loss("stable_reinforce")
    about_spans = full.with_severity(
        {c: "off" for c in full.severities if c not in ("SPN001", "SPN003", "SEQ002")}
    )
    changes = {
        "datums.1.loss_fn_inputs.logprobs": {"data": [-0.5], "dtype": "float32", "shape": [1]},
        "datums.2.loss_fn_inputs.advantages": DROP,
        "datums.3.model_input_spans.0.length": 2,
        "datums.4.loss_fn_inputs.logprobs.data.2": None,
    }
    of, path = case(changes, copies=6), tmp_path / "data.parquet"
    provenance.write_datums(of.datums, path)
    options: Any = {"ledger": list(of.sequences), "session": of.session, "now": of.now}
    for data in (path, list(of.datums)):
        report = provenance.check(data, about_spans, observe=True, **options)
        assert report.to_dict() == provenance.check(data, about_spans, **options).to_dict()
        assert set(report.counts) == {"SPN003"}
        seen = report.observations
        assert seen is not None
        assert bins(seen.histograms["lengths"]) == {4: 4}  # without the first: its shape is unsound
        assert (seen.histograms["logprobs"].counts.sum(), seen.histograms["logprobs"].unusable) == (11, 1)
        assert (bins(seen.histograms["log_ratios"]), seen.histograms["log_ratios"].unusable) == ({0: 11}, 1)
        assert bins(seen.histograms["advantages"]) == {1: 9}
        (bad,) = seen.datums
        assert int(bad.columns.row[0]) == 3
        assert set(bad.columns.inputs) == {"target_tokens", "logprobs", "advantages"}


def test_what_is_validated_or_streamed_is_not_observed() -> None:
    of = case({"loss_fn_inputs.logprobs.data.2": 5.0})
    with pytest.raises(provenance.ValidationError) as refused:
        provenance.validate(list(of.datums), ledger=list(of.sequences), session=of.session, now=of.now)
    assert refused.value.report.observations is None


MEMORY = """
import resource, sys
import provenance
report = provenance.check(sys.argv[1], "ppo", observe=sys.argv[2] == "1")
datums = 0 if report.observations is None else len(report.observations.datums)
print(report.errors, datums, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_of_a_million_violations(tmp_path: Path) -> None:
    path, rows, length = tmp_path / "data.parquet", 20_000, 100
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    tokens = np.tile(np.arange(length, dtype=np.int32), rows)
    logprobs = np.full(len(tokens), -1, np.float32)
    logprobs[::2] = 0.5
    columns = {
        "model_input_tokens": tokens,
        "target_tokens": tokens.astype(np.int64) + 1,
        "logprobs": logprobs,
        "advantages": np.full(len(tokens), 1, np.float32),
    }
    table = pa.table({name: pa.ListArray.from_arrays(offsets, pa.array(v)) for name, v in columns.items()})
    pq.write_table(table, path, row_group_size=2000)
    ran = [
        subprocess.run(
            [sys.executable, "-c", MEMORY, str(path), observe], check=True, capture_output=True, text=True
        ).stdout.split()
        for observe in ("0", "1")
    ]
    (errors, none, without), (same, datums, with_it) = ran
    assert (errors, none) == (same, "0")
    assert (int(errors), int(datums)) == (1_000_000, 3)
    assert int(with_it) < int(without) + 50_000  # kilobytes
