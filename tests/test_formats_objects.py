"""Python objects as columns: what is kept as it is, what is a note, and what cannot be read."""

from __future__ import annotations

import copy
import math
from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from _columns import assert_same_columns

from provenance import models
from provenance.columns import (
    DMEL,
    FLOAT32,
    IMAGE,
    IMAGE_POINTER,
    INT64,
    NO_SEQUENCE,
    OTHER_DTYPE,
    OTHER_KIND,
    PROMPT,
    SAMPLED,
    TEXT,
    UNKNOWN_LENGTH,
)
from provenance.formats import columns_of, table_of
from provenance.sequences import ABSENT

TOKENS = [11, 12, 13, 21, 22]


def datum(**changes):
    plain = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": list(TOKENS)}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": [12, 13, 21, 22, 2], "dtype": "int64", "shape": [5]},
            "logprobs": {"data": [0.0, -0.0, -0.125, -0.375, -0.625], "dtype": "float32"},
        },
        "model_input_spans": [
            {"type": "prompt", "sequence_id": "a", "length": 3},
            {"type": "sampled", "sequence_id": "a", "offset": 0, "length": 2},
        ],
        "loss_fn_input_spans": [
            {"type": "prompt", "sequence_id": "a", "offset": 1, "length": 2},
            {"type": "sampled", "sequence_id": "b", "offset": 0, "length": 3},
        ],
    }
    return {**copy.deepcopy(plain), **changes}


def with_chunks(*chunks):
    return datum(model_input={"chunks": list(chunks)})


def with_tensor(name="logprobs", **tensor):
    return datum(loss_fn_inputs={name: {"dtype": "float32", **tensor}})


def with_span(**span):
    return datum(loss_fn_input_spans=[span])


def fault_of(broken):
    columns = columns_of([datum(), broken, datum()])
    assert columns.readable.tolist() == [True, False, True]
    assert len(columns.faults) >= 1
    assert {(f.row, f.line) for f in columns.faults} == {(1, None)}
    return columns.faults[0]


def test_a_plain_datum():
    columns = columns_of([datum(), datum(model_input_spans=None, loss_fn_input_spans=[])])
    assert columns.offsets.tolist() == [0, 5, 10]
    assert columns.tokens.tolist() == TOKENS * 2
    assert columns.text is None
    assert columns.null_tokens is None
    assert columns.chunks.offsets.tolist() == [0, 1, 2]
    assert columns.chunks.kind.tolist() == [TEXT, TEXT]
    assert columns.chunks.length.tolist() == [5, 5]
    targets, logprobs = columns.inputs["target_tokens"], columns.inputs["logprobs"]
    assert targets.values.dtype == np.int64
    assert targets.values.tolist() == [12, 13, 21, 22, 2] * 2
    assert targets.declared.tolist() == [INT64, INT64]
    assert logprobs.values.dtype == np.float32
    assert np.signbit(logprobs.values[:2]).tolist() == [False, True]
    assert logprobs.declared.tolist() == [FLOAT32, FLOAT32]
    assert (logprobs.rank.tolist(), logprobs.rows.tolist(), logprobs.width.tolist()) == (
        [1, 1],
        [5, 5],
        [1, 1],
    )
    assert logprobs.sound.all()
    assert columns.ids == ("a", "b")
    assert columns.input_spans.present.tolist() == [True, False]
    assert columns.target_spans.present.tolist() == [True, True]
    assert columns.target_spans.offsets.tolist() == [0, 2, 2]
    assert columns.target_spans.kind.tolist() == [PROMPT, SAMPLED]
    assert columns.target_spans.sequence.tolist() == [0, 1]
    assert columns.target_spans.start.tolist() == [1, 0]
    assert columns.target_spans.length.tolist() == [2, 3]
    assert (columns.file, columns.line, columns.row.tolist()) == (None, None, [0, 1])
    assert columns.faults == ()


def test_no_datums():
    columns = columns_of([])
    assert (len(columns), columns.positions, columns.inputs) == (0, 0, {})


