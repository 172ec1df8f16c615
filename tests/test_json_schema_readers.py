"""What the readers of JSONL take, the schemas take, and what a schema takes is of the right type."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from _paths import check_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance.json_schema import schema
from provenance.rules import DROP, case, registry

Json = dict[str, Any]
DATUM, SEQUENCE = (jsonschema.Draft202012Validator(schema(name)) for name in ("datum", "sequence"))
VALID = case()


def test_null_is_absent() -> None:
    for validator, name, value in (
        (DATUM, "datum", VALID.datums[0]),
        (SEQUENCE, "sequence", VALID.sequences[0]),
    ):
        document = schema(name)
        for field in document["properties"]:
            assert validator.is_valid({**value, field: None}) == (field not in document["required"]), field
    span = VALID.datums[0]["model_input_spans"][0]
    assert DATUM.is_valid({**VALID.datums[0], "model_input_spans": [{**span, "offset": None}]})


BASES = [
    good
    for rule in registry().values()
    for good in rule.good
    if good.lines is None and good.loss == "stable_reinforce" and check_case(good).valid
]
#: Left out is what no schema can say: 2.0 is an integer to a schema, a February 30 a time, any base64 audio.
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        "",
        "x",
        "AA==",
        "prompt",
        "NaN",
        "2026-01-02T10:00:00+01:00",
        "2026-01-02 10:00:00",
    ),
    *(0, 1, -1, 1.5, -0.25, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 0.1, 1e300),
    *([], [1], [0.5, 1], [None], ["1"], [[1, 2], [3, 4]], [[1], [2, 3]], [[]], [{}], [[[1]]]),
    *({}, {"type": "prompt"}, {"type": "sampled", "sequence_id": "s:1", "length": 0}, {"a": None}),
]
KEYS = (
    "type",
    "offset",
    "data",
    "note",
    "datum_id",
    "group_id",
    "metadata",
    "seed",
    "policy_version",
    "shape",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything inside of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@st.composite
def changed(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """A datum and its sequences, of a valid example, with one or two things replaced, dropped or added."""
    base = draw(st.sampled_from(BASES))
    dataset = json.loads(json.dumps([base.datums[0], base.sequences]))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(places(dataset))[1:]))
        target = dataset
        for key in path[:-1]:
            target = target[key]
        last, value = path[-1], copy.deepcopy(draw(st.sampled_from(VALUES)))
        match draw(st.sampled_from(["replace", "replace", "drop", "add"])):
            case "replace" if len(path) > 1:
                target[last] = value
            case "drop" if len(path) > 1:
                del target[last]
            case "add" if isinstance(target[last], dict):
                target[last][draw(st.sampled_from(KEYS))] = value
            case "add" if isinstance(target[last], list):
                target[last].append(value)
    return dataset[0], dataset[1]


def hold_schema_to_reader(datum: Json, sequences: list[Json], folder: Path) -> None:
    data, ledger = folder / "datums.jsonl", folder / "sequences.jsonl"
    data.write_text(json.dumps(datum) + "\n")
    ledger.write_text("".join(json.dumps(sequence) + "\n" for sequence in sequences))
    report = provenance.check(data, ledger=ledger, session="session-1", now="2026-01-02T12:00:00Z")
    taken = DATUM.is_valid(datum) and all(map(SEQUENCE.is_valid, sequences))
    if not taken:
        assert not report.valid, "the schema refuses what the reader takes and no rule finds"
    elif "FMT004" in report.counts:
        (found,) = (v for v in report if v.code == "FMT004")
        assert "tensor header" in found.message, f"the schema takes what is of the wrong type: {found}"


#: Where in [datum, sequences], what stands there, and whether the schema takes it.
PLACED: list[tuple[str, Any, bool]] = [
    ("0.model_input.chunks.0.tokens.0", 2**31 - 1, True),
    ("0.model_input.chunks.0.tokens.0", 2**31, False),
    ("0.model_input.chunks.0.tokens.0", -1, False),
    ("0.model_input.chunks.0.type", "text", False),
    ("0.model_input.chunks.0.text", "a", False),
    ("0.loss_fn_inputs", DROP, False),
    ("0.loss_fn_inputs", None, False),
    ("0.loss_fn_inputs.weights", None, True),
    ("0.loss_fn_inputs.", {"data": [], "dtype": "float32"}, False),
    ("0.loss_fn_inputs.logprobs.data.1", None, False),
    ("0.loss_fn_inputs.logprobs.data.1", "NaN", False),
    ("0.loss_fn_inputs.logprobs.data", [[0.0], [0.0], [-0.1], [-0.1], [-0.1]], True),
    ("0.loss_fn_inputs.logprobs.data", [[[0.0]]], False),
    ("0.loss_fn_inputs.logprobs.dtype", "float64", False),
    ("0.loss_fn_inputs.logprobs.shape", None, True),
    ("0.loss_fn_inputs.logprobs.shape.0", -1, False),
    ("0.model_input_spans.0.offset", DROP, True),
    ("0.model_input_spans.0.length", DROP, False),
    ("0.model_input_spans.0.length", 2**63, False),
    ("0.model_input_spans.0.sequence_id", "", False),
    ("0.model_input_spans", [None], False),
    ("0.metadata", [1, {"a": None}], True),
    ("0.datum_id", 7, False),
    ("0.group_id", 7, True),
    ("1.0.prompt_tokens.0", -1, True),
    ("1.0.prompt_tokens.0", -2, False),
    ("1.0.logprobs", None, False),
    ("1.0.sampled_at", "2026-01-02T10:00:00", False),
    ("1.0.sampled_at", "2026-01-02t10:00:00.125-05:30", True),
    ("1.0.record_stability_info", 1, False),
    ("1.0.policy_version", 3, True),
    ("1.0.policy_version", True, False),
    ("1.0.top_k", 2**31, False),
    ("1.0.top_k", -(2**31), True),
    ("1.0.seed", 2**63, False),
    ("1.0.seed", -(2**63), True),
    ("1.0.temperature", 1e300, False),
    ("1.0.temperature", 0, True),
]


@pytest.mark.parametrize(("path", "value", "taken"), PLACED)
def test_what_the_schema_takes(path: str, value: Any, taken: bool, tmp_path: Path) -> None:
    dataset = json.loads(json.dumps([VALID.datums[0], VALID.sequences]))
    *parents, last = path.split(".")
    target: Any = dataset
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    key: Any = int(last) if isinstance(target, list) else last
    if value is DROP:
        del target[key]
    else:
        target[key] = value
    datum, sequences = dataset
    assert (DATUM.is_valid(datum) and all(map(SEQUENCE.is_valid, sequences))) == taken
    hold_schema_to_reader(datum, sequences, tmp_path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed())
def test_schema_and_reader_agree(tmp_path: Path, dataset: tuple[Json, list[Json]]) -> None:
    hold_schema_to_reader(*dataset, tmp_path)


@pytest.mark.slow
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(changed())
def test_schema_and_reader_agree_at_length(tmp_path: Path, dataset: tuple[Json, list[Json]]) -> None:
    hold_schema_to_reader(*dataset, tmp_path)
