"""`provenance.convert`: nothing is lost in any direction, or it is refused by place and field."""

from __future__ import annotations

import base64
import gzip
import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _columns import assert_same_columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_bad_input import peak_of
from test_cases import CASES, OF_DATUMS

import provenance
from provenance import ProvenanceError, ReadError, WriteError, convert
from provenance.formats import columns_of, read_datums, read_sequences
from provenance.rules import case

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow", ".arrows")
CHAIN = (".jsonl", ".parquet", ".jsonl", ".arrow", ".jsonl", ".arrows", ".jsonl.zst", ".jsonl")
ROLLOUTS = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
LABELS = ("datum_id", "group_id", "metadata", "provenance")
DMEL_OF_3 = base64.b64encode(b"\x00\x02\x03\x05").decode()

TEXT = {"type": "encoded_text", "tokens": [11, 12]}
IMAGE = {"type": "image", "data": "aGk=", "format": "png", "expected_tokens": 2}
DATUM: dict[str, Any] = {
    "model_input": {"chunks": [TEXT]},
    "loss_fn_inputs": {"target_tokens": {"data": [12, 21], "dtype": "int64", "shape": [2]}},
}
SEQUENCE: dict[str, Any] = {
    "sequence_id": "a",
    "session_id": "s",
    "prompt_tokens": [1, -1],
    "tokens": [3, 4],
    "logprobs": [-0.1, -0.0],
    "sampled_at": "2026-01-02T03:04:05.678901Z",
    "record_stability_info": True,
}


def tensor(data: list[Any], dtype: str = "float32", **fields: Any) -> dict[str, Any]:
    return {"data": data, "dtype": dtype, **fields}


def with_input(name: str, value: Any) -> dict[str, Any]:
    return {**DATUM, "loss_fn_inputs": {**DATUM["loss_fn_inputs"], name: value}}