@pytest.mark.parametrize(
    ("broken", "field", "words"),
    [
        (None, "", "null is not a datum"),
        ([], "", "[] is not a datum"),
        ({}, "model_input", "missing"),
        (datum(model_input=None), "model_input", "null"),
        (datum(model_input=[]), "model_input", "[] is not an object"),
        (datum(model_input={}), "model_input.chunks", "missing"),
        (datum(model_input={"chunks": None}), "model_input.chunks", "null"),
        (datum(model_input={"chunks": {}}), "model_input.chunks", "not a list"),
        (datum(model_input={"chunks": [], "length": 0}), "model_input", "unknown field 'length'"),
        (datum(loss_fn_inputs=None), "loss_fn_inputs", "null"),
        (datum(loss_fn_inputs=[1]), "loss_fn_inputs", "not an object"),
        (datum(loss_fn_inputs={1: {}}), "loss_fn_inputs", "1 is not the name"),
        (datum(loss_fn_inputs={"": {}}), "loss_fn_inputs", "'' is not the name"),
        (datum(loss_fn_input=[]), "", "unknown field 'loss_fn_input', did you mean 'loss_fn_inputs'"),
        (datum(note="x"), "", "unknown field 'note'"),
        (datum(datum_id=1), "datum_id", "1 is not a string"),
        (datum(group_id=1.5), "group_id", "1.5 is neither"),
        (datum(group_id=True), "group_id", "True is neither"),
        (with_chunks(None), "model_input.chunks[0]", "null is not an object"),
        (with_chunks({"tokens": [1]}), "model_input.chunks[0].type", "missing"),
        (with_chunks({"type": "audio"}), "model_input.chunks[0].type", "'audio' is not a type of chunk"),
        (with_chunks({"type": ["dmel"]}), "model_input.chunks[0].type", "is not a type of chunk"),
        (with_chunks({"type": "encoded_text"}), "model_input.chunks[0].tokens", "missing"),
        (with_chunks({"type": "encoded_text", "tokens": None}), "model_input.chunks[0].tokens", "null"),
        (
            with_chunks({"type": "encoded_text", "tokens": "12"}),
            "model_input.chunks[0].tokens",
            "'12' is not a list",
        ),
        (
            with_chunks({"type": "encoded_text", "tokens": [1, 1.5]}),
            "model_input.chunks[0].tokens[1]",
            "1.5 is not",
        ),
        (
            with_chunks({"type": "encoded_text", "tokens": [1, True]}),
            "model_input.chunks[0].tokens[1]",
            "True is not",
        ),
        (
            with_chunks({"type": "encoded_text", "tokens": ["1"]}),
            "model_input.chunks[0].tokens[0]",
            "'1' is not",
        ),
        (with_chunks({"type": "encoded_text", "tokens": [[1]]}), "model_input.chunks[0].tokens", "nested"),
        (
            with_chunks({"type": "encoded_text", "tokens": [math.inf]}),
            "model_input.chunks[0].tokens[0]",
            "inf is not",
        ),
        (
            with_chunks({"type": "encoded_text", "tokens": [None, math.nan]}),
            "model_input.chunks[0].tokens[1]",
            "nan",
        ),
        (
            with_chunks({"type": "encoded_text", "tokens": [], "x": 1}),
            "model_input.chunks[0]",
            "unknown field 'x'",
        ),
        (
            with_chunks({"type": "image", "data": "!", "format": "png"}),
            "model_input.chunks[0].data",
            "not base64",
        ),
        (
            with_chunks({"type": "image", "data": 3, "format": "png"}),
            "model_input.chunks[0].data",
            "3 is not base64",
        ),
        (with_chunks({"type": "image", "format": "png"}), "model_input.chunks[0].data", "missing"),
        (
            with_chunks({"type": "image", "data": "", "format": "gif"}),
            "model_input.chunks[0].format",
            "'gif' is",
        ),
        (
            with_chunks({"type": "image", "data": "", "format": "png", "expected_tokens": -1}),
            "model_input.chunks[0].expected_tokens",
            "-1 is not an integer in",
        ),
        (
            with_chunks({"type": "image", "data": "", "format": "png", "expected_tokens": 2.0}),
            "model_input.chunks[0].expected_tokens",
            "2.0 is not an integer in",
        ),
        (
            with_chunks({"type": "image", "data": "", "format": "png", "expected_tokens": 2**31 - 1}),
            "model_input.chunks[0]",
            "2147483647 positions without tokens",
        ),
        (
            with_chunks({"type": "image_asset_pointer", "location": 1, "format": "png"}),
            "model_input.chunks[0].location",
            "1 is not a string",
        ),
        (with_chunks({"type": "dmel", "dmel": "CQ=="}), "model_input.chunks[0].dmel", "no tensor header"),
        (
            with_chunks({"type": "dmel", "dmel": "AAH////////3fw=="}),
            "model_input.chunks[0]",
            "positions without",
        ),
        (datum(loss_fn_inputs={"logprobs": [0.5]}), "loss_fn_inputs.logprobs", "is not an object"),
        (with_tensor(), "loss_fn_inputs.logprobs.data", "missing"),
        (with_tensor(data=0.5), "loss_fn_inputs.logprobs.data", "0.5 is not a list of numbers"),
        (with_tensor(data={}), "loss_fn_inputs.logprobs.data", "{} is not a list of numbers"),
        (with_tensor(data=np.array([True])), "loss_fn_inputs.logprobs.data", "an array of bool"),
        (with_tensor(data=np.array(["a"])), "loss_fn_inputs.logprobs.data", "an array of <U1"),
        (with_tensor(data=torch.tensor([True])), "loss_fn_inputs.logprobs.data", "an array of bool"),
        (with_tensor(data=[0.5, "x"]), "loss_fn_inputs.logprobs.data[1]", "'x' is not a number"),
        (with_tensor(data=[0.5, False]), "loss_fn_inputs.logprobs.data[1]", "False is not a number"),
        (with_tensor(data=[[0.5, 0], [1, {}]]), "loss_fn_inputs.logprobs.data[1, 1]", "{} is not a number"),
        (with_tensor(data=[], dtype=None), "loss_fn_inputs.logprobs.dtype", "null"),
        (with_tensor(data=[], dtype=5), "loss_fn_inputs.logprobs.dtype", "5 is not a string"),
        (with_tensor(data=[], shape=5), "loss_fn_inputs.logprobs.shape", "5 is not a list of integers"),
        (with_tensor(data=[], shape=[0.0]), "loss_fn_inputs.logprobs.shape[0]", "0.0 is not an integer"),
        (with_tensor(data=[], shape=[True]), "loss_fn_inputs.logprobs.shape[0]", "True is not an integer"),
        (with_tensor(data=[], stride=[1]), "loss_fn_inputs.logprobs", "unknown field 'stride'"),
        (
            with_tensor(data=[], shape=[0, 1], sparse_crow_indices=[0.5], sparse_col_indices=[]),
            "loss_fn_inputs.logprobs.sparse_crow_indices[0]",
            "0.5 is not an integer",
        ),
        (
            with_tensor(data=[], shape=[0, 1], sparse_crow_indices=[0], sparse_col_indices=[None]),
            "loss_fn_inputs.logprobs.sparse_col_indices[0]",
            "null is not an integer",
        ),
        (datum(model_input_spans={}), "model_input_spans", "{} is not a list"),
        (datum(model_input_spans=["prompt"]), "model_input_spans[0]", "'prompt' is not an object"),
        (
            with_span(type="prompt", sequence_id="a", start=0, length=1),
            "loss_fn_input_spans[0]",
            "unknown field",
        ),
    ],
)
def test_what_cannot_be_read(broken, field, words):
    fault = fault_of(broken)
    assert (fault.code, fault.field) == ("FMT004", field)
    assert words in fault.message


