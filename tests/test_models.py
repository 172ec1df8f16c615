"""Datum, spans and what all models share: refusals, immutability, equality, JSON."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from provenance import models
from provenance.errors import (
    MissingDependencyError,
    ProvenanceError,
    ReadError,
    SchemaError,
    ValidationError,
)
from provenance.models import (
    Datum,
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
    PromptProvenanceSpan,
    SampledProvenanceSpan,
    SampledSequence,
    TensorData,
)

PROMPT = PromptProvenanceSpan(sequence_id="a", length=2)
INPUT_SPANS = [PROMPT, SampledProvenanceSpan(sequence_id="a", length=1)]
TARGET_SPANS = [
    PromptProvenanceSpan(sequence_id="a", offset=1, length=1),
    SampledProvenanceSpan(sequence_id="a", length=2),
]
INPUTS = {"target_tokens": [12, 21, 2], "logprobs": [0.0, -0.5, -0.25], "advantages": [0, 1, 1.5]}
SEQUENCE = SampledSequence(
    sequence_id="a",
    session_id="s",
    prompt_tokens=[11, -1],
    tokens=[21, 2],
    logprobs=[-0.5, -0.25],
    sampled_at="2026-11-29T10:00:00Z",
    record_stability_info=True,
)


def plain(**changes: object) -> Datum:
    return Datum(**{"model_input": ModelInput.from_ints([11, 12, 21]), "loss_fn_inputs": INPUTS} | changes)


def traced() -> Datum:
    return plain().with_provenance(model_input=INPUT_SPANS, loss_fn_inputs=TARGET_SPANS)


EVERY_MODEL = [
    traced(),
    plain(),
    plain(loss_fn_inputs={}),
    SEQUENCE,
    ModelInput.empty(),
    PROMPT,
    EncodedTextChunk(tokens=[]),
    ImageChunk(data=b"\x89PNG", format="png", expected_tokens=3),
    ImageAssetPointerChunk(location="s3://x", format="jpeg"),
    DmelChunk(dmel=b"\x00\x02\x05\x03"),
    TensorData(data=[[1, 2], [3, 4]], dtype="int64"),
    TensorData(
        data=[5.0], dtype="float32", shape=[2, 3], sparse_crow_indices=[0, 0, 1], sparse_col_indices=[2]
    ),
]


def test_json_has_the_shape_of_the_contract() -> None:
    assert traced().model_dump(mode="json") == {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [11, 12, 21]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [12, 21, 2], "dtype": "int64", "shape": [3]},
            "logprobs": {"data": [0.0, -0.5, -0.25], "dtype": "float32", "shape": [3]},
            "advantages": {"data": [0.0, 1.0, 1.5], "dtype": "float32", "shape": [3]},
        },
        "model_input_spans": [
            {"type": "prompt", "sequence_id": "a", "offset": 0, "length": 2},
            {"type": "sampled", "sequence_id": "a", "offset": 0, "length": 1},
        ],
        "loss_fn_input_spans": [
            {"type": "prompt", "sequence_id": "a", "offset": 1, "length": 1},
            {"type": "sampled", "sequence_id": "a", "offset": 0, "length": 2},
        ],
    }
    assert json.loads(traced().model_dump_json()) == traced().model_dump(mode="json")
    assert set(plain().model_dump(mode="json")) == {"model_input", "loss_fn_inputs"}


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda m: type(m).__name__)
def test_dumps_load_as_equals(model: pydantic.BaseModel) -> None:
    kind = type(model)
    assert kind.model_validate_json(model.model_dump_json()) == model
    assert kind.model_validate(model.model_dump(mode="json")) == model
    assert kind.model_validate(model.model_dump()) == model
    assert kind.model_validate(model) == model


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda m: type(m).__name__)
def test_copies_and_pickles_are_equal_and_frozen(model: pydantic.BaseModel) -> None:
    loads = [pickle.loads(pickle.dumps(model, protocol)) for protocol in (2, 5)]
    for other in (copy.copy(model), copy.deepcopy(model), model.model_copy(deep=True), *loads):
        assert other == model
        for name, value in dict(other).items():
            with pytest.raises(pydantic.ValidationError, match="frozen"):
                setattr(other, name, value)
            if isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    value.setflags(write=True)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda m: type(m).__name__)
def test_json_follows_the_json_schema(model: pydantic.BaseModel, mode: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = type(model).model_json_schema(mode=mode)
    jsonschema.Draft202012Validator(schema).validate(model.model_dump(mode="json"))


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda m: type(m).__name__)
def test_an_unknown_field_is_named(model: pydantic.BaseModel) -> None:
    with pytest.raises(SchemaError, match=r"^tokenz: unknown field \(FMT004 wrong-type\)$"):
        type(model).model_validate(model.model_dump() | {"tokenz": 1})


def test_loss_inputs_cannot_be_changed() -> None:
    inputs = {"logprobs": [0.0, 0.0, 0.0]}
    datum = plain(loss_fn_inputs=inputs)
    with pytest.raises(TypeError):
        datum.loss_fn_inputs["advantages"] = datum.loss_fn_inputs["logprobs"]  # type: ignore[index]
    inputs["advantages"] = [1.0]
    assert set(datum.loss_fn_inputs) == {"logprobs"}


def test_a_changed_copy_is_checked() -> None:
    changed = traced().model_copy(update={"loss_fn_inputs": {"target_tokens": [1, 2, 3]}})
    assert changed.loss_fn_inputs["target_tokens"].tolist() == [1, 2, 3]
    assert traced().loss_fn_inputs["target_tokens"].tolist() == [12, 21, 2]
    with pytest.raises(SchemaError, match=r"target_tokens: 2 rows for 3 positions .*INP005 length-mismatch"):
        traced().model_copy(update={"loss_fn_inputs": {"target_tokens": [1, 2]}})


def test_spans_hash_by_value() -> None:
    same = PromptProvenanceSpan(sequence_id="a", offset=0, length=2)
    assert {PROMPT, same} == {PROMPT}
    assert SampledProvenanceSpan(sequence_id="a", length=2) != PROMPT


def test_equality_looks_at_values_dtype_and_shape() -> None:
    ones = TensorData(data=[1, 1], dtype="int64")
    assert ones != TensorData(data=[1.0, 1.0], dtype="float32")
    assert ones != TensorData(data=[1, 1], dtype="int64", shape=[2, 1])
    assert ones != TensorData(data=[1, 2], dtype="int64")
    assert ones != [1, 1]
    assert plain() != traced()
    assert plain() != plain(loss_fn_inputs=INPUTS | {"weights": [1, 1, 1]})


def test_repr_is_short_and_names_the_class() -> None:
    size = 2000
    spans = [SampledProvenanceSpan(sequence_id="a", length=1)] * size
    datum = Datum(
        model_input=ModelInput.from_ints(range(size)), loss_fn_inputs={"target_tokens": np.arange(size)}
    ).with_provenance(spans, spans)
    assert repr(datum) == str(datum)
    assert repr(datum).startswith("Datum(model_input=ModelInput(chunks=(EncodedTextChunk(")
    assert "int32[2000] [0, 1, 2, ..., 1999]" in repr(datum)
    assert "... 1997 more)" in repr(datum)
    assert len(repr(datum)) < 1000


def test_a_span_list_of_none_is_absent_and_an_empty_one_is_not() -> None:
    assert plain(model_input_spans=None, loss_fn_input_spans=None) == plain()
    empty = Datum(model_input=ModelInput.empty(), model_input_spans=[], loss_fn_input_spans=[])
    assert empty.model_input_spans == ()
    assert json.loads(empty.model_dump_json())["model_input_spans"] == []


def test_tiling_is_not_judged_where_a_length_is_unknown() -> None:
    image = ImageChunk(data=b"", format="png")
    datum = Datum(model_input=ModelInput(chunks=[image]), model_input_spans=[PROMPT], loss_fn_input_spans=[])
    assert datum.model_input.known_length is None


@pytest.mark.parametrize("scalar", [np.int64(3), np.uint8(3)])
def test_numpy_integers_are_integers(scalar: np.integer) -> None:
    span = PromptProvenanceSpan(sequence_id="a", offset=scalar, length=scalar)
    assert (type(span.offset), span.length) == (int, 3)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            MissingDependencyError("torch", "losses"),
            "torch is not installed: run pip install 'datum-provenance[losses]'",
        ),
        (ReadError("a.parquet", "is no Parquet file"), "a.parquet: is no Parquet file"),
        (SchemaError("x", code="VAL001"), "x"),
        (ValidationError("2 violations", report=[1]), "2 violations"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_survive_pickling(error: ProvenanceError, message: str) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (type(error), message, vars(error))
    assert isinstance(other, ProvenanceError)


def test_all_is_sorted_and_exists() -> None:
    assert models.__all__ == sorted(models.__all__)
    assert all(hasattr(models, name) for name in models.__all__)


@settings(deadline=None)
@given(
    tokens=arrays(np.int32, st.integers(0, 20), elements=st.integers(0, 2**31 - 1)),
    logprobs=arrays(
        np.float32, st.integers(0, 20), elements=st.floats(width=32, allow_nan=False, max_value=0)
    ),
    ids=st.text(min_size=1),
)
def test_random_datums_round_trip(tokens: np.ndarray, logprobs: np.ndarray, ids: str) -> None:
    finite = logprobs[np.isfinite(logprobs)]
    spans = [SampledProvenanceSpan(sequence_id=ids, length=tokens.size)]
    datum = Datum(
        model_input=ModelInput.from_ints(tokens), loss_fn_inputs={"target_tokens": tokens, "logprobs": finite}
    ).with_provenance(spans, spans)
    assert Datum.model_validate_json(datum.model_dump_json()) == datum
    assert pickle.loads(pickle.dumps(datum)) == datum
    assert datum.model_input.to_ints() == tokens.tolist()
    assert np.array_equal(datum.loss_fn_inputs["logprobs"].to_numpy(), finite)
