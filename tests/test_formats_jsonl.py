"""Lines of JSON: the fast reading means what the exact one means, whatever the file looks like."""

from __future__ import annotations

import copy
import gzip
import io
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from _columns import assert_same_columns
from hypothesis import given, settings
from hypothesis import strategies as st

from provenance import models
from provenance.errors import ReadError, WriteError
from provenance.formats import (
    columns_of,
    jsonl,
    read_datums,
    read_sequences,
    table_of,
    write_datums,
    write_sequences,
)
from provenance.formats._io import read_lines
from provenance.formats._json import parse
from provenance.formats._plain import plain_datum, plain_sequence

DATUM = {
    "model_input": {"chunks": [{"type": "encoded_text", "tokens": [11, 12, 13]}]},
    "loss_fn_inputs": {
        "target_tokens": {"data": [12, 13, 2], "dtype": "int64", "shape": [3]},
        "logprobs": {"data": [0.0, -0.125, -0.1], "dtype": "float32"},
    },
    "model_input_spans": [{"type": "prompt", "sequence_id": "s:1", "length": 3}],
    "loss_fn_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 2},
        {"type": "sampled", "sequence_id": "ü", "offset": 0, "length": 1},
    ],
}
SEQUENCE = {
    "sequence_id": "a",
    "session_id": "s",
    "prompt_tokens": [11, -1],
    "tokens": [21, 22],
    "logprobs": [-0.5, -0.25],
    "sampled_at": "2026-11-29T10:00:00.000001Z",
    "record_stability_info": True,
}
LINE = json.dumps(DATUM).encode()
SEQUENCE_LINE = json.dumps(SEQUENCE).encode()


def changed(path, value):
    """A copy of DATUM with one value replaced; a path is dotted."""
    datum = copy.deepcopy(DATUM)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target = datum
    for part in parents:
        target = target[part]
    target[last] = value
    return datum


def written(folder, *lines, name="data.jsonl", end=b"\n"):
    path = folder / name
    path.write_bytes(b"".join(line + end for line in lines))
    return str(path)


def columns_in(path, **options):
    batches = list(jsonl.read_datums(path, **options))
    assert len(batches) == 1
    return batches[0]


def plain(line, read=plain_datum):
    """What the fast path says to a line."""
    (cut,) = _lines(line)
    return read(cut)


def _lines(content, **options):
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as file:
        file.write(content)
    try:
        return list(read_lines(f"/dev/fd/{read_end}", **options))
    finally:
        os.close(read_end)


# Lines


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 64, 1 << 20])
@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        (LINE + b"\n" + LINE + b"\n", [1, 2]),
        (LINE + b"\n" + LINE, [1, 2]),
        (LINE + b"\r\n" + LINE + b"\r\n", [1, 2]),
        (b"\n\n" + LINE + b"\n \t\r\n" + LINE + b"\n\n", [3, 5]),
        (b"\xef\xbb\xbf" + LINE + b"\n" + LINE, [1, 2]),
        (b"\xef\xbb\xbf\n" + LINE + b"\n\n\n" + LINE + b"\n   ", [2, 5]),
        (json.dumps(DATUM, ensure_ascii=False).encode() + b"\n" + LINE, [1, 2]),
        (json.dumps(DATUM, indent=1).encode().replace(b"\n", b"\t") + b"\n" + LINE, [1, 2]),
    ],
)
def test_blank_lines_marks_and_line_ends(tmp_path, content, numbers, block):
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    columns = columns_in(str(path), block=block)
    assert columns.line.tolist() == numbers
    assert columns.row.tolist() == [0, 1]
    assert columns.file == str(path)
    assert_same_columns(columns, columns_of([DATUM, DATUM]))


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_without_lines_has_no_batch(tmp_path, content):
    (tmp_path / "a.jsonl").write_bytes(content)
    assert list(read_datums(tmp_path / "a.jsonl")) == []
    assert list(read_sequences(tmp_path / "a.jsonl")) == []


