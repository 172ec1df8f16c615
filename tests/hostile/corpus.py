"""Valid datasets, small and of every shape, that the hostile files are made from."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import provenance
from provenance.rules import Case, case
from provenance.rules._examples import NOW, SESSION, TWO_TARGETS, WITH_IMAGE, WITHOUT_SPANS

#: Tokens of a prompt and of a completion: more than one block of a ledger's prompts.
_LONG = (300, 40)


def _long() -> Case:
    p, s = _LONG
    text = [7 + i % 90 for i in range(p + s)]
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": text[:-1]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": text[1:], "dtype": "int64"},
            "logprobs": {"data": [0.0] * (p - 1) + [-0.5] * s, "dtype": "float32"},
            "advantages": {"data": [0.0] * (p - 1) + [1.0] * s, "dtype": "float32"},
        },
        "model_input_spans": [_span("prompt", 0, p), _span("sampled", 0, s - 1)],
        "loss_fn_input_spans": [_span("prompt", 1, p - 1), _span("sampled", 0, s)],
    }
    sequence = {
        **case().sequences[0],
        "sequence_id": "long",
        "prompt_tokens": text[:p],
        "tokens": text[p:],
        "logprobs": [-0.5] * s,
        "model": "m",
        "policy_version": "4",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "seed": 2**53 + 1,
    }
    return Case(datums=(datum,), sequences=(sequence,))


def _span(kind: str, offset: int, length: int) -> dict[str, Any]:
    return {"type": kind, "sequence_id": "long", "offset": offset, "length": length}


CASES = (
    case(),
    case(turns="multi"),
    case(turns="one-token"),
    case(copies=3),
    case(WITH_IMAGE),
    _long(),
    case(TWO_TARGETS | WITHOUT_SPANS, loss="cross_entropy"),
    case(WITHOUT_SPANS, loss="ppo", copies=2),
    case(loss="gspo"),
)


@functools.cache
def datums_file(number: int, suffix: str) -> bytes:
    """The datums of a case as a file of ours."""
    return _written(lambda path: provenance.write_datums(CASES[number].datums, path), suffix)


@functools.cache
def sequences_file(number: int, suffix: str) -> bytes:
    """The sequences of a case as a file of ours."""
    return _written(lambda path: provenance.write_sequences(CASES[number].sequences, path), suffix)


@functools.cache
def request_file(number: int) -> bytes:
    """The datums of a case as a training request of the official SDK."""
    from _sdk import sdk_datum

    from provenance.integrations.tinker import request_bytes

    found = CASES[number]
    datums = [sdk_datum(datum, ("datum_id",)) for datum in found.datums]
    return request_bytes(datums, model_id="s9:train:2", seq_id=7, loss_fn=found.loss)


@functools.cache
def database_file(number: int) -> bytes:
    """The sequences of a case as a ledger in a SQLite file."""
    from provenance.ledger.sql import SqlLedger

    def write(path: Path) -> None:
        with SqlLedger(path) as ledger:
            ledger.record([provenance.SampledSequence(**fields) for fields in CASES[number].sequences])

    return _written(write, ".db")


def _written(write: Any, suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        write(path)
        return path.read_bytes()


__all__ = ["CASES", "NOW", "SESSION", "database_file", "datums_file", "request_file", "sequences_file"]