def test_an_unreadable_datum_is_empty_and_its_faults_are_few():
    broken = datum(loss_fn_inputs={f"x{i}": {} for i in range(100)}, model_input_spans=5)
    columns = columns_of([broken])
    assert 1 < len(columns.faults) <= 5
    assert columns.positions == 0
    assert columns.inputs == {}
    assert columns.chunks.offsets.tolist() == [0, 0]
    assert not columns.input_spans.present.any()


def test_null_is_absent():
    columns = columns_of(
        [
            datum(
                loss_fn_inputs={
                    "logprobs": None,
                    "advantages": {"data": None, "dtype": "float32"},
                    "weights": {
                        "data": [1.0],
                        "dtype": "float32",
                        "shape": None,
                        "sparse_crow_indices": None,
                        "sparse_col_indices": None,
                    },
                },
                model_input_spans=None,
                datum_id=None,
                group_id=None,
                metadata=None,
            ),
            datum(datum_id="d", group_id=np.int64(3), metadata={"any": [1, {"thing": None}]}),
        ]
    )
    assert columns.readable.all()
    assert columns.inputs["logprobs"].present.tolist() == [False, True]
    assert "advantages" not in columns.inputs
    assert columns.inputs["weights"].present.tolist() == [True, False]
    assert columns.inputs["weights"].offsets.tolist() == [0, 1, 1]