@pytest.mark.parametrize("block", [1, 4, 1 << 20])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be", "utf-32-be"])
def test_another_encoding_is_one_fault(tmp_path, encoding, block):
    mark = "\ufeff" if encoding.endswith("be") else ""
    (tmp_path / "a.jsonl").write_bytes((mark + LINE.decode() + "\n" + LINE.decode()).encode(encoding))
    columns = columns_in(str(tmp_path / "a.jsonl"), block=block)
    assert columns.readable.tolist() == [False]
    assert [(f.code, f.row, f.line) for f in columns.faults] == [("FMT002", 0, 1)]
    assert "UTF-" in columns.faults[0].message


def test_batches_number_rows_and_lines_through(tmp_path):
    path = written(tmp_path, *[LINE, b"", b"{", LINE] * 3)
    batches = list(read_datums(path, batch_positions=6))
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert [batch.positions for batch in batches] == [6, 6, 6]
    assert np.concatenate([batch.row for batch in batches]).tolist() == list(range(9))
    assert np.concatenate([batch.line for batch in batches]).tolist() == [1, 3, 4, 5, 7, 8, 9, 11, 12]
    assert [(f.row, f.line) for batch in batches for f in batch.faults] == [(1, 3), (1, 7), (1, 11)]


def test_batches_have_at_most_4096_rows_and_no_end_of_values(tmp_path):
    path = written(tmp_path, *[b"{}"] * 5000)
    assert [len(batch) for batch in read_datums(path)] == [4096, 904]
    wide = json.dumps(changed("loss_fn_inputs.logprobs", {"data": [0.5] * 99, "dtype": "float32"})).encode()
    path = written(tmp_path, *[wide] * 4)
    assert [len(batch) for batch in read_datums(path, batch_positions=24)] == [2, 2]


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_long_lines_are_refused(tmp_path, block):
    path = written(tmp_path, LINE, LINE + b" " * 100, LINE)
    assert len(list(jsonl.read_datums(path, max_line=len(LINE) + 100, block=block))) == 1
    with pytest.raises(ReadError, match=rf"data.jsonl: line 2 has more than {len(LINE) + 99} bytes"):
        list(jsonl.read_datums(path, max_line=len(LINE) + 99, block=block))
    with pytest.raises(ReadError, match=r"line 3 has more than"):
        list(jsonl.read_datums(written(tmp_path, b"", b"", LINE, end=b"\n"), max_line=20, block=block))


# What is in a line


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"{", "FMT001", "at column 2"),
        (LINE[:100], "FMT001", "at column"),
        (LINE[:-1], "FMT001", f"at column {len(LINE)}"),
        (LINE + b",", "FMT001", f"a comma after the object, at column {len(LINE) + 1}"),
        (LINE + LINE, "FMT001", "more text after the value"),
        (LINE.replace(b"[11, ", b"[011, "), "FMT001", "expecting ',' delimiter at column"),
        (LINE.replace(b"11", b"'11'"), "FMT001", "expecting value at column"),
        (b"{'a': 1}", "FMT001", "at column 2"),
        (b"[]", "FMT001", "a list, expected an object"),
        (b"null", "FMT001", "null, expected an object"),
        (b"1", "FMT001", "a number, expected an object"),
        (b"NaN", "FMT001", "a number, expected an object"),
        (b'"x"', "FMT001", "a string, expected an object"),
        (b'{"metadata": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "FMT001", "nested too deeply"),
        (LINE.replace(b"s:1", b"s\x011"), "FMT001", "control character at column"),
        (LINE.replace(b"s:1", b"\xff"), "FMT002", "byte 0xff at column"),
        (LINE.replace(b"s:1", b"\xed\xa0\x80"), "FMT002", "byte 0xed at column"),
        (LINE.replace(b"encoded", b"\xc3"), "FMT002", "byte 0xc3 at column"),
        (LINE[:-1] + b', "metadata": "\xfc"}', "FMT002", "byte 0xfc at column"),
    ],
)
def test_what_is_no_json_object(tmp_path, line, code, words):
    columns = columns_in(written(tmp_path, LINE, line, LINE))
    assert columns.readable.tolist() == [True, False, True]
    (fault,) = columns.faults
    assert (fault.code, fault.row, fault.line, fault.field) == (code, 1, 2, "")
    assert words in fault.message
    assert len(fault.message) < 100