def write(path: Path, *records: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def through_all(folder: Path, *records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records after a conversion to each of `CHAIN`, the first of which is written by hand."""
    paths = [folder / f"{i}{suffix}" for i, suffix in enumerate(CHAIN)]
    write(paths[0], *records)
    for source, target in pairwise(paths):
        assert convert(source, target) == len(records)
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths)
    return lines(paths[-1])


def without_labels(datum: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in datum.items() if name not in LABELS}


def labels(datum: Mapping[str, Any]) -> dict[str, Any]:
    return {name: datum[name] for name in LABELS if datum.get(name) is not None}


def bits(values: list[Any]) -> list[Any]:
    """Floats as the bits of their float32, so that -0.0, NaN and subnormals are told apart."""
    return [None if v is None else "nan" if v != v else struct.pack("f", v) for v in values]


# --- nothing is lost --------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8"), max_size=4)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
token_lists = st.lists(st.integers(0, 2**31 - 1), max_size=4)
float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)
int64s = st.integers(-(2**63), 2**63 - 1)
text_chunks = st.builds(lambda tokens: {"type": "encoded_text", "tokens": tokens}, token_lists)
other_chunks = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("image"),
            "data": st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode()),
            "format": st.sampled_from(["png", "jpeg"]),
        },
        optional={"expected_tokens": st.integers(0, 5)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("image_asset_pointer"), "location": words, "format": st.just("png")},
        optional={"expected_tokens": st.integers(0, 5)},
    ),
    st.just({"type": "dmel", "dmel": DMEL_OF_3}),
)


def tiled(draw: st.DrawFn, length: int | None) -> list[dict[str, Any]]:
    """Spans whose lengths add up to a length."""
    cuts = sorted(draw(st.lists(st.integers(0, length or 0), max_size=2)))
    bounds = [0, *cuts, length or 0]
    return [
        {
            "type": draw(st.sampled_from(["prompt", "sampled"])),
            "sequence_id": draw(words.filter(bool)),
            "offset": draw(st.integers(0, 2**62)),
            "length": end - start,
        }
        for start, end in pairwise(bounds)
        if length or draw(st.booleans())
    ]


@st.composite
def datasets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Datums that the models take and that agree on the dtype of each loss input, in no other respect."""
    kinds = {name: draw(st.sampled_from(["int64", "float32"])) for name in ("advantages", "weights", "odd")}
    width = draw(st.none() | st.integers(1, 3))
    varying = width is not None and draw(st.booleans())

    def one() -> dict[str, Any]:
        datum: dict[str, Any] = {
            "model_input": {
                "chunks": draw(
                    st.lists(text_chunks, min_size=1, max_size=1)
                    | st.lists(text_chunks | other_chunks, max_size=3)
                )
            },
            "loss_fn_inputs": {},
        }
        n = provenance.ModelInput.model_validate(datum["model_input"]).known_length
        rows = draw(st.integers(1, 3)) if n is None else n
        inputs = datum["loss_fn_inputs"]
        for name, dtype in kinds.items():
            if draw(st.booleans()):
                values = draw(
                    st.lists(int64s if dtype == "int64" else float32s, min_size=rows, max_size=rows)
                )
                inputs[name] = tensor(values, dtype)
        if draw(st.booleans()) and (width is None or rows):
            k = None if width is None else width + (draw(st.integers(0, 1)) if varying else 0)
            values = draw(st.lists(int64s, min_size=rows * (k or 1), max_size=rows * (k or 1)))
            shape = {} if k is None else {"shape": [rows, k]}
            inputs["target_tokens"] = tensor(values, "int64", **shape)
        if draw(st.booleans()):
            datum["model_input_spans"] = tiled(draw, n)
            datum["loss_fn_input_spans"] = tiled(draw, rows if "target_tokens" in inputs else n)
        found = st.fixed_dictionaries(
            {},
            optional={"datum_id": words, "group_id": words | int64s, "metadata": any_json},
        )
        return {**datum, **draw(found)}

    return [one() for _ in range(draw(st.integers(1, 4)))]


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(dataset=datasets())
def test_datums_survive_every_format(
    dataset: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = through_all(tmp_path_factory.mktemp("all"), *dataset)
    for before, after in zip(dataset, found, strict=True):
        assert json.dumps(labels(before), sort_keys=True) == json.dumps(labels(after), sort_keys=True)
        assert provenance.Datum.model_validate(without_labels(before)) == provenance.Datum.model_validate(
            without_labels(after)
        )
        for name, values in before["loss_fn_inputs"].items():
            given = after["loss_fn_inputs"][name]
            if values["dtype"] == "int64":
                assert given["data"] == values["data"]
            else:
                assert bits(given["data"]) == bits(values["data"])


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    sequences=st.lists(
        st.fixed_dictionaries(
            {
                "sequence_id": words.filter(bool),
                "session_id": words.filter(bool),
                "prompt_tokens": st.lists(st.integers(-1, 2**31 - 1), max_size=4),
                "sampled": st.lists(st.tuples(st.integers(0, 2**31 - 1), float32s), max_size=4),
                "sampled_at": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
                "record_stability_info": st.booleans(),
            },
            optional={
                "last_used_at": st.datetimes().map(lambda moment: moment.isoformat() + "+00:00"),
                "model": words,
                "policy_version": words | int64s,
                "stop_reason": words,
                "temperature": st.floats(-3e38, 3e38),
                "top_p": st.floats(0, 1),
                "top_k": st.integers(-(2**31), 2**31 - 1),
                "seed": st.integers(-(2**63) + 1, 2**63 - 1),
            },
        ),
        min_size=1,
        max_size=4,
    )
)
def test_sequences_survive_every_format(
    sequences: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for sequence in sequences:
        sampled = sequence.pop("sampled")
        sequence["tokens"] = [token for token, _ in sampled]
        sequence["logprobs"] = [logprob for _, logprob in sampled]
    found = through_all(tmp_path_factory.mktemp("all"), *sequences)
    for before, after in zip(sequences, found, strict=True):
        assert provenance.SampledSequence.model_validate(before) == provenance.SampledSequence.model_validate(
            after
        )
        assert bits(before["logprobs"]) == bits(after["logprobs"])


#: The last but one float reads as its neighbour from its fewest digits, 7.038531e-26.
SPECIAL = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1e-45,
    1.1754942e-38,
    3.4028235e38,
    0.1,
    -7.0385307e-26,
    None,
]


def test_values_that_no_model_takes_survive(tmp_path: Path) -> None:
    dataset = [
        with_input("logprobs", tensor(SPECIAL)),
        with_input("logprobs", None),
        with_input("logprobs", tensor([])),
        with_input("steps", tensor([2**53 + 1, -(2**63), 2**63 - 1, None], "int64")),
        with_input("target_tokens", tensor([2**53 + 1, None], "int64")),
        {**DATUM, "model_input": {"chunks": [{"type": "encoded_text", "tokens": [None, 2**31, -5]}]}},
        {**DATUM, "model_input_spans": [], "loss_fn_input_spans": None},
        {**DATUM, "model_input_spans": [None, {"type": None, "sequence_id": None, "length": None}]},
    ]
    found = through_all(tmp_path, *dataset)
    assert bits(found[0]["loss_fn_inputs"]["logprobs"]["data"]) == bits(SPECIAL)
    assert "logprobs" not in found[1]["loss_fn_inputs"]
    assert found[2]["loss_fn_inputs"]["logprobs"]["data"] == []
    assert found[3]["loss_fn_inputs"]["steps"] == tensor(
        [2**53 + 1, -(2**63), 2**63 - 1, None], "int64", shape=[4]
    )
    assert found[4]["loss_fn_inputs"]["target_tokens"]["data"] == [2**53 + 1, None]
    assert found[5]["model_input"]["chunks"][0]["tokens"] == [None, 2**31, -5]
    assert found[6]["model_input_spans"] == []
    assert "loss_fn_input_spans" not in found[6]
    assert found[7]["model_input_spans"][0] is None
    assert_same_columns(columns_of(dataset), columns_of(found))


def test_sequences_that_no_model_takes_survive(tmp_path: Path) -> None:
    absent = {name: value for name, value in SEQUENCE.items() if name != "logprobs"}
    found = through_all(tmp_path, {**SEQUENCE, "logprobs": [math.nan, None]}, absent)
    assert bits(found[0]["logprobs"]) == ["nan", None]
    assert "logprobs" not in found[1]


def test_sparse_tensors_keep_their_values(tmp_path: Path) -> None:
    sparse = tensor(
        [0.5, -0.0], "float32", shape=[2, 3], sparse_crow_indices=[0, 1, 2], sparse_col_indices=[2, 0]
    )
    found = through_all(tmp_path, with_input("weights", sparse))[0]["loss_fn_inputs"]["weights"]
    dense = provenance.TensorData.model_validate(sparse).to_numpy()
    assert bits(found["data"]) == bits(dense.ravel().tolist())
    assert found["shape"] == [2, 3]


def test_whatever_is_beside_the_training_data_survives(tmp_path: Path) -> None:
    given = [
        {"datum_id": "", "group_id": 7, "metadata": {"a": [1, None, 2**70, {"b": math.inf}]}},
        {"group_id": "7", "metadata": "7"},
        {"metadata": 7, "provenance": {"codes": ["VAL002"]}},
        {},
        {"metadata": "half \ud800 a pair"},
        {"metadata": [], "datum_id": "x\ny"},
    ]
    found = through_all(tmp_path, *({**DATUM, **fields} for fields in given))
    assert [labels(datum) for datum in found] == given


@pytest.mark.skipif(not ROLLOUTS.is_dir(), reason=f"{ROLLOUTS} is not here")
@pytest.mark.parametrize("kind", ["datums", "sequences"])
def test_real_rollouts_survive_every_format(kind: str, tmp_path: Path) -> None:
    model = provenance.Datum if kind == "datums" else provenance.SampledSequence
    sources = sorted(ROLLOUTS.glob(f"*.{kind}.jsonl"))
    assert sources
    for source in sources:
        folder = tmp_path / source.name
        folder.mkdir()
        before = lines(source)
        for old, new in zip(before, through_all(folder, *before), strict=True):
            assert model.model_validate(without_labels(old)) == model.model_validate(without_labels(new))


@pytest.mark.skipif(not CASES, reason="the shared cases are not here")
@pytest.mark.parametrize("name", OF_DATUMS)
def test_cases_survive_or_are_refused(name: str, tmp_path: Path) -> None:
    datums = CASES[name]["datums"]
    readable = columns_of(datums).readable.all()
    if not datums or not readable or name == "dtype_bfloat16":
        with pytest.raises(ReadError, match=r"no record|line \d"):
            through_all(tmp_path, *datums)
        assert [path.name for path in tmp_path.iterdir()] == ["0.jsonl"]
    else:
        assert_same_columns(columns_of(datums), columns_of(through_all(tmp_path, *datums)))


# --- formats and names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [DATUM, SEQUENCE], ids=["datums", "sequences"])
@pytest.mark.parametrize("target", SUFFIXES)
@pytest.mark.parametrize("source", SUFFIXES)
def test_every_direction(source: str, target: str, record: dict[str, Any], tmp_path: Path) -> None:
    first = write(tmp_path / "first.jsonl", record, record)
    convert(first, tmp_path / f"source{source}")
    assert convert(tmp_path / f"source{source}", tmp_path / f"target{target}") == 2
    if record is DATUM:
        (batch,) = read_datums(tmp_path / f"target{target}")
        assert_same_columns(batch, columns_of([record, record]))
    else:
        ((table, faults),) = read_sequences(tmp_path / f"target{target}")
        assert not faults
        assert table.tokens(1).tolist() == [3, 4]


def test_lines_become_lines_byte_for_byte(tmp_path: Path) -> None:
    odd = json.dumps(DATUM).replace(", ", " ,  ").replace("11", "1.1e1").encode()
    source = tmp_path / "a.jsonl"
    source.write_bytes(b"\xef\xbb\xbf\n" + odd + b"\r\n  \n" + odd)
    assert convert(source, tmp_path / "b.jsonl.gz") == 2
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()) == odd + b"\r\n" + odd + b"\n"


def test_a_file_may_be_converted_onto_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", DATUM, DATUM)
    before = path.read_bytes()
    assert convert(path, path) == 2
    assert path.read_bytes() == before


def test_arrow_becomes_arrow_with_its_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "model_input_tokens": pa.array([[1, 2], [3, 4]], pa.large_list(pa.uint16())),
            "target_tokens": pa.array([[2, 5], [4, 5]], pa.list_view(pa.int64())),
            "logprobs": pa.array([[0.1, 0.2], None], pa.list_(pa.float64())),
            "group_id": pa.array(["g", "g"]).dictionary_encode(),
            "metadata": pa.array([{"a": 1}, None]),
        }
    ).replace_schema_metadata({"of": "the caller"})
    with pa.ipc.new_stream(str(tmp_path / "a.arrows"), table.schema) as stream:
        stream.write_table(table)
    assert convert(tmp_path / "a.arrows", tmp_path / "b.arrow") == 2
    with pa.OSFile(str(tmp_path / "b.arrow")) as source:
        found = pa.ipc.open_file(source).read_all()
    assert found.equals(table, check_metadata=True)
    assert convert(tmp_path / "b.arrow", tmp_path / "c.parquet") == 2
    assert pq.read_table(tmp_path / "c.parquet").to_pylist() == table.to_pylist()
    assert convert(tmp_path / "b.arrow", tmp_path / "d.jsonl") == 2
    first, second = lines(tmp_path / "d.jsonl")
    assert first["loss_fn_inputs"]["logprobs"] == tensor([0.1, 0.2], shape=[2])
    assert (first["group_id"], first["metadata"], second.get("metadata")) == ("g", {"a": 1}, None)