def test_chunks_of_all_kinds():
    # dtype 0, rank 2, dimensions 3 and 1
    audio = bytes([0, 2, 3, 1])
    chunks = [
        {"type": "encoded_text", "tokens": [7, None, 8.0]},
        {"type": "image", "data": b"\x89PNG", "format": "png", "expected_tokens": 2},
        {"type": "image_asset_pointer", "location": "a.png", "format": "jpeg"},
        {"type": "dmel", "dmel": audio},
        {"type": "encoded_text", "tokens": []},
        {"type": "encoded_text", "tokens": [2**31, -(2**70), 10**400]},
    ]
    columns = columns_of([datum(), with_chunks(*chunks)])
    assert columns.readable.all()
    assert columns.chunks.kind[1:].tolist() == [TEXT, IMAGE, IMAGE_POINTER, DMEL, TEXT, TEXT]
    assert columns.chunks.length[1:].tolist() == [3, 2, UNKNOWN_LENGTH, 3, 0, 3]
    tokens = columns.tokens[5:].tolist()
    assert tokens == [7, -1, 8, -1, -1, -1, -1, -1, 2**31, -(2**63), 2**63 - 1]
    assert columns.text[5:].tolist() == [True] * 3 + [False] * 5 + [True] * 3
    assert columns.text[:5].all()
    assert np.flatnonzero(columns.null_tokens).tolist() == [6]


@pytest.mark.parametrize(
    ("tensor", "rank", "rows", "width", "sound"),
    [
        ({"data": [1, 2, 3]}, 1, 3, 1, True),
        ({"data": []}, 1, 0, 1, True),
        ({"data": [1, 2, 3, 4], "shape": [2, 2]}, 2, 2, 2, True),
        ({"data": [1, 2, 3, 4], "shape": [1, 2, 2]}, 3, 1, 4, True),
        ({"data": [1, 2, 3], "shape": [4]}, 1, 4, 1, False),
        ({"data": [1], "shape": []}, 0, 0, 1, True),
        ({"data": [], "shape": []}, 0, 0, 1, False),
        ({"data": [], "shape": [0, 9]}, 2, 0, 9, True),
        ({"data": [], "shape": [9, 0]}, 2, 9, 0, True),
        ({"data": [1], "shape": [-1]}, 1, -1, 1, False),
        ({"data": [1], "shape": [-1, -1]}, 2, -1, -1, False),
        ({"data": [1], "shape": [2**62, 2**62, 2**62]}, 3, 2**62, 2**63 - 1, False),
        ({"data": [1], "shape": [10**400]}, 1, 2**63 - 1, 1, False),
        ({"data": [[1, 2], [3, 4]]}, 2, 2, 2, True),
        ({"data": [[[1], [2]]]}, 3, 1, 2, True),
        ({"data": [[1, 2], [3, 4]], "shape": [2, 2]}, 2, 2, 2, True),
        ({"data": [[1, 2], [3, 4]], "shape": [4]}, 1, 4, 1, False),
        ({"data": [[], []]}, 2, 2, 0, True),
        ({"data": [[1, 2], [3]]}, 2, 0, 1, False),
        ({"data": [[1, 2], 3]}, 2, 0, 1, False),
        ({"data": [1, [2]]}, 2, 0, 1, False),
        ({"data": np.zeros((2, 3))}, 2, 2, 3, True),
        ({"data": np.array(1.0)}, 0, 0, 1, True),
        ({"data": [np.zeros(2), np.ones(2)]}, 2, 2, 2, True),
    ],
)
def test_shapes(tensor, rank, rows, width, sound):
    found = columns_of([with_tensor(**tensor)]).inputs["logprobs"]
    assert (found.rank[0], found.rows[0], found.width[0], found.sound[0]) == (rank, rows, width, sound)