@pytest.mark.parametrize(
    ("old", "new", "field", "key"),
    [
        (b'{"model_input":', b'{"metadata": 1, "metadata": 2, "model_input":', "", "metadata"),
        (b'{"model_input":', b'{"model_input" : null, "model_input":', "", "model_input"),
        (b'{"model_input":', b'{"model_input"\t: null, "model_input":', "", "model_input"),
        (b'{"model_input":', b'{"model_input"\r: null, "model_input":', "", "model_input"),
        (b'{"model_input":', b'{"model_\\u0069nput": null, "model_input":', "", "model_input"),
        (b'"chunks":', b'"chunks": [], "chunks":', "model_input", "chunks"),
        (b'"tokens":', b'"tokens": [1], "tokens":', "model_input.chunks[0]", "tokens"),
        (b'"logprobs":', b'"target_tokens": null, "logprobs":', "loss_fn_inputs", "target_tokens"),
        (b'"shape":', b'"shape": [3], "shape":', "loss_fn_inputs.target_tokens", "shape"),
        (b'"type": "sampled"', b'"type": "sampled", "type": "sampled"', "loss_fn_input_spans[1]", "type"),
        (b'"offset": 1', b'"offset": 1, "offset": 1', "loss_fn_input_spans[0]", "offset"),
        (b'{"model_input":', b'{"metadata": {"a": [{"b": 1, "b": 1}]}, "model_input":', "metadata.a[0]", "b"),
        # The lost value hides a key of its own, or looks like one.
        (b'"tokens":', b'"tokens": {"tokens": 5}, "tokens":', "model_input.chunks[0]", "tokens"),
        (b'"tokens":', b'"tokens" : "a\\":", "tokens":', "model_input.chunks[0]", "tokens"),
    ],
)
def test_a_key_that_occurs_twice(tmp_path, old, new, field, key):
    line = LINE.replace(old, new, 1)
    assert line != LINE
    columns = columns_in(written(tmp_path, LINE, line))
    assert columns.readable.tolist() == [True, False]
    (fault,) = columns.faults
    assert (fault.code, fault.field) == ("FMT003", field)
    assert repr(key) in fault.message


def test_strings_that_look_like_keys_are_no_keys(tmp_path):
    datum = {
        **DATUM,
        "metadata": {'a": ': '": {" :', "note": ["x : y", ' ":"']},
        "datum_id": ":",
        "group_id": "g:1",
    }
    columns = columns_in(written(tmp_path, json.dumps(datum).encode()))
    assert_same_columns(columns, columns_of([DATUM]))
    assert columns.readable.all()


