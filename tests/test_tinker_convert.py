"""The SDK's objects and ours, one made of the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinker import types

import provenance
from provenance import SchemaError
from provenance.integrations.tinker import from_tinker, to_tinker

AUDIO = b"\x01\x01\x04" + bytes(16)  # four numbers of one byte each, as a serialised tensor begins

OURS: dict[str, Any] = {
    "text": provenance.EncodedTextChunk(tokens=[1, 2, 2**31 - 1]),
    "no text": provenance.EncodedTextChunk(tokens=[]),
    "image": provenance.ImageChunk(data=b"\x89PNG", format="png", expected_tokens=3),
    "image of unknown length": provenance.ImageChunk(data=b"\xff\xd8", format="jpeg"),
    "pointer": provenance.ImageAssetPointerChunk(location="a/b.png", format="png", expected_tokens=2),
    "audio": provenance.DmelChunk(dmel=AUDIO),
    "prompt span": provenance.PromptProvenanceSpan(sequence_id="s:1", offset=3, length=4),
    "sampled span": provenance.SampledProvenanceSpan(sequence_id="s:1", length=0),
    "floats": provenance.TensorData(data=[0.1, -2.5], dtype="float32"),
    "integers": provenance.TensorData(data=[2**53 + 1, -(2**63)], dtype="int64"),
    "matrix": provenance.TensorData(data=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype="float32"),
    "scalar": provenance.TensorData(data=[1.5], dtype="float32", shape=[]),
    "csr": provenance.TensorData(
        data=[1.0, 2.0],
        dtype="float32",
        shape=[2, 5],
        sparse_crow_indices=[0, 1, 2],
        sparse_col_indices=[4, 0],
    ),
}
OURS["model input"] = provenance.ModelInput(chunks=[OURS["text"], OURS["image"], OURS["audio"]])
OURS["datum without spans"] = provenance.Datum(
    model_input=provenance.ModelInput.from_ints([1, 2]),
    loss_fn_inputs={"target_tokens": OURS["integers"], "weights": OURS["floats"]},
)
OURS["datum"] = OURS["datum without spans"].with_provenance(
    [provenance.PromptProvenanceSpan(sequence_id="s", length=2)],
    [
        provenance.PromptProvenanceSpan(sequence_id="s", offset=1, length=1),
        provenance.SampledProvenanceSpan(sequence_id="s", length=1),
    ],
)
SEQUENCE = provenance.SampledSequence(
    sequence_id="s:7",
    session_id="session-1",
    prompt_tokens=[1, 2],
    tokens=[3, 4],
    logprobs=[-0.5, -0.25],
    sampled_at="2026-01-02T12:00:00Z",
    record_stability_info=True,
    stop_reason="stop",
)
KNOWN = {
    "session_id": "session-1",
    "prompt_tokens": [1, 2],
    "sampled_at": "2026-01-02T12:00:00Z",
    "record_stability_info": True,
}


@pytest.mark.parametrize("name", OURS)
def test_there_and_back(name: str) -> None:
    ours = OURS[name]
    theirs = to_tinker(ours)
    assert type(theirs).__name__ == type(ours).__name__
    assert type(theirs).__module__.partition(".")[0] == "tinker"
    assert from_tinker(theirs) == ours


def test_the_fields_mean_what_they_mean_in_the_sdk() -> None:
    theirs = to_tinker(OURS["datum"])
    assert theirs.model_input.to_ints() == [1, 2]
    assert theirs.loss_fn_inputs["target_tokens"].data == [2**53 + 1, -(2**63)]
    assert theirs.loss_fn_inputs["weights"].shape == [2]
    assert theirs.loss_fn_input_spans == [
        types.PromptProvenanceSpan(sequence_id="s", offset=1, length=1),
        types.SampledProvenanceSpan(sequence_id="s", length=1),
    ]
    assert to_tinker(OURS["csr"]).to_numpy().tolist() == OURS["csr"].tolist()
    assert to_tinker(OURS["audio"]).length == OURS["audio"].length == 4


def test_a_sequence_and_what_is_known_of_it() -> None:
    theirs = to_tinker(SEQUENCE)
    assert (theirs.sequence_id, theirs.tokens, theirs.logprobs) == ("s:7", [3, 4], [-0.5, -0.25])
    assert from_tinker(theirs, **KNOWN) == SEQUENCE
    with pytest.raises(SchemaError, match="session_id: missing"):
        from_tinker(theirs)
    with pytest.raises(SchemaError, match="stop_reason: None, where the SDK knows 'stop' and 'length' only"):
        to_tinker(SEQUENCE.model_copy(update={"stop_reason": None}))
    silent = types.SampledSequence(stop_reason="stop", sequence_id="s:8", tokens_np=np.array([1], np.int32))
    with pytest.raises(SchemaError, match="'s:8' came back without logprobs"):
        from_tinker(silent, **KNOWN)


def test_what_is_shared_and_what_is_copied() -> None:
    sequence = to_tinker(SEQUENCE)
    assert sequence.tokens_np is SEQUENCE.tokens
    assert sequence.logprobs_np is SEQUENCE.logprobs
    assert to_tinker(OURS["image"]).data is OURS["image"].data
    assert from_tinker(to_tinker(OURS["audio"])).dmel is OURS["audio"].dmel
    theirs = to_tinker(OURS["floats"])
    assert not np.shares_memory(theirs.to_numpy(), OURS["floats"].data)
    back = from_tinker(theirs)
    theirs.to_numpy()[0] = 9
    assert back == OURS["floats"]


@pytest.mark.parametrize(
    ("theirs", "code", "place"),
    [
        (
            types.Datum(
                model_input=types.ModelInput.from_ints([1, 2]),
                loss_fn_inputs={"logprobs": [None, -0.5]},
            ),
            "VAL001",
            r"loss_fn_inputs\.logprobs\.data\[0\]",
        ),
        (types.EncodedTextChunk(tokens=[-1]), "TOK001", r"tokens\[0\]"),
        (types.TensorData(data=[1.0], dtype="float32", shape=[1], sparse_col_indices=[0]), "INP004", "crow"),
    ],
)
def test_what_the_sdk_holds_and_a_model_refuses(theirs: Any, code: str, place: str) -> None:
    with pytest.raises(SchemaError, match=place) as raised:
        from_tinker(theirs)
    assert raised.value.code == code


def test_what_is_nothing_of_either() -> None:
    with pytest.raises(SchemaError, match=r"\[1, 2\] has no counterpart in the SDK"):
        to_tinker([1, 2])  # type: ignore[call-overload]
    with pytest.raises(SchemaError, match=r"has no counterpart here, expected one of the SDK's types"):
        from_tinker(OURS["text"])


# An SDK that is missing or too old cannot be had in the environment of the tests, so it is stood in for.
_OLD = "__version__ = '0.25.0'\nfrom . import types\n"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "MissingDependencyError: tinker is not installed: run pip install 'datum-provenance[tinker]'"),
        (
            {"__init__.py": _OLD, "types.py": "class Datum: ...\n"},
            "tinker 0.25.0 has no provenance, expected 0.27 or later: "  # noqa: ISC004 - one message
            "run pip install 'datum-provenance[tinker]'",
        ),
    ],
    ids=["missing", "old"],
)
def test_an_sdk_that_will_not_do(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / "tinker" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    if not files:
        code += "sys.modules['tinker'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "import provenance.integrations.tinker"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith(message)