def test_nulls_and_values_that_are_no_finite_float32():
    data = [None, math.nan, math.inf, -math.inf, 1e39, -1e400, 10**400, 0.1, 7]
    found = columns_of([datum(), with_tensor(data=data)]).inputs["logprobs"]
    assert found.valid[:5].all()
    assert found.valid[5:].tolist() == [False] + [True] * 8
    expected = [0, math.nan, math.inf, -math.inf, math.inf, -math.inf, math.inf, np.float32(0.1), 7]
    np.testing.assert_array_equal(found.values[5:], np.array(expected, np.float32))
    assert found.notes == {}


@pytest.mark.parametrize(
    ("name", "data", "dtype", "values", "note"),
    [
        ("target_tokens", [2**53 + 1, -(2**63), 2**63 - 1], "int64", [2**53 + 1, -(2**63), 2**63 - 1], None),
        ("target_tokens", [2.0, -3.0], "int64", [2, -3], None),
        ("target_tokens", [1, 2, 2, 2.5, 3.5], "int64", [1, 2, 2, 2, 3], "data[3] is 2.5"),
        ("target_tokens", [None, 1.5], "int64", [0, 1], "data[1] is 1.5"),
        ("target_tokens", [1, 2**63], "int64", [1, 2**63 - 1], "data[1] is 9223372036854775808"),
        ("target_tokens", [-1e30, 0.5], "int64", [-(2**63), 0], "data[0] is -1e+30"),
        ("target_tokens", [math.nan, math.inf], "int64", [0, 2**63 - 1], "data[0] is nan"),
        ("target_tokens", [1.0], "float32", [1], None),
        ("target_tokens", np.array([1, 2], np.uint8), "int64", [1, 2], None),
        ("target_tokens", np.array([2**64 - 1], np.uint64), "int64", [2**63 - 1], f"data[0] is {2**64 - 1}"),
        ("target_tokens", np.array([1.0, 2.5]), "int64", [1, 2], "data[1] is 2.5"),
        ("advantages", [1, 0, -1.0], "int64", [1, 0, -1], None),
        ("advantages", [1, 0.5], "int64", [1, 0.5], "data[1] is 0.5"),
        ("advantages", [math.nan, math.inf], "int64", [math.nan, math.inf], None),
        ("advantages", [1e30], "int64", [np.float32(1e30)], "data[0] is 1e+30"),
        ("advantages", [0.5], "bfloat16", [0.5], "declared 'bfloat16'"),
        ("target_tokens", [1], "int32", [1], "declared 'int32'"),
    ],
)
def test_dtypes(name, data, dtype, values, note):
    found = columns_of([datum(loss_fn_inputs={}), with_tensor(name, data=data, dtype=dtype)]).inputs[name]
    expected = {"int64": INT64, "float32": FLOAT32}.get(dtype, OTHER_DTYPE)
    assert found.declared[1] == expected
    assert found.values.dtype == (np.int64 if name == "target_tokens" else np.float32)
    np.testing.assert_array_equal(found.values, np.array(values, found.values.dtype))
    assert found.notes == ({} if note is None else {1: note})


@pytest.mark.parametrize(
    "data",
    [
        np.array([0.5, -0.25]),
        np.array([0.5, -0.25], np.float16),
        np.array([[0.5, -0.25]], ">f4")[0, ::1],
        np.array([0.5, 9, -0.25, 9], np.float32)[::2],
        np.array([0.5, -0.25], object),
        (0.5, -0.25),
        torch.tensor([0.5, -0.25], dtype=torch.bfloat16),
        torch.tensor([0.5, -0.25], requires_grad=True),
        [np.float32(0.5), np.float64(-0.25)],
    ],
)
def test_arrays_and_tensors_are_lists(data):
    assert_same_columns(columns_of([with_tensor(data=data)]), columns_of([with_tensor(data=[0.5, -0.25])]))


def test_masked_elements_are_null():
    found = columns_of([with_tensor(data=np.ma.array([1.0, 2.0], mask=[False, True]))]).inputs["logprobs"]
    assert found.valid.tolist() == [True, False]


def csr(**changes):
    tensor = {
        "data": [1, 2, 3],
        "shape": [3, 4],
        "sparse_crow_indices": [0, 2, 2, 3],
        "sparse_col_indices": [0, 3, 1],
    }
    return with_tensor("weights", **{**tensor, **changes})