def test_floats_take_as_few_digits_as_they_need(tmp_path: Path) -> None:
    convert(
        write(tmp_path / "a.jsonl", with_input("logprobs", tensor([0.1, -1.5, 1, -0.0, 1e-7]))),
        tmp_path / "a.arrow",
    )
    convert(tmp_path / "a.arrow", tmp_path / "b.jsonl")
    assert '"data":[0.1,-1.5,1,-0.0,1e-7]' in (tmp_path / "b.jsonl").read_text()


FOREIGN = [
    ("plain text", "plain text"),
    ('{"a":\n1}', {"a": 1}),
    ("1, 2", "1, 2"),
    ('1, "more": 2', '1, "more": 2'),
    ("", ""),
    ("null", None),
]


@pytest.mark.parametrize(("text", "value"), FOREIGN)
def test_metadata_of_others_is_json_or_text(text: str, value: Any, tmp_path: Path) -> None:
    table = pa.table({"model_input_tokens": [[1]], "metadata": [text]})
    pq.write_table(table, tmp_path / "a.parquet")
    convert(tmp_path / "a.parquet", tmp_path / "b.jsonl")
    assert lines(tmp_path / "b.jsonl")[0]["metadata"] == value


# --- what comes late --------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [(1, "g"), ("1", 2)])
def test_columns_may_be_needed_late(groups: tuple[Any, Any], tmp_path: Path) -> None:
    first, second = groups
    late = [
        {**DATUM, "datum_id": "x", "group_id": first},
        {**DATUM, "model_input": {"chunks": [TEXT, IMAGE]}},
        with_input("weights", tensor([0.5, 1.0])),
        {**DATUM, "model_input": {"chunks": [{"type": "encoded_text", "tokens": [2**40]}]}},
        {**DATUM, "group_id": second},
    ]
    dataset = [DATUM] * 5000
    for number, datum in zip((100, 1100, 2100, 3100, 4100), late, strict=True):
        dataset[number] = datum
    source = write(tmp_path / "a.jsonl", *dataset)
    assert convert(source, tmp_path / "b.parquet") == 5000
    convert(tmp_path / "b.parquet", tmp_path / "c.jsonl")
    found = lines(tmp_path / "c.jsonl")
    assert_same_columns(columns_of(found), columns_of(dataset))
    assert [labels(datum) for datum in found] == [labels(datum) for datum in dataset]


