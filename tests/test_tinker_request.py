"""Training requests as files: what the SDK writes is read without it, what is none is refused in one line."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
from _sdk import sdk_datum
from hypothesis import given, settings
from hypothesis import strategies as st
from tinker import types
from tinker.proto import tinker_public_pb2 as pb

import provenance
from provenance import ReadError, SchemaError, WriteError
from provenance.formats import _protobuf, columns_of, read_datums
from provenance.formats._problem import RecordError
from provenance.formats._sdk_batch import plain_columns
from provenance.formats.tinker_request import read_fields, read_head
from provenance.integrations.tinker import from_tinker, request_bytes, write_request
from provenance.rules import case

LOSS = "stable_reinforce"
AUDIO = b"\x01\x01\x04" + bytes(16)


def example(**changes: Any) -> Any:
    datum = case({name.replace("__", "."): value for name, value in changes.items()}).datums[0]
    return sdk_datum(datum, ("datum_id",))


def dumped(datums: list[Any], folder: Path, **options: Any) -> Path:
    path = folder / "request.pb"
    given = {"model_id": "s9:train:2", "seq_id": 7, "loss_fn": LOSS, **options}
    write_request(datums, path, **given)
    return path


def changed(change: Callable[[Any], object], folder: Path) -> Path:
    """A request whose message was changed by hand."""
    message = pb.ForwardBackwardRequest.FromString(dumped([example(), example()], folder).read_bytes())
    change(message)
    path = folder / "changed.pb"
    path.write_bytes(message.SerializeToString())
    return path


def everything() -> Any:
    """A datum with a chunk of each kind and a tensor of each form."""
    chunks = [
        types.EncodedTextChunk(tokens=[1, 2, 2**31 - 1]),
        types.ImageChunk(data=b"\x89PNG", format="png", expected_tokens=2),
        types.ImageChunk(data=b"", format="jpeg", expected_tokens=0),
        types.DmelChunk(dmel=AUDIO),
        types.EncodedTextChunk(tokens=[]),
    ]
    csr = types.TensorData(
        data=[1.0, 2.0],
        dtype="float32",
        shape=[2, 5],
        sparse_crow_indices=[0, 1, 2],
        sparse_col_indices=[4, 0],
    )
    return types.Datum(
        model_input=types.ModelInput(chunks=chunks),
        loss_fn_inputs={
            "target_tokens": np.arange(9) - 2**40,
            "weights": csr,
            "logprobs": types.TensorData(data=[float("nan"), 0.5], dtype="float32"),
            "é": types.TensorData(data=[1.5, 2.5], dtype="float32", shape=[2, 1]),
        },
        model_input_spans=[types.PromptProvenanceSpan(sequence_id="é:1", offset=2**62, length=9)],
        loss_fn_input_spans=[
            types.SampledProvenanceSpan(sequence_id="s:1", length=0),
            types.PromptProvenanceSpan(sequence_id="é:1", length=9),
        ],
    )


def same_columns(ours: Any, theirs: Any) -> None:
    """Both batches hold the same."""
    for name in ("offsets", "tokens", "text", "readable", "ids"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert ours.inputs.keys() == theirs.inputs.keys()
    for name, tensor in ours.inputs.items():
        for part in ("present", "declared", "rank", "rows", "width", "sound", "offsets", "coordinates"):
            assert np.array_equal(getattr(tensor, part), getattr(theirs.inputs[name], part)), (name, part)
        assert tensor.values.tobytes() == theirs.inputs[name].values.tobytes()
    for side in ("input_spans", "target_spans"):
        for part in ("present", "offsets", "kind", "sequence", "start", "length"):
            assert np.array_equal(getattr(getattr(ours, side), part), getattr(getattr(theirs, side), part))


def test_what_the_sdk_writes_is_read_as_what_it_held(tmp_path: Path) -> None:
    datums = [example(), everything(), types.Datum(model_input=types.ModelInput.empty())]
    (columns,) = read_datums(dumped(datums, tmp_path))
    same_columns(columns, columns_of(datums))


tensors = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(
        lambda data: types.TensorData(data=data, dtype="int64", shape=[len(data)])
    ),
    st.lists(st.floats(width=32), max_size=4).map(lambda data: types.TensorData(data=data, dtype="float32")),
)
spans = st.lists(
    st.builds(
        lambda kind, name, offset, length: kind(sequence_id=name, offset=offset, length=length),
        st.sampled_from([types.PromptProvenanceSpan, types.SampledProvenanceSpan]),
        st.text(min_size=1, max_size=3),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
    ),
    min_size=1,
    max_size=3,
)
datums = st.builds(
    lambda chunks, inputs, both: types.Datum(
        model_input=types.ModelInput(chunks=[types.EncodedTextChunk(tokens=t) for t in chunks]),
        loss_fn_inputs=inputs,
        **dict(zip(("model_input_spans", "loss_fn_input_spans"), both, strict=False)),
    ),
    st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=3),
    st.dictionaries(st.sampled_from(["target_tokens", "logprobs", "x"]), tensors, max_size=3),
    st.one_of(st.just(()), st.tuples(spans, spans)),
)


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(datums, max_size=4), size=st.integers(1, 64))
def test_any_request_is_read_as_what_it_held(batch: list[Any], size: int, tmp_path_factory: Any) -> None:
    data = request_bytes(batch, model_id="s:train:0", seq_id=1, loss_fn=LOSS)
    path = tmp_path_factory.mktemp("request") / "request.pb"
    path.write_bytes(data)
    found = list(read_datums(path))
    assert len(found) == bool(batch)
    for columns in found:
        same_columns(columns, columns_of(batch))
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    pieces = [(n, w, v if isinstance(v, int) else bytes(v)) for n, w, v in _protobuf.stream(blocks, 10_000)]
    whole = [(n, w, v if isinstance(v, int) else bytes(v)) for n, w, v in _protobuf.stream([data], 10_000)]
    assert pieces == whole


plain_batches = st.lists(
    st.builds(
        lambda tokens, values, both: types.Datum(
            model_input=types.ModelInput(chunks=[types.EncodedTextChunk(tokens=t) for t in tokens]),
            loss_fn_inputs={
                "target_tokens": np.array(values, np.int64),
                "logprobs": types.TensorData(data=np.array(values, np.float32), dtype="float32"),
            },
            **dict(zip(("model_input_spans", "loss_fn_input_spans"), both, strict=False)),
        ),
        st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=3),
        st.lists(st.integers(-9, 9), max_size=4),
        st.one_of(st.just(()), st.tuples(spans, spans)),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(batch=plain_batches)
def test_a_plain_batch_is_read_at_once_as_datum_by_datum(batch: list[Any]) -> None:
    at_once = plain_columns(batch)
    assert at_once is not None
    odd = types.Datum(model_input=types.ModelInput(chunks=[types.ImageChunk(data=b"", format="png")]))
    assert plain_columns([*batch, odd]) is None
    one_by_one = columns_of([*batch, odd]).take(np.arange(len(batch)))
    same_columns(at_once, replace(one_by_one, text=None))
    assert at_once.row.tolist() == one_by_one.row.tolist()


@pytest.mark.parametrize(
    "tensor",
    [
        types.TensorData(data=[1.0], dtype="float32", shape=[1], sparse_col_indices=[0]),
        types.TensorData(data=[1.0], dtype="float32", shape=[1], sparse_crow_indices=[0, 1]),
        types.TensorData(data=[1.0], dtype="float32", shape=[1, 1]),
        types.TensorData(data=[1], dtype="int64", shape=[1]),
        7,
    ],
    ids=["no rows", "no columns", "matrix", "integers", "no tensor"],
)
def test_a_batch_that_is_not_plain_is_read_datum_by_datum(tensor: Any) -> None:
    datum = types.Datum(model_input=types.ModelInput.from_ints([1]))
    datum.loss_fn_inputs["logprobs"] = tensor
    assert plain_columns([datum]) is None
    assert len(columns_of([datum])) == 1


class _Annotated(types.EncodedTextChunk):
    note: str = "mine"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"loss_fn_input_spans": [types.SampledProvenanceSpan(sequence_id=b"a", length=1)]}, "SPN005"),  # type: ignore[arg-type]
        ({"model_input": types.ModelInput(chunks=[_Annotated(tokens=[1])])}, "FMT004"),
        ({"loss_fn_inputs": {b"x": types.TensorData(data=[1.0], dtype="float32", shape=[1])}}, "FMT004"),
    ],
    ids=["bytes as id", "another chunk", "bytes as name"],
)
def test_the_quick_readings_take_nothing_that_the_exact_one_refuses(change: Any, code: str) -> None:
    datum = types.Datum(model_input=types.ModelInput.from_ints([1]))
    datum.loss_fn_inputs["target_tokens"] = types.TensorData(data=[1], dtype="int64", shape=[1])
    for name, value in change.items():
        object.__setattr__(datum, name, value)
    assert plain_columns([datum]) is None
    assert code in provenance.check([datum], "cross_entropy").codes()


def test_shapes_of_many_dimensions_are_refused_at_once() -> None:
    tensor = {"data": [1, 2], "dtype": "int64", "shape": [3] * 400_000}
    datum = {"model_input": {"chunks": []}, "loss_fn_inputs": {"target_tokens": tensor}}
    assert "INP004" in provenance.check([datum], "cross_entropy").codes()


def test_a_request_that_is_cut_off_says_at_which_byte() -> None:
    blocks = [b"\x0a\x02ab" * 20, b"\x0a\x02ab" * 20, b"\x0a\x05a"]
    with pytest.raises(_protobuf.WireError, match="byte 160: cut off, 5 bytes expected and 1 there"):
        list(_protobuf.stream(blocks, 100))


def test_what_a_request_says_of_itself(tmp_path: Path) -> None:
    config = {"kl_coeff": 0.25, "loss_id": "é"}
    path = dumped([example()], tmp_path, loss_fn_config=config, forward_only=True)
    head = read_head(str(path))
    assert (head.model_id, head.session, head.seq_id) == ("s9:train:2", "s9", 7)
    assert (head.loss_fn, head.loss_fn_config, head.forward_only) == (LOSS, config, True)
    old = changed(lambda message: message.loss_fn_config.update({"beta": 0.5}), tmp_path)
    assert read_head(str(old)).loss_fn_config == {"beta": 0.5}


@pytest.mark.parametrize("suffix", [".pb", ".pb.gz"])
def test_compressed_or_not_and_in_batches(suffix: str, tmp_path: Path) -> None:
    data = dumped([example()] * 5, tmp_path).read_bytes()
    path = tmp_path / f"r{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    read: list[int] = []
    batches = list(read_datums(path, batch_positions=1, on_bytes=read.append))
    assert [int(batch.row[0]) for batch in batches] == [0, 1, 2, 3, 4]
    assert sum(read) == path.stat().st_size


Fault = tuple[Callable[[Any], object], str, str]
FAULTS: dict[str, Fault] = {
    "tokens of no length": (
        lambda d: setattr(d.model_input[0].encoded_text, "tokens", b"\1\0\0\0\2"),
        "model_input.chunks[0].tokens",
        "5 bytes, expected a multiple of 4",
    ),
    "floats of no length": (
        lambda d: setattr(d.loss_fn_inputs["logprobs"], "dense", b"\0" * 6),
        "loss_fn_inputs.logprobs.data",
        "6 bytes, expected a multiple of 4",
    ),
    "no dtype": (
        lambda d: d.loss_fn_inputs["logprobs"].ClearField("dtype"),
        "loss_fn_inputs.logprobs.dtype",
        "0, expected one of 1, 2, 3, 4",
    ),
    "no values": (
        lambda d: d.loss_fn_inputs["logprobs"].ClearField("dense"),
        "loss_fn_inputs.logprobs",
        "nothing in it, expected one content",
    ),
    "no chunk": (
        lambda d: d.model_input.add(),
        "model_input.chunks[1]",
        "nothing in it, expected one content",
    ),
    "an image of another format": (
        lambda d: setattr(d.model_input.add().image, "format", "gif"),
        "model_input.chunks[1].format",
        "'gif' is neither 'png' nor 'jpeg'",
    ),
    "an unknown field": (
        lambda d: setattr(d.model_input.add().image.override_dimensions, "width", 5),
        "model_input[1].image",
        "field 4, expected one of 1, 2, 3",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_datum_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    change, field, message = FAULTS[name]
    path = changed(lambda message: change(message.data[1]), tmp_path)
    report = provenance.check(path, LOSS)
    assert report.counts["FMT004"].datums == 1
    (violation,) = [violation for violation in report if violation.code == "FMT004"]
    assert (violation.location.row, violation.location.field) == (1, field)
    assert violation.message == message
    with pytest.raises(ReadError, match=r"changed\.pb: row 1: "):
        provenance.convert(path, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("dtype", "data", "values"),
    [
        (pb.DTYPE_INT32, np.array([5, -5], np.int32).tobytes(), [5.0, -5.0]),
        (pb.DTYPE_BFLOAT16, np.array([0x3FC0, 0xBF00], np.uint16).tobytes(), [1.5, -0.5]),
    ],
)
def test_other_dtypes_are_reported_with_their_values(
    dtype: Any, data: bytes, values: list[float], tmp_path: Path
) -> None:
    def change(message: Any) -> None:
        del message.data[1]
        tensor = message.data[0].loss_fn_inputs["logprobs"]
        tensor.dtype, tensor.dense = dtype, data

    path = changed(change, tmp_path)
    (columns,) = read_datums(path)
    assert columns.inputs["logprobs"].values.tolist() == values
    assert "INP003" in provenance.check(path, LOSS).codes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no model_id, which every training request has: is it whole?"),
        (b'{"model_input": {}}\n', "no whole training request (protobuf): "),
        (b"\x1a\xff\xff\xff\xff\x0f", "byte 0: a field of 4294967295 bytes, the limit is 67108864"),
        (b"\x1a" + b"\xff" * 12, "byte 0: a number without an end"),
        (b"\x1b", "byte 0: wire type 3, which no field of a request has"),
        (b"\x0a\x01\xff\x22\x01a", "model_id: b'\\xff' is not UTF-8"),
        (b"\x0a\x01a\x0a\x01b", "model_id: there twice, expected once"),
        (b"\x42\x01a", "field 8, expected one of 1, 2, 3, 4, 5, 6, 7"),
        (b"\x08\x01", "model_id: wire type 0, expected 2"),
        (b"\x2a\x02\x0a\x00" * 600_000, "more than 1048576 bytes beside the datums"),
    ],
)
def test_what_is_no_request(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "request.pb"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=re.escape(message)) as raised:
        provenance.check(path, LOSS)
    assert raised.value.file == str(path)
    assert "\n" not in str(raised.value)


def test_the_command_line_refuses_what_is_no_request_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "request.pb"
    path.write_bytes(b"\x1a\x05ab")
    done = run("check", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    expected = "no whole training request (protobuf): byte 0: cut off, 5 bytes expected and 2 there"
    assert done.stderr == f"error: {path}: {expected}\n"


def test_a_request_that_is_cut_anywhere_is_unreadable(tmp_path: Path) -> None:
    data = dumped([example(), everything()], tmp_path, loss_fn_config={"kl_coeff": 0.5}).read_bytes()
    loss_at = data.index(LOSS.encode()) + len(LOSS)
    path = tmp_path / "cut.pb"
    for size in range(loss_at):
        path.write_bytes(data[:size])
        with pytest.raises(ReadError):
            list(read_datums(path))


def test_a_request_with_changed_bytes_never_breaks_the_reader(tmp_path: Path) -> None:
    whole = dumped([everything()], tmp_path).read_bytes()
    path = tmp_path / "odd.pb"
    random = np.random.default_rng(3)
    unreadable = 0
    for _ in range(300):
        data = bytearray(whole)
        for at in random.integers(0, len(data), 3):
            data[at] = random.integers(256)
        path.write_bytes(data)
        try:
            report = provenance.check(path, LOSS)
        except ReadError:
            unreadable += 1
        else:
            assert report.datums == 1
    assert 0 < unreadable < 300


def test_a_datum_over_the_limit(tmp_path: Path) -> None:
    path = dumped([example()], tmp_path)
    with pytest.raises(ReadError, match=r"a field of \d+ bytes, the limit is 100"):
        provenance.check(path, LOSS, max_line=100)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "provenance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_line_takes_loss_session_and_options_of_the_request(tmp_path: Path) -> None:
    config = {"clip_low_threshold": 1.5, "clip_high_threshold": 1.2}
    path = str(dumped([example()], tmp_path, loss_fn="ppo", loss_fn_config=config))
    done = run("check", path, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["contract"]["loss"], report["session"]) == ("ppo", "s9")
    assert list(report["counts"]) == ["CFG001"]
    other = json.loads(run("check", path, "--format", "json", "--loss", LOSS, "--session", "s1").stdout)
    assert (other["contract"]["loss"], other["session"]) == (LOSS, "s1")
    assert other["counts"] == {}
    assert "30 rules checked" in run("inspect", path, "--row", "0").stdout
    only_parameters, for_ppo = tmp_path / "parameters.toml", tmp_path / "ppo.toml"
    only_parameters.write_text("[parameters]\nvocab_size = 1000\n", encoding="utf-8")
    for_ppo.write_text('extends = "ppo"\n', encoding="utf-8")
    for contract in (only_parameters, for_ppo):
        done = run("check", path, "--config", str(contract), "--format", "json")
        report = json.loads(done.stdout)
        assert (report["contract"]["loss"], list(report["counts"])) == ("ppo", ["CFG001"])
    lines = tmp_path / "datums.jsonl"
    provenance.convert(path, lines)
    done = run("check", path, str(lines))
    assert (done.returncode, done.stdout) == (2, "")
    assert "give --loss and --session" in " ".join(done.stderr.split())
    second = tmp_path / "second.pb"
    write_request([example()], second, model_id="s9:train:2", seq_id=8, loss_fn="cispo")
    done = run("check", path, str(second))
    assert (done.returncode, done.stdout) == (2, "")
    assert "are of different losses, configurations or sessions" in done.stderr


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".arrow"])
def test_a_request_is_converted(suffix: str, tmp_path: Path) -> None:
    datums = [example(), example(loss_fn_inputs__logprobs__data__3=-7.5)]
    target = tmp_path / f"datums{suffix}"
    assert provenance.convert(dumped(datums, tmp_path), target) == 2
    (columns,) = read_datums(target)
    (again,) = read_datums(dumped(datums, tmp_path))
    for name in columns.inputs:
        assert columns.inputs[name].values.tobytes() == again.inputs[name].values.tobytes()
    assert columns.ids == again.ids
    if suffix == ".jsonl":
        lines = [json.loads(line) for line in target.read_text().splitlines()]
        assert [provenance.Datum.model_validate(line) for line in lines] == list(map(from_tinker, datums))


def test_where_a_request_cannot_stand(tmp_path: Path) -> None:
    path = dumped([example()], tmp_path)
    lines = tmp_path / "datums.jsonl"
    provenance.convert(path, lines)
    with pytest.raises(WriteError, match="a training request, whose datums can be checked, inspected"):
        provenance.convert(lines, tmp_path / "out.pb")
    with pytest.raises(ReadError, match="a training request, whose datums can be checked, inspected"):
        provenance.check(path, LOSS, write_good=tmp_path / "good.jsonl")
    with pytest.raises(ReadError, match="a training request"):
        provenance.check(path, LOSS, ledger=path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["datums.jsonl", "request.pb"]


def test_what_the_sdk_cannot_encode_leaves_no_file(tmp_path: Path) -> None:
    pointer = types.ImageAssetPointerChunk(location="a.png", format="png")
    datum = tinker.Datum(model_input=types.ModelInput(chunks=[pointer]))
    with pytest.raises(SchemaError, match=r"tinker .* cannot encode the request: Unsupported model input"):
        dumped([datum], tmp_path)
    with pytest.raises(WriteError):
        dumped([example()], tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_an_sdk_is_not_needed_to_read(tmp_path: Path) -> None:
    path = dumped([example()], tmp_path)
    code = f"import sys, provenance; provenance.check({str(path)!r}); sys.exit('tinker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_scalar_and_an_empty_list_of_spans_cannot_be_told_from_what_is_absent(tmp_path: Path) -> None:
    scalar = types.TensorData(data=[1.5], dtype="float32", shape=[])
    datum = types.Datum(
        model_input=types.ModelInput.empty(),
        loss_fn_inputs={"x": scalar},
        model_input_spans=[],
        loss_fn_input_spans=[],
    )
    (columns,) = read_datums(dumped([datum], tmp_path))
    assert columns.inputs["x"].rank.tolist() == [1]
    assert not columns.input_spans.present[0]
    held = columns_of([datum])
    assert held.inputs["x"].rank.tolist() == [0]
    assert held.input_spans.present[0]


def test_two_inputs_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "twice.pb"
    tensor = pb.Tensor(dense=b"\0\0\0\0", dtype=pb.DTYPE_FLOAT32, shape=[1]).SerializeToString()
    entry = b"\x0a\x01x\x12" + bytes([len(tensor)]) + tensor
    datum = 2 * (b"\x12" + bytes([len(entry)]) + entry)
    path.write_bytes(b"\x0a\x01m\x1a" + bytes([len(datum)]) + datum + b"\x22\x03ppo")
    (error,) = read_fields(str(path))
    assert isinstance(error, RecordError)
    assert (error.code, error.message) == ("FMT003", "key 'x' occurs twice")