def test_sparse_tensors_keep_what_is_stored():
    dense = with_tensor("weights", data=[5, 6])
    found = columns_of([dense, csr(), dense]).inputs["weights"]
    assert found.coordinates.tolist() == [0, 1, 0, 3, 9, 0, 1]
    assert found.values.tolist() == [5, 6, 1, 2, 3, 5, 6]
    assert found.offsets.tolist() == [0, 2, 5, 7]
    assert (found.rank[1], found.rows[1], found.width[1], found.sound[1]) == (2, 3, 4, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": None},
        {"shape": [3]},
        {"shape": [3, 3]},
        {"shape": [2, 4]},
        {"shape": [-3, 4]},
        {"shape": [3, 2**62]},
        {"sparse_crow_indices": None},
        {"sparse_col_indices": None},
        {"sparse_crow_indices": [0, 2, 2, 4]},
        {"sparse_crow_indices": [1, 2, 2, 3]},
        {"sparse_crow_indices": [0, 3, 2, 3]},
        {"sparse_crow_indices": [[0, 2, 2, 3]]},
        {"sparse_crow_indices": []},
        {"sparse_col_indices": [0, 3]},
        {"sparse_col_indices": [0, 4, 1]},
        {"sparse_col_indices": [0, -1, 1]},
        {"sparse_col_indices": [3, 0, 1]},
        {"sparse_col_indices": [3, 3, 1]},
        {"sparse_col_indices": [0, 3, 2**70]},
        {"data": [[1, 2, 3]]},
    ],
)
def test_inconsistent_sparse_tensors_are_not_sound(changes):
    columns = columns_of([csr(**changes)])
    assert columns.readable.all()
    assert not columns.inputs["weights"].sound[0]


@pytest.mark.parametrize(
    ("span", "kind", "named", "start", "length", "note"),
    [
        ({"offset": None}, SAMPLED, "a", 0, 1, None),
        ({"offset": -1, "length": -2}, SAMPLED, "a", -1, -2, None),
        ({"sequence_id": ""}, SAMPLED, "", 0, 1, None),
        ({"length": np.int32(3)}, SAMPLED, "a", 0, 3, None),
        ({"type": "sample"}, OTHER_KIND, "a", 0, 1, "type is 'sample'"),
        ({"type": None}, OTHER_KIND, "a", 0, 1, "type is null"),
        ({"type": ["prompt"]}, OTHER_KIND, "a", 0, 1, "type is ['prompt']"),
        ({"sequence_id": None}, SAMPLED, None, 0, 1, "sequence_id is null"),
        ({"sequence_id": 5}, SAMPLED, None, 0, 1, "sequence_id is 5"),
        ({"sequence_id": "\ud800"}, SAMPLED, None, 0, 1, "sequence_id is '\\ud800'"),
        ({"offset": True}, SAMPLED, "a", 0, 1, "offset is True"),
        ({"offset": 2**63}, SAMPLED, "a", 0, 1, "offset is 9223372036854775808"),
        ({"length": 1.5}, SAMPLED, "a", 0, 0, "length is 1.5"),
        ({"length": 2.0}, SAMPLED, "a", 0, 0, "length is 2.0"),
        ({"length": None}, SAMPLED, "a", 0, 0, "length is null"),
        ({"length": "1", "offset": 0.5}, SAMPLED, "a", 0, 0, "offset is 0.5, length is '1'"),
    ],
)
def test_spans_that_make_no_sense_get_a_note(span, *, kind, named, start, length, note):
    columns = columns_of([datum(), with_span(**{"type": "sampled", "sequence_id": "a", "length": 1, **span})])
    assert columns.readable.all()
    spans = columns.target_spans
    assert (spans.kind[2], spans.start[2], spans.length[2]) == (kind, start, length)
    found = None if spans.sequence[2] == NO_SEQUENCE else columns.ids[spans.sequence[2]]
    assert found == named
    assert spans.notes == ({} if note is None else {2: note})


def test_missing_and_null_spans_are_notes():
    columns = columns_of([datum(model_input_spans=[{}, None])])
    assert columns.input_spans.notes == {
        0: "type is missing, sequence_id is missing, length is missing",
        1: "the span is null",
    }
    assert columns.input_spans.present.all()