# --- refusals ---------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[list[Any], str]] = {
    "half a line": ([DATUM, b'{"model_input": '], "line 2: the line ends too early, at column 17"),
    "no UTF-8": ([DATUM, b"\xff"], "line 2: byte 0xff at column 1 is not UTF-8"),
    "a key twice": ([DATUM, b'{"a": 1, "a": 2}'], "line 2: key 'a' occurs twice in one object"),
    "a wrong type": (
        [DATUM, {**DATUM, "datum_id": 3}],
        "line 2: datum_id: 3 is not a string",
    ),
    "an unknown field": ([DATUM, {**DATUM, "note": 3}], "line 2: unknown field 'note'"),
    "a sequence among datums": (
        [DATUM, SEQUENCE],
        "line 2: a sampled sequence, expected a datum: is this the ledger's file?",
    ),
    "a datum among sequences": (
        [SEQUENCE, DATUM],
        "line 2: a datum, expected a sampled sequence: are data and ledger swapped?",
    ),
    "a broken sequence": (
        [SEQUENCE, {**SEQUENCE, "tokens": [-1]}],
        "line 2: tokens[0]: -1 is not a token id",
    ),
    "neither": (
        [{"a": 1}],
        "line 1: neither a datum, which has a model_input, nor a sampled sequence, which has prompt_tokens",
    ),
    "nothing": ([], "no record in it, expected datums or sampled sequences"),
    "blank lines": ([b"", b"  "], "no record in it, expected datums or sampled sequences"),
}
REFUSED_BY_ARROW: dict[str, tuple[list[Any], str]] = {
    "two dtypes": (
        [with_input("weights", tensor([1.0, 2.0])), with_input("weights", tensor([1, 2], "int64"))],
        "line 2: loss_fn_inputs.weights: int64 in a column of float32",
    ),
    "two dtypes far apart": (
        [*[with_input("weights", tensor([1, 2], "int64"))] * 1200, with_input("weights", tensor([1.0, 2.0]))],
        "line 1201: loss_fn_inputs.weights: float32 in a column of int64",
    ),
    "two ranks": (
        [DATUM, with_input("target_tokens", tensor([1, 2, 3, 4], "int64", shape=[2, 2]))],
        "line 2: loss_fn_inputs.target_tokens: (N, 2) in a column of (N,)",
    ),
    "three dimensions": (
        [with_input("cube", tensor([1.0], shape=[1, 1, 1]))],
        "line 1: loss_fn_inputs.cube: 3 dimensions",
    ),
    "a dtype that is none": (
        [DATUM, with_input("weights", tensor([1.0], "float64"))],
        "line 2: loss_fn_inputs.weights: declared 'float64', an Arrow file holds int64 and float32",
    ),
    **{
        f"{value} declared as an integer": (
            [DATUM, with_input("weights", tensor([0.0, value, 1.0], "int64"))],
            f"line 2: loss_fn_inputs.weights: data[1] is {value}, an Arrow file holds int64 and float32",
        )
        for value in (float("nan"), float("inf"), float("-inf"))
    },
    "a large sparse tensor": (
        [
            with_input(
                "weights",
                tensor([1.0], shape=[1, 2**40], sparse_crow_indices=[0, 1], sparse_col_indices=[2**39]),
            )
        ],
        "line 1: loss_fn_inputs.weights: sparse, and dense it would have 1099511627776 values",
    ),
    "half a surrogate pair": (
        [{**DATUM, "datum_id": "\ud800"}],
        "line 1: datum_id: '\\ud800' holds half of a surrogate pair",
    ),
    "a huge group": ([{**DATUM, "group_id": 2**63}], f"line 1: group_id: {2**63} is beyond int64"),
}