EXACT = [
    changed("loss_fn_inputs.logprobs.data.1", None),
    changed("loss_fn_inputs.logprobs.data.1", math.nan),
    changed("loss_fn_inputs.logprobs.data.1", -math.inf),
    changed("loss_fn_inputs.logprobs.data", [[0.5], [1], [2.5]]),
    changed("loss_fn_inputs.logprobs.data", [[0.5], [1, 2.5]]),
    changed("loss_fn_inputs.logprobs.data", []),
    changed("loss_fn_inputs.logprobs", None),
    changed("loss_fn_inputs.logprobs.dtype", "bfloat16"),
    changed("loss_fn_inputs.logprobs.shape", [3, 1, -1]),
    changed("loss_fn_inputs.logprobs.shape", []),
    changed("loss_fn_inputs.logprobs", {"data": [1, 2], "dtype": "int64", "shape": [2**70]}),
    changed("loss_fn_inputs.logprobs", {"data": [1, 2.5], "dtype": "int64"}),
    changed("loss_fn_inputs.logprobs", {"data": [2**63, 1], "dtype": "int64"}),
    changed("loss_fn_inputs.target_tokens.data.0", 2**53 + 1),
    changed("loss_fn_inputs.target_tokens.data.0", 2.0),
    changed("loss_fn_inputs.target_tokens.data.0", 2.5),
    changed("loss_fn_inputs.target_tokens.data.0", 2**63),
    changed("loss_fn_inputs.target_tokens.dtype", "float32"),
    changed("loss_fn_inputs.", {"data": [], "dtype": "float32"}),
    changed("model_input.chunks.0.tokens.0", 2**80),
    changed("model_input.chunks.0.tokens.0", None),
    changed("model_input.chunks.0.tokens.0", 3.0),
    changed("model_input.chunks.0.tokens.0", True),
    changed("model_input.chunks", []),
    changed("model_input.chunks.0", {"type": "image", "data": "AAAA", "format": "png", "expected_tokens": 3}),
    changed("model_input.chunks.0", {"type": "image", "data": "AAA", "format": "png"}),
    changed("model_input_spans", None),
    changed("model_input_spans", []),
    changed("model_input_spans.0.offset", None),
    changed("model_input_spans.0.offset", -5),
    changed("model_input_spans.0.length", 2**63),
    changed("model_input_spans.0.length", 1.0),
    changed("model_input_spans.0.type", "other"),
    changed("model_input_spans.0.sequence_id", ""),
    changed("model_input_spans.0.sequence_id", "\ud800"),
    changed("model_input_spans.0.sequence_id", None),
    changed("loss_fn_input_spans.1", None),
    changed("group_id", True),
    changed("group_id", 2**70),
    changed("datum_id", None),
    changed("note", "x"),
]


@pytest.mark.parametrize("datum", EXACT)
def test_lines_mean_what_dicts_mean(tmp_path, datum):
    columns = columns_in(written(tmp_path, LINE, json.dumps(datum).encode(), LINE))
    expected = columns_of([DATUM, datum, DATUM])
    assert_same_columns(columns, expected)
    assert [(f.field, f.message) for f in columns.faults] == [(f.field, f.message) for f in expected.faults]


def test_numbers_as_json_writes_them(tmp_path):
    numbers = b"[-0.0, -0, 1e39, -1e400, " + b"9" * 5000 + b", 1E5, 0.1, 1e-400, 16777217, NaN, -Infinity]"
    line = LINE.replace(b"[0.0, -0.125, -0.1]", numbers).replace(b"[12, 13, 2]", b"[9007199254740993, -0, 2]")
    columns = columns_in(
        written(tmp_path, line, line.replace(b", NaN, -Infinity", b"").replace(b"-1e400, ", b""))
    )
    values = columns.inputs["logprobs"].values[:11]
    expected = [-0.0, 0, math.inf, -math.inf, math.inf, 1e5, 0.1, 0, 16777216, math.nan, -math.inf]
    np.testing.assert_array_equal(values, np.array(expected, np.float32))
    assert np.signbit(values[:2]).tolist() == [True, False]
    assert columns.inputs["target_tokens"].values[:3].tolist() == [2**53 + 1, 0, 2]


def test_huge_integers_do_not_stop_the_reading(tmp_path):
    huge = b"9" * 5000
    line = LINE.replace(b"[11, ", b"[-" + huge + b", ").replace(b'"length": 3', b'"length": ' + huge)
    columns = columns_in(written(tmp_path, line.replace(b"[12, ", b"[" + huge + b", ")))
    assert columns.tokens.tolist() == [-(2**63), 12, 13]
    assert columns.inputs["target_tokens"].values[0] == 2**63 - 1
    assert columns.inputs["target_tokens"].notes[0].startswith("data[0] is ")
    assert 0 in columns.input_spans.notes
    assert len(columns.input_spans.notes[0]) < 100