def test_models_are_their_dicts():
    plain = datum(
        model_input={
            "chunks": [
                {"type": "encoded_text", "tokens": [11, 12]},
                {"type": "image", "data": "iVBORw0KGgo=", "format": "png", "expected_tokens": 2},
                {"type": "image_asset_pointer", "location": "a", "format": "png", "expected_tokens": 0},
                {"type": "dmel", "dmel": "AAEB"},
            ]
        },
        loss_fn_inputs={
            "target_tokens": {"data": [1, 2, 3, 2**53 + 1, 5], "dtype": "int64", "shape": [5]},
            "weights": {
                "data": [0.5, 1.0],
                "dtype": "float32",
                "shape": [5, 3],
                "sparse_crow_indices": [0, 1, 1, 1, 1, 2],
                "sparse_col_indices": [2, 0],
            },
            "advantages": {"data": [[0.1, 0.2]] * 5, "dtype": "float32"},
            "mask": {"data": [0, 1, 2**60 + 1, 0, 0], "dtype": "int64"},
        },
    )
    model = models.Datum.model_validate(plain)
    nested = {**plain, "model_input": model.model_input, "loss_fn_inputs": dict(model.loss_fn_inputs)}
    columns = columns_of([plain])
    assert columns.readable.all()
    assert_same_columns(columns_of([model]), columns)
    assert_same_columns(columns_of([nested]), columns)
    assert_same_columns(columns_of([model.model_dump(mode="json")]), columns)


def test_plain_models_are_their_dicts_however_they_are_grouped():
    text = {"type": "encoded_text", "tokens": [11, 12]}
    two_targets = {"data": [1, 2, 3, 4], "dtype": "int64", "shape": [2, 2]}
    ones = {"data": [1.0, 1.0], "dtype": "float32"}
    plain = [
        datum(),
        with_chunks(
            text, {"type": "encoded_text", "tokens": []}, {"type": "encoded_text", "tokens": [1, 2, 3]}
        ),
        datum(loss_fn_inputs={"weights": ones}, model_input={"chunks": [text]}),
        datum(loss_fn_inputs={"target_tokens": two_targets}, model_input={"chunks": [text]}),
        datum(loss_fn_inputs={"advantages": {"data": [1, 2], "dtype": "int64"}}),
        datum(loss_fn_inputs={"scale": {"data": [0.5], "dtype": "float32", "shape": []}}),
        datum(loss_fn_inputs={}, model_input={"chunks": []}),
        with_chunks({"type": "image", "data": "iVBORw0KGgo=", "format": "png", "expected_tokens": 5}),
    ]
    for item in plain[2:7]:
        del item["model_input_spans"], item["loss_fn_input_spans"]
    built = [models.Datum.model_validate(item) for item in plain]
    groups = [[0, 1], [1], [2], [3], [2, 2], [3, 3, 3], [4], [5], [6], [7], [0, 7, 1], [0, 2, 3], range(8)]
    for group in groups:
        columns = columns_of([plain[i] for i in group])
        assert columns.readable.all()
        assert_same_columns(columns_of([built[i] for i in group]), columns, places=True)


def sequence(**changes):
    plain = {
        "sequence_id": "a",
        "session_id": "s",
        "prompt_tokens": [11, -1, 13],
        "tokens": [21, 22],
        "logprobs": [-0.5, None],
        "sampled_at": "2026-11-29T10:00:00+01:00",
        "record_stability_info": True,
    }
    return {**plain, **changes}


