"""Model inputs and spans in Arrow, and what makes a datum unreadable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from _arrow import CHUNK, SPAN, datums, span, table
from _columns import assert_same_columns

from provenance.columns import DMEL, IMAGE, NO_SEQUENCE, OTHER_KIND, TEXT, Columns
from provenance.formats import arrow, objects


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint32(), pa.uint64()])
def test_null_tokens(kind: Any) -> None:
    batch = arrow.columns_of_batch(table(model_input_tokens=pa.array([[1, None], [], [3]], pa.list_(kind))))
    assert batch.tokens.tolist() == [1, -1, 3]
    assert batch.null_tokens is not None
    assert batch.null_tokens.tolist() == [False, True, False]
    assert batch.readable.all()


def chunked(*rows: Any, kind: Any = CHUNK) -> Columns:
    data = table(model_input_tokens=None, model_input=pa.array(rows, pa.list_(kind)))
    return arrow.columns_of_batch(data)


TEXT_CHUNK = {"type": "encoded_text", "tokens": [1, 2]}
DMEL_OF_3 = b"\x00\x02\x03\x05"


def test_chunks_of_all_kinds() -> None:
    image = {"type": "image", "data": b"x", "format": "png"}
    batch = chunked(
        [TEXT_CHUNK, {**image, "length": 3}, {"type": "encoded_text", "tokens": [3, None]}],
        [image, {"type": "dmel", "data": DMEL_OF_3}, {"type": "dmel", "data": b"x", "length": 1}],
        [{"type": "image_asset_pointer", "location": "s3://x", "format": "jpeg", "length": 0}],
    )
    assert not batch.faults
    assert batch.offsets.tolist() == [0, 7, 11, 11]
    assert batch.tokens.tolist() == [1, 2, -1, -1, -1, 3, -1, -1, -1, -1, -1]
    assert batch.text is not None
    assert batch.text.tolist() == [True, True, False, False, False, True, True, *[False] * 4]
    assert batch.null_tokens is not None
    assert np.flatnonzero(batch.null_tokens).tolist() == [6]
    assert batch.chunks.length.tolist() == [2, 3, 2, -1, 3, 1, 0]
    assert batch.chunks.kind.tolist()[:4] == [TEXT, IMAGE, TEXT, IMAGE]
    assert batch.chunks.kind.tolist()[4] == DMEL


def test_tokens_hidden_by_other_chunks_do_not_leak() -> None:
    batch = chunked(
        [
            {**TEXT_CHUNK, "length": 2},
            {"type": "image", "data": b"", "format": "png", "length": 1, "tokens": [8, 9]},
        ],
        [TEXT_CHUNK],
        [],
    )
    assert not batch.faults
    assert batch.tokens.tolist() == [1, 2, -1, 1, 2]


IMAGE_CHUNK = {"type": "image", "data": b"x", "format": "png"}


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        (None, "", "null"),
        ([None], ".chunks[0]", "null is not an object"),
        ([TEXT_CHUNK, {"type": None}], ".chunks[1].type", "null"),
        ([{"type": "txet", "tokens": [1]}], ".chunks[0].type", "'txet' is not a type of chunk"),
        ([{"type": "encoded_text"}], ".chunks[0].tokens", "null"),
        ([{**TEXT_CHUNK, "length": 5}], ".chunks[0].length", "5, but there are 2 tokens"),
        ([{**IMAGE_CHUNK, "data": None}], ".chunks[0].data", "null"),
        ([{**IMAGE_CHUNK, "format": None}], ".chunks[0].format", "null"),
        ([{**IMAGE_CHUNK, "format": "gif"}], ".chunks[0].format", "'gif' is neither 'png' nor 'jpeg'"),
        ([{**IMAGE_CHUNK, "length": -1}], ".chunks[0].length", "-1 is not an integer in [0, 2^31)"),
        ([{"type": "image_asset_pointer", "format": "png"}], ".chunks[0].location", "null"),
        ([{"type": "dmel"}], ".chunks[0].data", "null"),
        (
            [{"type": "dmel", "data": b"\xff"}],
            ".chunks[0].data",
            "no tensor header, so the length is unknown",
        ),
        (
            [{**IMAGE_CHUNK, "length": 2**22}, {**IMAGE_CHUNK, "length": 1}],
            ".chunks[1]",
            "1 positions, more than the 4194304 that one datum may have without tokens",
        ),
        ([{"type": "x"}, {"type": "y"}], ".chunks[0].type", "'x' is not a type of chunk"),
    ],
)
def test_unreadable_datums_are_empty(row: Any, field: str, message: str) -> None:
    batch = chunked([TEXT_CHUNK], row, [TEXT_CHUNK])
    assert [(f.code, f.row, f.field, f.message) for f in batch.faults] == [
        ("FMT004", 1, "model_input" + field, message)
    ]
    assert batch.readable.tolist() == [True, False, True]
    assert batch.tokens.tolist() == [1, 2, 1, 2]
    assert batch.chunks.offsets.tolist() == [0, 1, 1, 2]


def test_unreadable_datum_contributes_nothing() -> None:
    batch = arrow.columns_of_batch(
        table(model_input_tokens=pa.array([None, [], [4, 5]], pa.list_(pa.int32())))
    )
    expected = objects.columns_of([{}, *datums()[1:]])
    assert [(f.row, f.field, f.message) for f in batch.faults] == [(0, "model_input_tokens", "null")]
    assert not batch.readable[0]
    assert not batch.inputs["logprobs"].present[0]
    assert batch.inputs["logprobs"].values.tolist() == [-1.0, -2.0]
    assert not batch.input_spans.present[0]
    assert batch.ids == ()
    assert_same_columns(batch.take(np.array([1, 2])), expected.take(np.array([1, 2])))


# Spans


def test_notes_of_spans() -> None:
    rows = [
        [span("prompt", "a", 1), None, span(None, "b", 1)],
        [span("smapled", None, None, None)],
        [span("sampled", "c", None), span("prompt", "", -1, -5)],
    ]
    batch = arrow.columns_of_batch(table(model_input_spans=pa.array(rows, pa.list_(SPAN))))
    expected = objects.columns_of(
        [{**datum, "model_input_spans": row} for datum, row in zip(datums(), rows, strict=True)]
    )
    assert_same_columns(batch, expected)
    spans = batch.input_spans
    assert spans.notes == expected.input_spans.notes
    assert spans.kind[1] == OTHER_KIND
    assert spans.sequence[3] == NO_SEQUENCE


def test_null_structs_hide_values() -> None:
    fields = [pa.array(["prompt", "sampled"]), pa.array(["a", "hidden"]), pa.array([0, 3]), pa.array([3, 9])]
    struct = pa.StructArray.from_arrays(fields, names=list(SPAN.names), mask=pa.array([False, True]))
    batch = arrow.columns_of_batch(
        table(
            loss_fn_input_spans=None,
            model_input_spans=pa.ListArray.from_arrays(pa.array([0, 2, 2, 2]), struct),
        )
    )
    assert batch.ids == ("a",)
    assert batch.input_spans.notes == {1: "the span is null"}
    assert batch.input_spans.length.tolist() == [3, 0]
    assert not batch.target_spans.present.any()


def test_ids_are_those_of_the_slice() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([4, 4, 1], pa.int32()), pa.array(list("abcde")))
    struct = pa.StructArray.from_arrays(
        [pa.array(["prompt"] * 3), words, pa.array([1, 1, 1])], names=["type", "sequence_id", "length"]
    )
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), struct)
    batch = arrow.columns_of_batch(table(model_input_spans=column, loss_fn_input_spans=None).slice(1))
    assert set(batch.ids) == {"b", "e"}
    assert [batch.ids[i] for i in batch.input_spans.sequence] == ["e", "b"]


def test_ids_of_a_sliced_dictionary() -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 1], pa.int8()), pa.array(["_", "one", "b"]).slice(1)
    )
    struct = pa.StructArray.from_arrays(
        [pa.array(["prompt"] * 3), words, pa.array([1, 1, 1])], names=["type", "sequence_id", "length"]
    )
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), struct)
    batch = arrow.columns_of_batch(table(model_input_spans=column, loss_fn_input_spans=None))
    assert [batch.ids[i] for i in batch.input_spans.sequence] == ["b", "one", "b"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("words", [["ä", "x", "日本"], ["", "a" * 300, "b"]])
def test_ids_of_several_bytes(kind: Any, words: list[str]) -> None:
    spans = [[span("prompt", word, 1)] for word in words]
    column = pa.array(
        [[span("prompt", "dropped", 1)], *spans],
        pa.list_(pa.struct([("type", pa.string()), ("sequence_id", kind), ("length", pa.int64())])),
    ).slice(1)
    batch = arrow.columns_of_batch(table(model_input_spans=column, loss_fn_input_spans=None))
    assert batch.ids == tuple(words)
