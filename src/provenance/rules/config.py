"""CFG: the loss configuration, judged once for a dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import Mask
from provenance.loss_spec import is_finite
from provenance.rules._batch import Batch
from provenance.rules._examples import case
from provenance.rules._rule import EVERY_INPUT, rule


def _verdict(valid: bool) -> Mask:
    return np.array([valid])


def _expected(batch: Batch, key: str, element: int) -> Mapping[str, Any]:
    if not is_finite(batch.config[key]):
        return {"expected": "a finite number"}
    if key == "clip_high_threshold":
        return {"expected": f"at least clip_low_threshold, {batch.config['clip_low_threshold']!r}"}
    return {"expected": "0 or more"}


@rule(
    "CFG001",
    at="config",
    over=("kl_coeff", "clip_low_threshold", "clip_high_threshold", "beta"),
    message="{value} is not {expected}",
    detail=_expected,
    evidence="documented",
    good=[
        case(config={"kl_coeff": 0}),
        case(loss="ppo", config={"clip_low_threshold": 0.8, "clip_high_threshold": 1.28}),
        case(loss="dro", config={"beta": 0.05}),
        case(loss="ppo", config={"clip_low_threshold": 1.2, "clip_high_threshold": 1.2}),
        case(loss="ppo", config={"clip_high_threshold": 1.28}),
    ],
    bad=[
        case(config={"kl_coeff": -0.01}),
        case(config={"kl_coeff": math.nan}),
        case(config={"kl_coeff": True}),
        case(config={"kl_coeff": "0.01"}),
        case(loss="ppo", config={"clip_low_threshold": 1.2, "clip_high_threshold": 1.1}),
        case(loss="cispo", config={"clip_high_threshold": math.inf}),
        case(loss="dro", config={"beta": math.nan}),
    ],
)
def invalid_loss_config(batch: Batch, field: str) -> Mask:
    """A loss option has a value that the loss cannot use.

    kl_coeff is a finite float of 0 or more; clip thresholds and beta are finite, and the lower threshold is
    not above the upper one. A bool or a string is refused although some clients would convert it: True
    becomes a coefficient of 1.0. Evidence: documented (StableReinforce page) for kl_coeff, ours for the
    others.
    """
    value = batch.config[field]
    if not is_finite(value):
        return _verdict(False)
    if field == "kl_coeff":
        return _verdict(value >= 0)
    low = batch.config.get("clip_low_threshold")
    if field == "clip_high_threshold" and is_finite(low):
        return _verdict(bool(low <= value))
    return _verdict(True)


@rule(
    "CFG002",
    at="config",
    over=EVERY_INPUT,
    custom=True,
    message="{loss} has no option {field}; it knows {known}",
    detail=lambda batch, field, element: {
        "loss": batch.loss.name,
        "known": ", ".join(batch.loss.config) or "none",
    },
    evidence="observed",
    good=[case(config={"kl_coeff": 0.02})],
    bad=[
        case(config={"kl_coef": 0.02}),
        case(loss="cross_entropy", config={"kl_coeff": 0.01}),
        case(loss="ppo", config={"clip_low": 0.8}),
    ],
)
def unknown_loss_config(batch: Batch, field: str) -> Mask:
    """The loss configuration has a key that the loss does not know.

    A misspelt key leaves the default in force, and the run is not the one that was planned. Check the
    spelling against the loss's page. Evidence: observed (servers refuse unknown options).
    """
    return _verdict(field in batch.loss.config)


@rule(
    "CFG003",
    at="config",
    over=("clip_high_threshold",),
    given=("CFG001",),
    severity="warning",
    message="{value} looks like an epsilon; as a ratio it would be {ratio}",
    detail=lambda batch, field, element: {"ratio": 1 + batch.config[field]},
    evidence="ours",
    good=[
        case(loss="ppo", config={"clip_high_threshold": 1.28}),
        case(loss="ppo", config={"clip_high_threshold": math.nan}),
    ],
    bad=[
        case(loss="ppo", config={"clip_high_threshold": 0.28}),
        case(loss="cispo", config={"clip_high_threshold": 1.0}),
    ],
)
def epsilon_as_threshold(batch: Batch, field: str) -> Mask:
    """The upper clip threshold is not above 1, so it clips on-policy tokens.

    Tinker's thresholds are absolute ratios, papers and other frameworks state distances from 1: an epsilon of
    0.28 is a threshold of 1.28. With 0.28 every token is clipped from the first step on. Add 1 to a distance.
    Evidence: ours.
    """
    return _verdict(batch.config[field] > 1)