def test_a_table():
    full = sequence(
        sequence_id="b",
        last_used_at=datetime(2026, 11, 29, 9, 0, 0, 5, tzinfo=UTC),
        logprobs=[math.inf, -0.25, 1e39],
        model="m",
        policy_version=7,
        stop_reason="stop",
        temperature=1,
        top_p=0.5,
        top_k=-1,
        seed=2**62,
        record_stability_info=False,
    )
    table, faults = table_of(
        [sequence(last_used_at=None, seed=None), full, sequence(tokens=[], logprobs=None)]
    )
    assert faults == ()
    assert table.sequence_id.tolist() == ["a", "b", "a"]
    assert table.prompt(0).tolist() == [11, -1, 13]
    assert table.tokens(1).tolist() == [21, 22]
    assert table.tokens(2).tolist() == []
    assert table.tokens(1).dtype == np.int32
    np.testing.assert_array_equal(table.sampled_logprobs(0), np.array([-0.5, math.nan], np.float32))
    np.testing.assert_array_equal(
        table.sampled_logprobs(1), np.array([math.inf, -0.25, math.inf], np.float32)
    )
    assert table.logprob_length.tolist() == [2, 3, 0]
    at = int(datetime(2026, 11, 29, 9, tzinfo=UTC).timestamp()) * 10**6
    assert table.sampled_at.tolist() == [at] * 3
    assert table.last_used_at.tolist() == [ABSENT, at + 5, ABSENT]
    assert table.record_stability_info.tolist() == [True, False, True]
    assert table.policy_version.tolist() == [None, "7", None]
    assert (table.model[1], table.stop_reason[1], table.temperature[1], table.top_p[1]) == (
        "m",
        "stop",
        1.0,
        0.5,
    )
    assert np.isnan(table.temperature[[0, 2]]).all()
    assert table.top_k.tolist() == [ABSENT, -1, ABSENT]
    assert table.seed.tolist() == [ABSENT, 2**62, ABSENT]
    assert (table.row.tolist(), table.line.tolist(), table.file.tolist()) == ([0, 1, 2], [0] * 3, [None] * 3)
    assert table.known.all()
    assert not table.ambiguous.any()
    assert not table.conflicting.any()


def test_finer_digits_than_microseconds_are_cut():
    table, _ = table_of([sequence(sampled_at="1970-01-01T00:00:00.1234569Z")])
    assert table.sampled_at.tolist() == [123456]


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (None, ""),
        ("x", ""),
        (sequence(sequence_id=""), "sequence_id"),
        (sequence(session_id=None), "session_id"),
        (sequence(session_id="\ud800"), "session_id"),
        (sequence(prompt_tokens=None), "prompt_tokens"),
        (sequence(prompt_tokens=[1, -2]), "prompt_tokens[1]"),
        (sequence(prompt_tokens=[[1]]), "prompt_tokens"),
        (sequence(tokens=[1, -1]), "tokens[1]"),
        (sequence(tokens=[1, 2**31]), "tokens[1]"),
        (sequence(tokens=[1, None]), "tokens[1]"),
        (sequence(tokens=[1, 1.5]), "tokens[1]"),
        (sequence(tokens=[1, 2**80]), "tokens[1]"),
        (sequence(logprobs=["x"]), "logprobs[0]"),
        (sequence(logprobs=[[0.5]]), "logprobs"),
        (sequence(sampled_at=None), "sampled_at"),
        (sequence(sampled_at=5), "sampled_at"),
        (sequence(sampled_at="2026-11-29T10:00:00"), "sampled_at"),
        (sequence(sampled_at="yesterday"), "sampled_at"),
        (sequence(last_used_at=datetime(2026, 1, 1)), "last_used_at"),  # noqa: DTZ001
        (sequence(record_stability_info=1), "record_stability_info"),
        (sequence(record_stability_info=None), "record_stability_info"),
        (sequence(model=1), "model"),
        (sequence(policy_version=1.0), "policy_version"),
        (sequence(policy_version=True), "policy_version"),
        (sequence(temperature="1"), "temperature"),
        (sequence(temperature=True), "temperature"),
        (sequence(top_p=math.nan), "top_p"),
        (sequence(top_k=1.0), "top_k"),
        (sequence(top_k=2**31), "top_k"),
        (sequence(seed=2**63), "seed"),
        (sequence(prompt=[1]), ""),
    ],
)
def test_sequences_that_cannot_be_read_are_left_out(broken, field):
    table, faults = table_of([sequence(), broken, sequence(sequence_id="c")])
    assert table.row.tolist() == [0, 2]
    assert [(f.code, f.row, f.field) for f in faults] == [("FMT004", 1, field)]


def test_sequence_models_are_their_dicts():
    plain = sequence(
        logprobs=[-0.5, -0.1], policy_version="7", last_used_at="2026-11-29T11:00:00Z", top_p=0.9
    )
    (a, _), (b, _) = table_of([models.SampledSequence.model_validate(plain)]), table_of([plain])
    assert a.same_content(0, b, 0)
    assert a.last_used_at.tolist() == b.last_used_at.tolist()