def test_plain_lines_take_the_fast_path():
    for datum in (
        DATUM,
        {**DATUM, "datum_id": "a", "group_id": 3, "metadata": {"a": [{"b": 1}]}},
        changed("loss_fn_inputs.logprobs", {"data": [1, 2, 2], "dtype": "int64", "shape": None}),
        changed("loss_fn_inputs.logprobs.shape", [1, 3]),
        changed("loss_fn_inputs.logprobs.sparse_crow_indices", None),
        changed("loss_fn_input_spans", None),
    ):
        for separators in ((", ", ": "), (",", ":")):
            assert plain(json.dumps(datum, separators=separators).encode()) is not None
        assert plain(json.dumps(datum, ensure_ascii=False).encode()) is not None
    assert plain(SEQUENCE_LINE, plain_sequence) is not None


def test_both_paths_are_compared():
    exact = [datum for datum in EXACT if plain(json.dumps(datum).encode()) is None]
    assert 10 < len(exact) < len(EXACT) - 5


# Random rows

EXAMPLES = int(os.environ.get("FORMATS_EXAMPLES", "120"))

NUMBERS = st.one_of(
    st.integers(-5, 200_000),
    st.integers(),
    st.sampled_from([2**31, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 2**64, 10**30, 10**400]),
    st.floats(),
    st.floats(width=32),
    st.sampled_from([-0.0, 2.0, 1e39, 2.0**63, 1e-50]),
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.text(max_size=4),
    st.lists(st.one_of(st.none(), NUMBERS, st.text(max_size=1)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)
VALID_DATA = st.lists(st.one_of(st.floats(-10, 0, width=32), st.integers(-3, 3)), max_size=6)


COUNTS = st.integers(0, 6)
SPANS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["prompt", "sampled"]),
            "sequence_id": st.one_of(st.sampled_from(["a", "b:1", 's"', ""]), st.text(max_size=3)),
            "length": COUNTS,
        },
        optional={"offset": COUNTS},
    ),
    max_size=3,
)
TENSORS = st.fixed_dictionaries(
    {"data": VALID_DATA, "dtype": st.sampled_from(["float32", "int64"])},
    optional={"shape": st.one_of(st.none(), st.lists(COUNTS, max_size=3))},
)
TARGETS = st.fixed_dictionaries(
    {"data": st.lists(st.integers(0, 2**40), max_size=6), "dtype": st.just("int64")},
    optional={"shape": st.lists(COUNTS, max_size=2)},
)
CSR = st.fixed_dictionaries(
    {
        "data": st.lists(NUMBERS, max_size=3),
        "dtype": st.just("float32"),
        "shape": st.lists(st.integers(0, 3), min_size=2, max_size=2),
        "sparse_crow_indices": st.lists(st.integers(0, 3), max_size=4),
        "sparse_col_indices": st.lists(st.integers(0, 3), max_size=3),
    }
)
CHUNKS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("encoded_text"), "tokens": st.lists(st.integers(0, 2**31), max_size=5)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("image"), "data": st.just("AAAA"), "format": st.just("png")},
        optional={"expected_tokens": st.integers(0, 4)},
    ),
)
WELL_TYPED = st.fixed_dictionaries(
    {
        "model_input": st.fixed_dictionaries({"chunks": st.lists(CHUNKS, max_size=3)}),
        "loss_fn_inputs": st.fixed_dictionaries(
            {"target_tokens": TARGETS},
            optional={"logprobs": TENSORS, "advantages": TENSORS, "weights": st.one_of(st.none(), CSR)},
        ),
    },
    optional={
        "model_input_spans": st.one_of(st.none(), SPANS),
        "loss_fn_input_spans": SPANS,
        "datum_id": st.text(max_size=2),
        "group_id": st.one_of(st.text(max_size=2), st.integers()),
        "metadata": JUNK,
    },
)


@st.composite
def datums(draw):
    """A datum; in about half of the draws with values replaced, removed or added somewhere."""
    datum = draw(WELL_TYPED)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        _break(draw, datum)
    return datum


