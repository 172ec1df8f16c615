"""Examples of rules: small datasets written as changes to one that is valid.

Tests, documentation and ``provenance explain`` all run or show these.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: In a case's ``changes``: remove the key or element.
DROP: Final = object()

_SINGLE_TURN: Final[dict[str, Any]] = {
    "model_input": {"chunks": [{"type": "encoded_text", "tokens": [11, 12, 13, 21, 22]}]},
    "loss_fn_inputs": {
        "target_tokens": {"data": [12, 13, 21, 22, 2], "dtype": "int64", "shape": [5]},
        "logprobs": {"data": [0.0, 0.0, -0.125, -0.375, -0.625], "dtype": "float32", "shape": [5]},
        "advantages": {"data": [0.0, 0.0, 1.0, 1.0, 1.0], "dtype": "float32", "shape": [5]},
    },
    "model_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 3},
        {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
    ],
    "loss_fn_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 2},
        {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 3},
    ],
}
# The second turn's prompt extends the first turn by two tokens of tool output, 31 and 32.
_MULTI_TURN: Final[dict[str, Any]] = {
    "model_input": {"chunks": [{"type": "encoded_text", "tokens": [11, 12, 21, 22, 31, 32, 41]}]},
    "loss_fn_inputs": {
        "target_tokens": {"data": [12, 21, 22, 31, 32, 41, 2], "dtype": "int64", "shape": [7]},
        "logprobs": {"data": [0.0, -0.25, -0.5, 0.0, 0.0, -0.75, -1.0], "dtype": "float32", "shape": [7]},
        "advantages": {"data": [0.0, 0.5, 0.5, 0.0, 0.0, 0.5, 0.5], "dtype": "float32", "shape": [7]},
    },
    "model_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 2},
        {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
        {"type": "prompt", "sequence_id": "s:2", "offset": 4, "length": 2},
        {"type": "sampled", "sequence_id": "s:2", "offset": 0, "length": 1},
    ],
    "loss_fn_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 1},
        {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
        {"type": "prompt", "sequence_id": "s:2", "offset": 4, "length": 2},
        {"type": "sampled", "sequence_id": "s:2", "offset": 0, "length": 2},
    ],
}
# A prompt and a completion of one token each.
_ONE_TOKEN: Final[dict[str, Any]] = {
    "model_input": {"chunks": [{"type": "encoded_text", "tokens": [11]}]},
    "loss_fn_inputs": {
        "target_tokens": {"data": [21], "dtype": "int64", "shape": [1]},
        "logprobs": {"data": [-0.5], "dtype": "float32", "shape": [1]},
        "advantages": {"data": [1.0], "dtype": "float32", "shape": [1]},
    },
    "model_input_spans": [{"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 1}],
    "loss_fn_input_spans": [{"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 1}],
}
_DATUMS: Final = {"single": _SINGLE_TURN, "multi": _MULTI_TURN, "one-token": _ONE_TOKEN}
SESSION: Final = "session-1"
NOW: Final = "2026-01-02T12:00:00Z"
_SAMPLED: Final = {
    "session_id": SESSION,
    "sampled_at": "2026-01-02T10:00:00Z",
    "last_used_at": "2026-01-02T10:00:00Z",
    "record_stability_info": True,
}
_SEQUENCES: Final[dict[str, list[dict[str, Any]]]] = {
    "single": [
        {
            "sequence_id": "s:1",
            "prompt_tokens": [11, 12, 13],
            "tokens": [21, 22, 2],
            "logprobs": [-0.125, -0.375, -0.625],
            **_SAMPLED,
        },
    ],
    "multi": [
        {
            "sequence_id": "s:1",
            "prompt_tokens": [11, 12],
            "tokens": [21, 22],
            "logprobs": [-0.25, -0.5],
            **_SAMPLED,
        },
        {
            "sequence_id": "s:2",
            "prompt_tokens": [11, 12, 21, 22, 31, 32],
            "tokens": [41, 2],
            "logprobs": [-0.75, -1.0],
            **_SAMPLED,
        },
    ],
    "one-token": [
        {
            "sequence_id": "s:1",
            "prompt_tokens": [11],
            "tokens": [21],
            "logprobs": [-0.5],
            **_SAMPLED,
        },
    ],
}

# What several rules' examples begin with.

#: The record of the datum of a single turn.
RECORD: Final[Mapping[str, Any]] = _SEQUENCES["single"][0]
#: Changes: the datum carries no provenance.
WITHOUT_SPANS: Final = {"model_input_spans": DROP, "loss_fn_input_spans": DROP}
#: Changes: the prompt is said to be that of a sequence which is not in the ledger.
SIBLING: Final = {
    "model_input_spans.0.sequence_id": "s:sibling",
    "loss_fn_input_spans.0.sequence_id": "s:sibling",
}
#: Changes: an image in place of the middle prompt token.
WITH_IMAGE: Final = {
    "model_input.chunks": [
        {"type": "encoded_text", "tokens": [11]},
        {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1},
        {"type": "encoded_text", "tokens": [13, 21, 22]},
    ],
    "loss_fn_inputs.target_tokens.data.0": 0,
    "sequences.0.prompt_tokens.1": -1,
}
#: Changes: two weighted targets a position, which cross_entropy takes.
TWO_TARGETS: Final = {
    "loss_fn_inputs.target_tokens": {
        "data": [12, 0, 13, 0, 21, 0, 22, 0, 2, 0],
        "dtype": "int64",
        "shape": [5, 2],
    },
    "loss_fn_inputs.weights": {"data": [0.0] * 4 + [1.0, 0.0] * 3, "dtype": "float32", "shape": [5, 2]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A dataset, the circumstances it is checked under, and nothing about the verdict."""

    datums: tuple[Mapping[str, Any], ...] = ()
    sequences: tuple[Mapping[str, Any], ...] = ()
    lines: bytes | None = None
    """The file itself, for rules about files; ``datums`` is empty then."""
    loss: str = "stable_reinforce"
    config: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    session: str = SESSION
    now: str = NOW


