"""One dataset, whole or in parts, as dicts, models, lines or Arrow: the same violations and the same counts.

Datums are valid conversations that are then broken at random: nothing here knows what a rule should say, only
that it must say the same however the data came.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _paths import found
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance import SchemaError, check
from provenance.formats import columns_of, read_datums
from provenance.rules import registry

SESSION, NOW = "session-1", "2026-01-02T12:00:00Z"
#: Rules whose verdict on a dataset is not that on its datums one by one.
GLOBAL = {code for code, rule in registry().items() if rule.at in ("record", "dataset", "config")} | {
    "SEQ010"
}
LOSSES = ("stable_reinforce", "stable_reinforce", "importance_sampling", "ppo", "gspo", "cross_entropy")
PARAMETERS = {"vocab_size": 90, "placeholder_run": 2, "foreign_run": 2, "max_tokens": 12}

Draw = Callable[[st.SearchStrategy[Any]], Any]
Json = dict[str, Any]


class Dataset(NamedTuple):
    datums: list[Json]
    sequences: list[Json]
    loss: str

    def report(self, data: Any) -> provenance.Report:
        contract = provenance.Contract.for_loss(self.loss).with_parameters(**PARAMETERS)
        return check(
            data,
            contract,
            ledger=self.sequences,
            session=SESSION,
            now=NOW,
            loss_config={"kl_coef": 1.0},
            max_examples=10_000,
        )


# Valid datums

TOKENS = st.integers(1, 80)
LOGPROBS = st.sampled_from([-0.125, -0.375, -0.5, -1.0, -2.0, 0.0])


def tensor(values: list[Any], dtype: str = "float32") -> Json:
    return {"data": values, "dtype": dtype, "shape": [len(values)]}


def conversation(draw: Draw, name: str, loss: str) -> tuple[Json, list[Json]]:
    """A datum of some turns, each of which extends the one before, and their sequences."""
    tokens: list[int] = []
    logprobs: list[float] = []
    advantages: list[float] = []
    spans: list[Json] = []
    sequences: list[Json] = []
    reward = draw(st.sampled_from([1.0, -0.5, 0.0, 250.0]))
    for turn in range(draw(st.integers(1, 3))):
        seen, own = f"{name}:{turn}", draw(st.lists(TOKENS, min_size=1, max_size=3))
        sampled = draw(st.lists(TOKENS, min_size=1, max_size=3))
        theirs = [draw(LOGPROBS) for _ in sampled]
        spans += [
            {"type": "prompt", "sequence_id": seen, "offset": len(tokens), "length": len(own)},
            {"type": "sampled", "sequence_id": seen, "offset": 0, "length": len(sampled)},
        ]
        tokens += own
        sequences.append(
            {
                "sequence_id": seen,
                "session_id": SESSION,
                "prompt_tokens": list(tokens),
                "tokens": sampled,
                "logprobs": theirs,
                "sampled_at": "2026-01-02T10:00:00Z",
                "record_stability_info": True,
            }
        )
        tokens += sampled
        logprobs += [0.0] * len(own) + theirs
        advantages += [0.0] * len(own) + [reward] * len(sampled)
    inputs = {
        "target_tokens": tensor(tokens[1:], "int64"),
        "logprobs": tensor(logprobs[1:]),
        "advantages": tensor(advantages[1:]),
    }
    if loss == "cross_entropy":
        inputs["weights"] = inputs.pop("advantages")
        del inputs["logprobs"]
    if loss == "gspo":
        inputs["sequence_ratio_mask"] = tensor([float(a != 0) for a in advantages[1:]])
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": tokens[:-1]}]},
        "loss_fn_inputs": inputs,
        "model_input_spans": without_position(spans, -1),
        "loss_fn_input_spans": without_position(spans, 0),
    }
    return datum, sequences


def without_position(spans: list[Json], end: int) -> list[Json]:
    """The spans of the same tokens without the first (0) or the last (-1)."""
    spans = copy.deepcopy(spans)
    spans[end]["length"] -= 1
    spans[end]["offset"] += end == 0
    return [span for span in spans if span["length"]]


# Damage. Each function breaks a datum that earlier ones may have broken, and leaves it alone where it cannot.

FLOATS = st.sampled_from(
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        1e39,
        -1e39,
        1e-60,
        0.25,
        5e-5,
        -0.0,
        0,
        3,
        1e-9,
        -500.0,
        2**70,
        None,
    ]
)
IDS = st.sampled_from(
    [
        -100,
        -1,
        0,
        2**31 - 1,
        2**31,
        2**40 + 1,
        2**53 + 1,
        2**63 - 1,
        2**63,
        -(2**63) - 1,
        12.0,
        2.5,
        85,
        95,
        None,
    ]
)
COUNTS = st.sampled_from(
    [0, 1, -1, -3, 7, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 1.5, 2.0, True, "1", None]
)


def some_input(draw: Draw, datum: Json) -> tuple[str, Json]:
    """A loss input that is there, and its tensor."""
    there = {n: t for n, t in (datum.get("loss_fn_inputs") or {}).items() if t and t.get("data") is not None}
    return (
        draw(st.sampled_from(sorted(there.items(), key=lambda item: item[0]))) if there else ("", tensor([]))
    )


def set_value(draw: Draw, datum: Json) -> None:
    name, given = some_input(draw, datum)
    if given["data"]:
        values = IDS if name == "target_tokens" else FLOATS
        given["data"][draw(st.integers(0, len(given["data"]) - 1))] = draw(values)


def set_run(draw: Draw, datum: Json) -> None:
    name, given = some_input(draw, datum)
    value = draw(IDS if name == "target_tokens" else FLOATS)
    start = draw(st.integers(0, len(given["data"])))
    given["data"][start : start + 3] = [value] * len(given["data"][start : start + 3])


def set_length(draw: Draw, datum: Json) -> None:
    _, given = some_input(draw, datum)
    given["data"] = draw(st.sampled_from([given["data"][:-1], [*given["data"], 1], [], given["data"][1:]]))
    if draw(st.booleans()):
        given["shape"] = [len(given["data"])]


def set_shape(draw: Draw, datum: Json) -> None:
    _, given = some_input(draw, datum)
    n = len(given["data"])
    given["shape"] = draw(
        st.sampled_from(
            [None, [n], [n + 1], [1, n], [n, 1], [n, 1, 1], [], [-1], [0], [0, 3], [2**40, 2**40]]
        )
    )


def nest(draw: Draw, datum: Json) -> None:
    _, given = some_input(draw, datum)
    given["shape"] = None
    given["data"] = draw(
        st.sampled_from([[given["data"]], [[v] for v in given["data"]], [given["data"], [1]]])
    )


def set_dtype(draw: Draw, datum: Json) -> None:
    some_input(draw, datum)[1]["dtype"] = draw(
        st.sampled_from(["int64", "float32", "bfloat16", "float64", "", "Int64"])
    )


def widen(draw: Draw, datum: Json) -> None:
    """Tensors of shape (N, K), dense or as CSR."""
    for wide in (datum.get("loss_fn_inputs") or {}).values():
        if not wide or wide.get("data") is None or draw(st.integers(0, 3)) == 0:
            continue
        width, rows = draw(st.integers(1, 3)), len(wide["data"])
        if draw(st.booleans()):
            wide["data"] = [value for value in wide["data"] for _ in range(width)]
            wide["shape"] = [rows, width]
        else:
            wide.update(shape=[rows, width], sparse_crow_indices=list(range(rows + 1)))
            wide["sparse_col_indices"] = [draw(st.integers(0, width - 1)) for _ in range(rows)]
            if draw(st.integers(0, 5)) == 0 and rows:
                wide["sparse_col_indices"][0] = draw(st.sampled_from([width, -1, 2**40]))


def drop_input(draw: Draw, datum: Json) -> None:
    name, _ = some_input(draw, datum)
    if name and draw(st.booleans()):
        datum["loss_fn_inputs"][name] = draw(st.sampled_from([None, {"data": None, "dtype": "float32"}]))
    elif name:
        del datum["loss_fn_inputs"][name]


def add_input(draw: Draw, datum: Json) -> None:
    if datum.get("loss_fn_inputs") is not None:
        name = draw(st.sampled_from(["mask", "weights", "clip_low_threshold", "logprobs", "file", "row"]))
        datum["loss_fn_inputs"][name] = tensor([draw(FLOATS) for _ in range(draw(st.integers(0, 6)))])


def some_span(draw: Draw, datum: Json) -> Json:
    # What broke the datum before may have put anything in place of a list or a span.
    lists = [datum.get(f) for f in ("model_input_spans", "loss_fn_input_spans")]
    spans = [s for found in lists if isinstance(found, list) for s in found if isinstance(s, dict)]
    return draw(st.sampled_from(spans)) if spans else {}


def set_span(draw: Draw, datum: Json) -> None:
    key = draw(st.sampled_from(["offset", "length", "type", "sequence_id"]))
    values = {
        "type": st.sampled_from(["prompt", "sampled", "sample", "", None, 1]),
        "sequence_id": st.sampled_from(["0:0", "1:0", "0:1", "nobody", "", None, 5, "0:0 "]),
    }.get(key, COUNTS)
    span = some_span(draw, datum)
    span[key] = draw(values)
    if draw(st.integers(0, 5)) == 0:
        del span[key]


def move_span(draw: Draw, datum: Json) -> None:
    span = some_span(draw, datum)
    if isinstance(span.get("offset"), int):
        span["offset"] += draw(st.integers(-1, 2))


def set_spans(draw: Draw, datum: Json) -> None:
    field = draw(st.sampled_from(["model_input_spans", "loss_fn_input_spans"]))
    spans = datum.get(field)
    spans = spans if isinstance(spans, list) else []
    empty = {"type": "sampled", "sequence_id": "0:0", "offset": 0, "length": 0}
    datum[field] = draw(
        st.sampled_from([None, [], spans[:-1], [*spans, empty], [empty, *spans], [*spans, None], spans[::-1]])
    )


def drop_spans(draw: Draw, datum: Json) -> None:
    for field in ("model_input_spans", "loss_fn_input_spans"):
        datum.pop(field, None)


def chunks_of(datum: Json) -> list[Json]:
    return (datum.get("model_input") or {}).get("chunks") or []


def set_token(draw: Draw, datum: Json) -> None:
    for chunk in chunks_of(datum):
        if chunk.get("tokens"):
            chunk["tokens"][draw(st.integers(0, len(chunk["tokens"]) - 1))] = draw(IDS)


def set_chunks(draw: Draw, datum: Json) -> None:
    """An image, audio, or nothing in place of a token, or the same text in several chunks."""
    if not chunks_of(datum) or not chunks_of(datum)[0].get("tokens"):
        return
    tokens = chunks_of(datum)[0]["tokens"]
    at = draw(st.integers(0, len(tokens) - 1))
    image = {"type": "image", "format": "png", "data": "iVBORw0KGgo="}
    pointer = {"type": "image_asset_pointer", "format": "jpeg", "location": "a.jpeg"}
    middle = draw(
        st.sampled_from(
            [
                {**image, "expected_tokens": 1},
                {**image, "expected_tokens": 0},
                {**image, "expected_tokens": 3},
                image,
                {**image, "expected_tokens": None},
                {**pointer, "expected_tokens": 1},
                pointer,
                {"type": "dmel", "dmel": "AAIBAw=="},
                {"type": "encoded_text", "tokens": []},
                {"type": "encoded_text", "tokens": tokens[at : at + 1]},
            ]
        )
    )
    text = [{"type": "encoded_text", "tokens": part} for part in (tokens[:at], tokens[at + 1 :])]
    datum["model_input"]["chunks"] = [text[0], middle, text[1], *chunks_of(datum)[1:]]


def shorten_input(draw: Draw, datum: Json) -> None:
    for chunk in chunks_of(datum)[-1:]:
        if chunk.get("tokens"):
            chunk["tokens"] = draw(st.sampled_from([chunk["tokens"][:-1], [*chunk["tokens"], 3]]))


def empty(draw: Draw, datum: Json) -> None:
    datum["model_input"] = {"chunks": draw(st.sampled_from([[], [{"type": "encoded_text", "tokens": []}]]))}
    for emptied in (datum.get("loss_fn_inputs") or {}).values():
        if emptied:
            emptied.update(data=[], shape=[0])
    if draw(st.booleans()):
        datum["model_input_spans"] = datum["loss_fn_input_spans"] = []


def make_unreadable(draw: Draw, datum: Json) -> None:
    key, value = draw(
        st.sampled_from(
            [
                ("model_input", None),
                ("loss_fn_inputs", None),
                ("extra", 1),
                ("model_input_spans", 5),
                ("model_input", {"chunks": [{"type": "text"}]}),
            ]
        )
    )
    datum[key] = value


DAMAGES = [
    *(set_value, set_value, set_run, set_length, set_shape, nest, set_dtype, widen, drop_input, add_input),
    *(set_span, set_span, move_span, set_spans, drop_spans),
    *(set_token, set_chunks, set_chunks, shorten_input, empty, make_unreadable),
]
RECORD_CHANGES: list[Json] = [
    {"session_id": "session-2"},
    {"sampled_at": "2026-01-01T10:00:00Z"},
    {"sampled_at": "2026-01-01T12:30:00Z"},
    {"sampled_at": "2026-01-02T13:00:00Z"},
    {"record_stability_info": False},
    {"temperature": 0.5, "top_k": 3},
    {"logprobs": [-9.0, -9.0, -9.0]},
    {"logprobs": [float("nan")]},
    {"logprobs": [0.5]},
    {"tokens": [7], "logprobs": [-1.0]},
    {"tokens": [1, 2, 3, 4, 5], "logprobs": [-1.0] * 5},
    {"prompt_tokens": [5]},
    {"prompt_tokens": [-1, -1, -1]},
]


def change_record(draw: Draw, sequences: list[Json]) -> None:
    at = draw(st.integers(0, len(sequences) - 1))
    changed = {**sequences[at], **draw(st.sampled_from(RECORD_CHANGES))}
    how = draw(st.sampled_from(["change", "change", "repeat", "drop"]))
    if how == "repeat":
        sequences.append(changed)
    elif how == "change":
        sequences[at] = changed
    elif len(sequences) > 1:
        del sequences[at]


@st.composite
def datasets(draw: Draw, max_datums: int = 4, max_damages: int = 4) -> Dataset:
    loss = draw(st.sampled_from(LOSSES))
    datums, sequences = [], []
    for number in range(draw(st.integers(1, max_datums))):
        datum, records = conversation(draw, str(number), loss)
        datums.append(datum)
        sequences += records
    if draw(st.integers(0, 5)) == 0:
        datums.append(copy.deepcopy(draw(st.sampled_from(datums))))
    for _ in range(draw(st.integers(0, max_damages))):
        draw(st.sampled_from(DAMAGES))(draw, draw(st.sampled_from(datums)))
    for _ in range(draw(st.integers(0, 2))):
        change_record(draw, sequences)
    return Dataset(json.loads(json.dumps(datums)), sequences, loss)


# Comparison

Summary = tuple[list[Any], dict[str, Any], dict[str, int], int, int, int, Any]


def summary(report: provenance.Report) -> Summary:
    return (
        found(report),
        {code: count.to_dict() for code, count in sorted(report.counts.items())},
        {code: judged for code, judged in sorted(report.checked.items()) if judged},
        report.datums,
        report.positions,
        report.bad_datums,
        report.not_checked,
    )


def local(violations: Iterable[tuple[Any, ...]], by: int = 0) -> list[tuple[Any, ...]]:
    """The violations of rules about single datums, with rows moved by some."""
    return sorted(((v[0], v[1], v[2] + by, *v[3:]) for v in violations if v[0] not in GLOBAL), key=repr)


def judged(*reports: provenance.Report) -> dict[str, int]:
    """Elements judged by rules about single datums."""
    total = Counter[str]()
    for report in reports:
        total.update({code: n for code, n in report.checked.items() if n and code not in GLOBAL})
    return dict(total)


def one_by_one(dataset: Dataset) -> None:
    whole = dataset.report(dataset.datums)
    alone = [dataset.report([datum]) for datum in dataset.datums]
    assert [v for row, report in enumerate(alone) for v in local(found(report), row)] == sorted(
        local(found(whole)), key=lambda v: (v[2], repr(v))
    )
    assert judged(*alone) == judged(whole)
    assert sum(report.bad_datums for report in alone) == whole.bad_datums
    assert sum(report.positions for report in alone) == whole.positions


def sliced(dataset: Dataset, start: int, stop: int) -> None:
    part = dataset.report(dataset.datums[start:stop])
    columns = dataset.report(columns_of(dataset.datums[:]))
    assert summary(columns) == summary(dataset.report(dataset.datums))
    whole = columns_of(dataset.datums)
    if not whole.faults:
        taken = dataset.report(whole.take(np.arange(start, stop)))
        assert local(found(taken), -start) == local(found(part))
        assert judged(taken) == judged(part)
        assert taken.checked == part.checked


def as_models(dataset: Dataset) -> None:
    accepted: list[tuple[Json, provenance.Datum]] = []
    refused: list[tuple[Json, SchemaError]] = []
    for datum in dataset.datums:
        try:
            accepted.append((datum, provenance.Datum.model_validate(datum)))
        except SchemaError as error:
            refused.append((datum, error))
    for datum, refusal in refused:
        assert refusal.code in registry(), refusal
        assert not dataset.report([datum]).valid, refusal
    plain = dataset.report([datum for datum, _ in accepted])
    assert summary(dataset.report([model for _, model in accepted])) == summary(plain)


def as_lines(dataset: Dataset, folder: Path) -> None:
    path = folder / "datums.jsonl"
    path.write_text("".join(json.dumps(datum) + "\n" for datum in dataset.datums), encoding="utf-8")
    expected = summary(dataset.report(dataset.datums))
    assert summary(dataset.report(path)) == expected
    # Batches of a datum each: also what is found once a dataset is found once.
    assert summary(dataset.report(read_datums(path, batch_positions=1))) == expected
    provenance.write_datums(dataset.datums, path)
    assert summary(dataset.report(path)) == expected


def held(dataset: Dataset, path: Path) -> Dataset:
    """The datums that an Arrow file can hold together, written to it."""
    datums = list(dataset.datums)
    while datums:
        try:
            provenance.write_datums(datums, path)
            break
        except SchemaError as error:
            del datums[int(str(error).removeprefix("row ").partition(":")[0])]
    return dataset._replace(datums=datums)


def as_arrow(dataset: Dataset, folder: Path, start: int, stop: int) -> None:
    path = folder / "datums.parquet"
    dataset = held(dataset, path)
    if not dataset.datums:
        return
    # A file holds every element of a sparse tensor, so more of them are judged than in JSON.
    sparse = "sparse_crow_indices" in json.dumps(dataset.datums)

    def verdict(data: Any) -> tuple[Any, ...]:
        whole = summary(dataset.report(data))
        return (*whole[:2], *whole[3:]) if sparse else whole

    expected = verdict(dataset.datums)
    assert verdict(path) == expected
    table = pq.read_table(path)
    assert verdict(table) == expected
    assert verdict(table.combine_chunks().to_batches(max_chunksize=1)) == expected
    start, stop = min(start, len(dataset.datums) - 1), min(stop, len(dataset.datums))
    part = verdict(dataset.datums[start:stop])
    assert verdict(table.slice(start, stop - start)) == part
    again = pa.concat_tables([table, table]).slice(len(dataset.datums) + start, stop - start)
    assert verdict(again) == part
    provenance.write_datums(dataset.datums, folder / "datums.arrow")
    assert verdict(folder / "datums.arrow") == expected


def everything(dataset: Dataset, bounds: tuple[int, int], folder: Path) -> None:
    start = min(bounds[0], len(dataset.datums) - 1)
    stop = min(start + bounds[1], len(dataset.datums))
    one_by_one(dataset)
    sliced(dataset, start, stop)
    as_models(dataset)
    as_lines(dataset, folder)
    as_arrow(dataset, folder, start, stop)


BOUNDS = st.tuples(st.integers(0, 3), st.integers(1, 3))
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=600)


@QUICK
@given(datasets(max_damages=0))
def test_generated_datums_are_valid_before_they_are_broken(dataset: Dataset) -> None:
    # But for what is done to records and parameters that are stricter than real ones.
    report = dataset._replace(sequences=[]).report(dataset.datums)
    assert (
        report.codes()
        - {"SEQ001", "SEQ013", "SEQ010", "ADV003", "ADV004", "ADV005", "VAL003", "INP008", "INP009", "CFG002"}
        == set()
    )


@QUICK
@given(datasets())
def test_datums_are_judged_alone_as_among_others(dataset: Dataset) -> None:
    one_by_one(dataset)


@QUICK
@given(datasets(), BOUNDS)
def test_a_slice_is_judged_as_a_dataset_of_its_own(dataset: Dataset, bounds: tuple[int, int]) -> None:
    start = min(bounds[0], len(dataset.datums) - 1)
    sliced(dataset, start, min(start + bounds[1], len(dataset.datums)))


@QUICK
@given(datasets())
def test_models_are_judged_as_dicts(dataset: Dataset) -> None:
    as_models(dataset)


@QUICK
@given(dataset=datasets())
def test_lines_are_judged_as_dicts(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> None:
    as_lines(dataset, tmp_path_factory.getbasetemp())


@QUICK
@given(dataset=datasets(), bounds=BOUNDS)
def test_arrow_is_judged_as_dicts(
    dataset: Dataset, bounds: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    start = min(bounds[0], len(dataset.datums) - 1)
    as_arrow(dataset, tmp_path_factory.getbasetemp(), start, start + bounds[1])


@pytest.mark.slow
@LONG
@given(dataset=datasets(max_datums=6, max_damages=8), bounds=BOUNDS)
def test_everything_agrees(
    dataset: Dataset, bounds: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    everything(dataset, bounds, tmp_path_factory.getbasetemp())