def _break(draw, datum):
    """Replace, remove or add one value at a random place."""
    target = datum
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if isinstance(target[key], (dict, list)) and target[key] and draw(st.integers(0, 3)):
            target = target[key]
            continue
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "replace":
            target[key] = draw(JUNK)
        elif action == "remove":
            del target[key]
        elif isinstance(target, dict):
            target[draw(st.sampled_from(["offset", "shape", "x", "note", "type", ""]))] = draw(JUNK)
        else:
            target.append(draw(JUNK))
        return


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rows=st.lists(datums(), min_size=1, max_size=4),
    ascii_only=st.booleans(),
    separators=st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
    block=st.sampled_from([1, 3, 17, 1 << 20]),
    end=st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
)
def test_dicts_and_lines_give_the_same_columns(tmp_path_factory, *, rows, ascii_only, separators, block, end):
    try:
        lines = [json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode() for row in rows]
    except UnicodeEncodeError:
        return
    path = written(tmp_path_factory.getbasetemp(), *lines, name="random.jsonl", end=end)
    columns = columns_in(path, block=block)
    expected = columns_of(rows)
    assert_same_columns(columns, expected)
    assert [(f.row, f.field, f.message) for f in columns.faults] == [
        (f.row, f.field, f.message) for f in expected.faults
    ]
    assert columns.input_spans.notes == expected.input_spans.notes
    assert columns.target_spans.notes == expected.target_spans.notes
    for name, tensor in expected.inputs.items():
        assert columns.inputs[name].notes == tensor.notes


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(rows=st.lists(datums(), min_size=2, max_size=4))
def test_a_batch_is_its_datums(rows):
    whole = columns_of(rows)
    for i, row in enumerate(rows):
        single = columns_of([row])
        assert_same_columns(single, replace(whole.take(np.array([i])), faults=single.faults))


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=40), block=st.sampled_from([1, 4, 1 << 20]))
def test_any_bytes_are_read(tmp_path_factory, content, block):
    path = tmp_path_factory.getbasetemp() / "bytes.jsonl"
    path.write_bytes(content)
    for columns in jsonl.read_datums(str(path), block=block):
        assert not columns.readable.any()
        assert {fault.row for fault in columns.faults} == set(range(len(columns)))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_cut_and_changed_lines_are_read(data):
    line = bytearray(LINE)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line) - 1))
        if data.draw(st.booleans()):
            del line[at : at + data.draw(st.integers(1, 4))]
        else:
            line[at] = data.draw(st.sampled_from(b'{}[],:"\\ 0eN\xff'))
    if b"\n" in line or not line.strip():
        return
    row = plain(bytes(line))
    if row is not None:
        # What the fast path takes is JSON without repeated keys.
        assert_same_columns(columns_of([parse(bytes(line))]), columns_of([json.loads(line)]))
        assert row.tokens == columns_of([json.loads(line)]).tokens.tobytes()


# Sequences


def tables_in(path, **options):
    (found,) = list(jsonl.read_sequences(path, **options))
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"logprobs": None},
        {"logprobs": [-0.5, None, math.nan, -math.inf, 1e39]},
        {"logprobs": [3.2e38, 1]},
        {"logprobs": ["x"]},
        {"policy_version": 7, "top_k": None},
        {"policy_version": "7", "top_k": -1, "seed": 2**62, "temperature": 1, "top_p": 0.5, "model": "m"},
        {"seed": 2**63},
        {"temperature": 1e39},
        {"temperature": None, "stop_reason": "ü"},
        {"last_used_at": "2026-11-29t12:00:00.1234567+02:00"},
        {"last_used_at": "2026-11-29 12:00"},
        {"sampled_at": "2026-11-29T10:00:00"},
        {"sequence_id": ""},
        {"sequence_id": "\ud800"},
        {"prompt_tokens": [-1, -2]},
        {"tokens": [-1]},
        {"tokens": [1.0]},
        {"tokens": [None]},
        {"tokens": [2**31]},
        {"record_stability_info": 1},
        {"metadata": {}},
    ],
)
def test_sequence_lines_mean_what_dicts_mean(tmp_path, changes):
    sequences = [SEQUENCE, {**SEQUENCE, **changes}, SEQUENCE]
    path = written(tmp_path, b"", *(json.dumps(sequence).encode() for sequence in sequences))
    table, faults = tables_in(path)
    expected, expected_faults = table_of(sequences)
    assert table.row.tolist() == expected.row.tolist()
    assert table.line.tolist() == (expected.row + 2).tolist()
    assert table.file.tolist() == [path] * len(table)
    for i in range(len(table)):
        assert table.sequence_id[i] == expected.sequence_id[i]
        assert table.session_id[i] == expected.session_id[i]
        assert table.same_content(i, expected, i)
    assert table.last_used_at.tolist() == expected.last_used_at.tolist()
    assert [(f.code, f.row, f.field, f.message) for f in faults] == [
        (f.code, f.row, f.field, f.message) for f in expected_faults
    ]
    assert [f.line for f in faults] == [f.row + 2 for f in faults]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (SEQUENCE_LINE[:-1], "FMT001"),
        (SEQUENCE_LINE.replace(b'"s"', b'"\xff"'), "FMT002"),
        (SEQUENCE_LINE.replace(b'"tokens":', b'"tokens": [], "tokens":'), "FMT003"),
        (SEQUENCE_LINE.replace(b'"logprobs":', b'"logprobs" : [], "logprobs":'), "FMT003"),
        (SEQUENCE_LINE.replace(b"21", b'"21"'), "FMT004"),
    ],
)
def test_sequence_lines_that_cannot_be_read(tmp_path, line, code):
    table, faults = tables_in(written(tmp_path, SEQUENCE_LINE, line))
    assert len(table) == 1
    assert [(f.code, f.row, f.line) for f in faults] == [(code, 1, 2)]