def refused(source: Path, target: Path, message: str) -> None:
    """The conversion fails with the message, and leaves what was there before."""
    before = sorted(path.name for path in source.parent.iterdir())
    for earlier in (None, b"an earlier file"):
        if earlier is not None:
            target.write_bytes(earlier)
        with pytest.raises(ReadError) as caught:
            convert(source, target)
        assert str(caught.value).startswith(f"{source}: {message}")
        assert "\n" not in str(caught.value)
        found = sorted(path.name for path in source.parent.iterdir())
        assert found == (before if earlier is None else sorted([*before, target.name]))
    assert target.read_bytes() == b"an earlier file"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [(name, suffix) for name in REFUSED for suffix in (".jsonl.zst", ".parquet")]
    + [(name, ".arrows") for name in REFUSED_BY_ARROW],
)
def test_a_line_that_cannot_be_converted_stops_it(name: str, suffix: str, tmp_path: Path) -> None:
    records, message = {**REFUSED, **REFUSED_BY_ARROW}[name]
    source = tmp_path / "a.jsonl"
    source.write_bytes(
        b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records)
    )
    refused(source, tmp_path / f"b{suffix}", message)


def test_what_arrow_refuses_may_be_lines(tmp_path: Path) -> None:
    for name, (records, _) in REFUSED_BY_ARROW.items():
        source = write(tmp_path / "a.jsonl", *records)
        assert convert(source, tmp_path / "b.jsonl") == len(records), name


