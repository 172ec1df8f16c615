"""What is judged, what is found, and the numbers and names that the contract states."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

Json = dict[str, Any]
Index = int | tuple[int, int] | None


class Finding(NamedTuple):
    code: str
    severity: str
    row: int | None
    field: str | None
    index: Index = None
    length: int | None = None
    sequence_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class World:
    """A dataset and the circumstances that it is checked under."""

    datums: list[Json]
    sequences: list[Json] | None = None
    session: str | None = None
    now: str = "2026-01-02T12:00:00Z"
    loss: str = "stable_reinforce"
    config: Json = field(default_factory=dict)
    parameters: Json = field(default_factory=dict)


PARAMETERS: Mapping[str, Any] = {
    "vocab_size": None,
    "max_tokens": None,
    "tolerance": 1e-4,
    "placeholder_run": 32,
    "logprob_abs": 1e-3,
    "logprob_rel": 2**-7,
    "foreign_logprobs": 0.5,
    "foreign_run": 4,
    "window": 86400,
    "margin": 3600,
    "skew": 300,
    "learner_version": None,
    "max_policy_lag": None,
    "advantage_limit": 100.0,
}

TARGETS = "target_tokens"
INPUT_SPANS, TARGET_SPANS = SPAN_LISTS = ("model_input_spans", "loss_fn_input_spans")
POLICY = (TARGETS, "logprobs", "advantages")
CLIP = ("clip_low_threshold", "clip_high_threshold")
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "cross_entropy": (TARGETS, "weights"),
    "importance_sampling": POLICY,
    "ppo": POLICY,
    "cispo": POLICY,
    "dro": POLICY,
    "gspo": (*POLICY, "sequence_ratio_mask"),
    "stable_reinforce": POLICY,
    "custom": (),
}
OPTIONAL = {"ppo": CLIP, "cispo": CLIP, "gspo": CLIP}
CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    "ppo": CLIP,
    "cispo": CLIP,
    "gspo": CLIP,
    "dro": ("beta",),
    "stable_reinforce": ("kl_coeff",),
    "custom": ("loss_id",),
}

WARNINGS = frozenset(
    {
        "INP007", "TOK002", "TOK006", "VAL003", "SPN006", "SPN010",
        "SEQ005", "SEQ006", "SEQ009", "SEQ010", "SEQ011", "SEQ013",
        "SES003", "SES005", "ADV003", "ADV004", "ADV005", "CFG003",
    }
)  # fmt: skip
STABLE_REINFORCE_ALONE = frozenset(
    {"SPN002", "SPN007", "SPN008", "ADV001", "ADV002", "SES002", "SES003", "SES004"}
)
CUSTOM = frozenset(
    {
        "FMT004", "FMT005", "INP001", "INP002", "INP003", "INP004", "INP005", "INP006", "INP009", "VAL001",
        "CFG002",
    }
)  # fmt: skip


def in_contract(code: str, loss: str) -> bool:
    if loss == "custom":
        return code in CUSTOM
    return loss == "stable_reinforce" or code not in STABLE_REINFORCE_ALONE


def takes(loss: str) -> tuple[str, ...]:
    return (*REQUIRED[loss], *OPTIONAL.get(loss, ()))


def severity(code: str, loss: str) -> str:
    if code == "SEQ012" and loss != "stable_reinforce":
        return "warning"
    return "warning" if code in WARNINGS else "error"


def float32(value: float) -> float:
    try:
        return ctypes.c_float(value).value
    except OverflowError:  # an integer beyond any float
        return math.inf if value > 0 else -math.inf


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    """(first, length) of each contiguous run of the positions, which come in order."""
    found: list[tuple[int, int]] = []
    for position in positions:
        if found and sum(found[-1]) == position:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((position, 1))
    return found