# Files


def compressed(content, how):
    if how == "gz":
        return gzip.compress(content)
    return pa.compress(content, "zstd", asbytes=True)


@pytest.mark.parametrize(("how", "suffix"), [("gz", ".gz"), ("zst", ".zst"), ("zst", ".ZSTD")])
def test_compressed_files_of_several_members(tmp_path, how, suffix):
    content = (LINE + b"\n") * 1000
    cut = len(content) // 2 + 7
    members = [compressed(part, how) for part in (content[:cut], b"", content[cut:])]
    path = written(tmp_path, *members, name=f"a.jsonl{suffix}", end=b"")
    seen = []
    (columns,) = list(read_datums(path, on_bytes=seen.append))
    assert len(columns) == 1000
    assert columns.readable.all()
    assert sum(seen) == sum(map(len, members))


@pytest.mark.parametrize(("how", "suffix"), [("gz", ".gz"), ("zst", ".zst")])
@pytest.mark.parametrize("damage", ["cut", "cut second", "garbage", "trailing", "changed"])
def test_damaged_archives(tmp_path, how, suffix, damage):
    rng = np.random.default_rng(0)
    content = b"\n".join(b"%d" % n for n in rng.integers(0, 2**40, 5000)) + b"\n"
    whole = compressed(content, how)
    damaged = {
        "cut": whole[:-9],
        "cut second": whole + whole[: len(whole) // 2],
        "garbage": b"hello, this is no archive",
        "trailing": whole + b"garbage after the end",
        "changed": whole[: len(whole) // 2] + bytes(50) + whole[len(whole) // 2 + 50 :],
    }[damage]
    path = written(tmp_path, damaged, name=f"a.jsonl{suffix}", end=b"")
    if (how, damage) == ("zst", "changed"):
        pytest.skip("this writer adds no checksum to a frame")
    with pytest.raises(ReadError, match=r"a\.jsonl\.") as caught:
        list(read_datums(path))
    assert "\n" not in str(caught.value)


def test_a_small_archive_of_one_long_line_is_not_unpacked(tmp_path):
    path = written(tmp_path, gzip.compress(b" " * (64 << 20)), name="a.jsonl.gz", end=b"")
    with pytest.raises(ReadError, match="line 1 has more than 1000 bytes"):
        list(read_datums(path, max_line=1000))


def test_bytes_are_counted(tmp_path):
    path = written(tmp_path, *[LINE] * 10)
    seen = []
    list(jsonl.read_datums(path, on_bytes=seen.append, block=100))
    assert len(seen) > 10
    assert sum(seen) == Path(path).stat().st_size


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ReadError, match=r"^.*missing\.jsonl: no such file or directory$"):
        list(read_datums(tmp_path / "missing.jsonl"))
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ReadError, match=r"folder\.jsonl: a directory, expected a file"):
        list(read_sequences(tmp_path / "folder.jsonl"))