def _chunks(**fields: Any) -> pa.Table:
    kind = pa.struct([("type", pa.string()), ("data", pa.binary()), ("length", pa.int32())])
    return pa.table({"model_input": pa.array([[], [fields]], pa.list_(kind))})


def _sequences(**changes: Any) -> pa.Table:
    return pa.table(
        {
            "sequence_id": ["a"],
            "session_id": ["s"],
            "prompt_tokens": pa.array([[1]], pa.list_(pa.int32())),
            "tokens": pa.array([[1]], pa.list_(pa.int32())),
            "logprobs": pa.array([[0.0]], pa.list_(pa.float32())),
            "sampled_at": pa.array([0], pa.timestamp("us", "UTC")),
            "record_stability_info": [True],
            **changes,
        }
    )


TABLES: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "neither": (lambda: pa.table({"a": [1]}), "neither a datum"),
    "no rows": (lambda: pa.table({"model_input_tokens": pa.array([], pa.list_(pa.int32()))}), "no record"),
    "a wrong column": (
        lambda: pa.table({"model_input_tokens": [[1]], "logprobs": ["x"]}),
        "logprobs: type string, expected list of numbers",
    ),
    "a label of the wrong type": (
        lambda: pa.table({"model_input_tokens": [[1]], "datum_id": [1]}),
        "datum_id: type int64, expected string",
    ),
    "a null row": (
        lambda: pa.table({"model_input_tokens": pa.array([[1]] * 5000 + [None], pa.list_(pa.int32()))}),
        "row 5000: model_input_tokens: null",
    ),
    "an unknown chunk": (
        lambda: _chunks(type="video", data=b"", length=1),
        "row 1: model_input.chunks[0].type: 'video' is not a type of chunk",
    ),
    "a wrong sequence": (
        lambda: _sequences(tokens=pa.array([[-1]], pa.list_(pa.int32()))),
        "row 0: tokens[0]: -1 is not a token id",
    ),
    "a late year": (
        lambda: _sequences(sampled_at=pa.array([2**62], pa.timestamp("us", "UTC"))),
        f"row 0: sampled_at: {2**62} us is out of range",
    ),
}
#: Rows that are fine in Arrow, and that JSON cannot hold.
NOT_JSON: dict[str, tuple[Callable[[], pa.Table], str]] = {
    "audio of another length": (
        lambda: _chunks(type="dmel", data=base64.b64decode(DMEL_OF_3), length=2),
        "row 1: model_input.chunks[0].length: 2, but the header of the tensor says 3",
    ),
    "ragged rows": (
        lambda: pa.table({"model_input_tokens": [[1], [1, 2]], "weights": [[[1.0]], [[1.0], [1.0, 2.0]]]}),
        "row 1: weights: rows of different lengths, or a null for a row",
    ),
    "a key twice": (
        lambda: pa.table({"model_input_tokens": [[1]], "metadata": ['{"a": 1, "a": 2}']}),
        "row 0: metadata: key 'a' occurs twice in one object",
    ),
}