def case(
    changes: Mapping[str, Any] | None = None,
    *,
    turns: str = "single",
    copies: int = 1,
    loss: str = "stable_reinforce",
    lines: bytes | None = None,
    **circumstances: Any,
) -> Case:
    """A valid dataset with changes applied.

    Args:
        changes: path -> value. A path is dotted, list elements are numbers, and it starts at the first
            datum unless its first part is ``datums`` or ``sequences``; a number one past the end of a
            list appends, and the value DROP removes.
        turns: "single", "multi" or "one-token".
        copies: how many datums, alike before the changes; copies name different sequences.
        loss: the loss; other losses than stable_reinforce get the inputs they require.
        lines: the content of the file instead of datums.
        circumstances: ``config``, ``parameters``, ``session``, ``now``.
    """
    if lines is not None:
        return Case(lines=lines, loss=loss, **circumstances)
    dataset: dict[str, Any] = {
        "datums": [copy.deepcopy(_DATUMS[turns]) for _ in range(copies)],
        "sequences": [],
    }
    for number, datum in enumerate(dataset["datums"]):
        _fit_to_loss(datum, loss)
        renamed = "" if number == 0 else f"/{number}"
        for span in (*datum["model_input_spans"], *datum["loss_fn_input_spans"]):
            span["sequence_id"] += renamed
        for sequence in copy.deepcopy(_SEQUENCES[turns]):
            dataset["sequences"].append({**sequence, "sequence_id": sequence["sequence_id"] + renamed})
    for path, value in (changes or {}).items():
        _apply(dataset, path, value if value is DROP else copy.deepcopy(value))
    return Case(
        datums=tuple(dataset["datums"]), sequences=tuple(dataset["sequences"]), loss=loss, **circumstances
    )


def _fit_to_loss(datum: dict[str, Any], loss: str) -> None:
    inputs = datum["loss_fn_inputs"]
    if loss == "cross_entropy":
        inputs["weights"] = inputs.pop("advantages")
        del inputs["logprobs"]
    elif loss == "gspo":
        sampled = [float(advantage != 0) for advantage in inputs["advantages"]["data"]]
        inputs["sequence_ratio_mask"] = {**inputs["advantages"], "data": sampled}


def _apply(dataset: dict[str, Any], path: str, value: Any) -> None:
    parts = path.split(".")
    if parts[0] not in ("datums", "sequences"):
        parts = ["datums", "0", *parts]
    target: Any = dataset
    for part in parts[:-1]:
        target = target[int(part)] if isinstance(target, list) else target[part]
    last: Any = int(parts[-1]) if isinstance(target, list) else parts[-1]
    if value is DROP:
        del target[last]
    elif isinstance(target, list) and last == len(target):
        target.append(value)
    else:
        target[last] = value