@pytest.mark.parametrize("name", ["data.csv", "data", "data.gz", "data.parquet.gz", "jsonl", ".jsonl"])
def test_unknown_suffixes_are_refused_at_once(name):
    with pytest.raises(
        ReadError, match=r"unknown suffix, expected one of \.jsonl.*\.zst.*\.parquet, \.arrow"
    ):
        read_datums(name)


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.b.JSONL", "a.parquet.jsonl"])
def test_suffixes_of_lines(tmp_path, name):
    (columns,) = list(read_datums(written(tmp_path, LINE, name=name)))
    assert columns.readable.all()


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINE + b"\n{")))
    (columns,) = list(read_datums("-"))
    assert columns.file == "<stdin>"
    assert columns.readable.tolist() == [True, False]
    assert not sys.stdin.buffer.closed


def test_reading_lines_does_not_import_pyarrow(tmp_path):
    path = written(tmp_path, LINE)
    code = (
        "import sys; from provenance import formats; "
        f"assert len(list(formats.read_datums({path!r}))) == 1; "
        "sys.exit(bool({'pyarrow', 'torch'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=False)
    assert done.returncode == 0


# Writing


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".jsonl.gz", ".ndjson.zst"])
def test_what_is_written_is_read(tmp_path, suffix):
    model = models.Datum.model_validate(DATUM)
    odd = changed("loss_fn_inputs.logprobs.data", [math.nan, None, -math.inf])
    arrays = changed("loss_fn_inputs.logprobs.data", np.array([0.0, -0.125, -0.1], np.float32))
    audio = changed("model_input.chunks.0", {"type": "dmel", "dmel": bytes([0, 1, 2])})
    rows = [DATUM, model, odd, arrays, audio]
    path = tmp_path / f"out{suffix}"
    write_datums(iter(rows), path)
    (columns,) = list(read_datums(path))
    assert_same_columns(columns, columns_of(rows))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_sequences_that_are_written_are_read(tmp_path):
    model = models.SampledSequence.model_validate({**SEQUENCE, "policy_version": 7})
    write_sequences([SEQUENCE, model], tmp_path / "s.jsonl.zst")
    ((table, faults),) = list(read_sequences(tmp_path / "s.jsonl.zst"))
    expected, _ = table_of([SEQUENCE, model])
    assert faults == ()
    assert table.same_content(0, expected, 0)
    assert table.same_content(1, expected, 1)


def test_the_same_data_give_the_same_archive(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_datums([DATUM], tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
def test_a_failed_write_leaves_nothing_behind_and_the_old_file(tmp_path, name):
    def rows():
        yield DATUM
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write_datums(rows(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(TypeError, match="has no form in JSON"):
        write_datums([{"metadata": object()}], tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"old"


def test_a_file_in_no_folder_cannot_be_written(tmp_path):
    with pytest.raises(WriteError, match="no such file or directory"):
        write_datums([DATUM], tmp_path / "no" / "out.jsonl")
    with pytest.raises(WriteError, match="unknown suffix"):
        write_datums([DATUM], tmp_path / "out.csv")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.jsonl").write_bytes(b"")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    write_datums([DATUM], tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").stat().st_size > 0


# Files from elsewhere

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared folder is not here")
def test_real_rollouts_are_plain():
    for path in sorted((SHARED / "rollouts").glob("*.jsonl")):
        sequences = path.name.endswith(".sequences.jsonl")
        read, build = (plain_sequence, table_of) if sequences else (plain_datum, columns_of)
        lines = list(read_lines(str(path)))
        assert lines
        assert all(read(line) is not None for line in lines), path
        rows = [json.loads(line.data) for line in lines]
        if not sequences:
            assert_same_columns(columns_in(str(path)), build(rows))