@pytest.mark.parametrize("name", [*TABLES, *NOT_JSON])
def test_a_row_that_cannot_be_converted_stops_it(name: str, tmp_path: Path) -> None:
    table, message = {**TABLES, **NOT_JSON}[name]
    pq.write_table(table(), tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", tmp_path / "b.jsonl", message)
    if name in TABLES:
        refused(tmp_path / "a.parquet", tmp_path / "b.arrow", message)
    else:
        assert convert(tmp_path / "a.parquet", tmp_path / "b.arrow") == table().num_rows


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no/b.jsonl", "no such file or directory"),
        ("folder.jsonl", "a directory, expected a file"),
        ("b.csv", "unknown suffix, expected one of"),
        ("pipe.jsonl", "no regular file, expected the name of a file that may be replaced"),
        ("a\0b.jsonl", "a NUL in the name, which no file can have"),
        ("a" * 300 + ".jsonl", "file name too long"),
    ],
)
def test_places_that_cannot_be_written(target: str, message: str, tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", DATUM)
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(WriteError, match=message) as caught:
        convert(source, tmp_path / target)
    assert caught.value.file == str(tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- the command ------------------------------------------------------------------------------------------


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "provenance", "convert", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)


def test_the_command_reads_and_writes_pipes(tmp_path: Path) -> None:
    text = json.dumps(DATUM).encode() + b"\n"
    done = run("-", tmp_path / "a.parquet", stdin=text * 3)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == f"note: 3 records written to {tmp_path / 'a.parquet'}\n".encode()
    done = run(tmp_path / "a.parquet", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [DATUM] * 3
    done = run("-", "-", "-q", stdin=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, text, b"")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["b.parquet", "b.jsonl", "b.arrow"])
@pytest.mark.parametrize("source", ["a.jsonl", "a.parquet"])
def test_memory_is_bounded(source: str, target: str, tmp_path: Path) -> None:
    peaks = []
    line = json.dumps(with_input("logprobs", tensor([i / 7 for i in range(4000)]))).encode() + b"\n"
    for size in (1500, 9000):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / "first.jsonl").write_bytes(line * size)
        convert(folder / "first.jsonl", folder / source)
        done, peak = peak_of(["convert", folder / source, folder / target], folder)
        assert done.returncode == 0
        peaks.append(peak)
    # Six times the data, 120 MB of numbers more.
    assert peaks[1] < peaks[0] + 60, peaks


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize(
    "name",
    ["metadata", "provenance", "datum_id", "group_id", "model_input_tokens", "model_input_spans"],
)
def test_an_input_with_the_name_of_a_column_is_refused(name: str, suffix: str, tmp_path: Path) -> None:
    datum = dict(case().datums[0])
    tensor = {"data": [0.0] * 5, "dtype": "float32", "shape": [5]}
    datum["loss_fn_inputs"] = {**datum["loss_fn_inputs"], name: tensor}
    source, target = tmp_path / "in.jsonl", tmp_path / f"out{suffix}"
    source.write_text(json.dumps(datum) + "\n", encoding="utf-8")
    with pytest.raises(ProvenanceError, match=rf"line 1: loss_fn_inputs\.{name}: has the name of another"):
        provenance.convert(source, target)
    assert not target.exists()
