"""VAL: the numbers of the loss inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import TARGETS
from provenance.rules._batch import Batch
from provenance.rules._examples import RECORD, case
from provenance.rules._rule import EVERY_INPUT, Verdict, rule
from provenance.rules._sides import TARGET_SPANS
from provenance.rules._values import LARGEST


def _null_or_number(batch: Batch, field: str, element: int) -> Mapping[str, Any]:
    valid = batch.tensor(field).valid
    return {"value": "null"} if valid is not None and not valid[element] else {}


@rule(
    "VAL001",
    at="element",
    over=EVERY_INPUT,
    custom=True,
    message="{value} is not a finite number",
    detail=_null_or_number,
    evidence="observed",
    good=[case(), case({"loss_fn_inputs.logprobs.data.2": -64.41})],
    bad=[
        case({"loss_fn_inputs.advantages.data.2": float("nan")}),
        case({"loss_fn_inputs.logprobs.data.3": float("-inf")}),
        case({"loss_fn_inputs.logprobs.data.0": None}),
        case({"loss_fn_inputs.target_tokens.data.4": None}),
        case({"loss_fn_inputs.advantages.data.2": 1e39}),
        case({"loss_fn_inputs.logprobs.data.0": None, "loss_fn_inputs.logprobs.data.3": float("nan")}),
    ],
)
def non_finite_value(batch: Batch, field: str) -> Verdict:
    """A loss input holds NaN, an infinity, or null.

    A mask does not help: NaN * 0 is NaN, so unscored positions count as well. Advantages of a group without
    variance (0/0), logprobs of tokens that top-p removed (-inf), null from a server that could not encode
    NaN, and numbers beyond float32 are the usual sources. The official client turns None into NaN silently.
    Write 0 where nothing is scored, and leave out a datum whose sampled tokens have no number. Evidence:
    observed.
    """
    valid = batch.tensor(field).valid
    if field == TARGETS:
        return Verdict(valid)
    finite = batch.values(field).between(-LARGEST, LARGEST)
    if finite is None or valid is None:
        return Verdict(valid if finite is None else finite)
    return Verdict(finite & valid)


@rule(
    "VAL002",
    at="element",
    over=("logprobs",),
    given=("VAL001",),
    message="{value} > {tolerance}",
    detail=lambda batch, field, element: {"tolerance": batch.parameters.tolerance},
    evidence="ours",
    good=[
        case({"loss_fn_inputs.logprobs.data.2": 0.0001}),
        case({"loss_fn_inputs.logprobs.data.3": -0.0}),
        case({"loss_fn_inputs.logprobs.data.2": float("inf")}),
    ],
    bad=[case({"loss_fn_inputs.logprobs.data.1": 0.25})],
)
def positive_logprob(batch: Batch, field: str) -> Verdict:
    """A logprob is above 0, which no probability has.

    Raw logits, probabilities, or negated logprobs were stored instead. Rounding may leave a value just
    above 0, so ``tolerance`` (1e-4) is allowed. Take the logprobs that the sampler returned. Evidence:
    ours.
    """
    return Verdict(batch.values(field).between(-np.inf, np.float32(batch.parameters.tolerance)))


@rule(
    "VAL003",
    at="span",
    over=("logprobs",),
    given=("VAL001",),
    severity="warning",
    message="all {count} logprobs of this sampled run are exactly 0",
    detail=lambda batch, field, span: {"count": int(batch.spans(field).length[span])},
    evidence="ours",
    good=[
        case(parameters={"placeholder_run": 2}),
        case({"loss_fn_inputs.logprobs.data": [0.0] * 5}),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0] * 5, "sequences.0.logprobs": [0.0] * 3},
            parameters={"placeholder_run": 3},
        ),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0, 0.0, 0.0, 0.0, -0.625]}, parameters={"placeholder_run": 3}
        ),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0, 0.0, 0.0, -0.375, 0.0]}, parameters={"placeholder_run": 3}
        ),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0, 0.0, None, None, None]}, parameters={"placeholder_run": 3}
        ),
    ],
    bad=[
        case({"loss_fn_inputs.logprobs.data": [0.0] * 5}, parameters={"placeholder_run": 3}),
        case(
            {"datums.1.loss_fn_inputs.logprobs.data": [0.0]},
            turns="one-token",
            copies=2,
            parameters={"placeholder_run": 1},
        ),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0] * 5, "sequences.0.logprobs": [0.0, -0.375, 0.0]},
            parameters={"placeholder_run": 3},
        ),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0] * 5, "sequences.0.logprobs": [0.0] * 2},
            parameters={"placeholder_run": 3},
        ),
        case(
            {
                "loss_fn_inputs.logprobs.data": [0.0] * 5,
                "sequences.0.logprobs": [0.0] * 3,
                "sequences.1": RECORD,
            },
            parameters={"placeholder_run": 3},
        ),
    ],
)
def placeholder_logprobs(batch: Batch, field: str) -> Verdict:
    """A long sampled run has nothing but zeros as logprobs.

    A single 0.0 is common, a token can be certain; 32 in a row (``placeholder_run``) are a placeholder that
    somebody wrote before the real values, or a server that was not asked for logprobs. The ratio to the
    sampler is then wrong everywhere. Ask the sampler for logprobs, and pass on what it returned. Not reported
    where the ledger recorded the same zeros. Evidence: ours.
    """
    spans, starts = batch.spans(TARGET_SPANS), batch.target_starts
    applies = batch.sampled_spans & (spans.length >= max(1, batch.parameters.placeholder_run))
    values = batch.at_positions(field)
    valid = np.ones(len(applies), np.bool_)
    # Runs that begin and end with 0 are few, so that looking at each of them whole costs little.
    candidates = applies.nonzero()[0]
    ends = starts[candidates] + spans.length[candidates]
    zero_edges = (values[starts[candidates]] == 0) & (values[ends - 1] == 0)
    for span, end in zip(candidates[zero_edges].tolist(), ends[zero_edges].tolist(), strict=True):
        valid[span] = bool(values[starts[span] : end].any()) or _recorded_zeros(batch, span)
    return Verdict(valid, applies)


def _recorded_zeros(batch: Batch, span: int) -> bool:
    if batch.sequences is None or not batch.claims.claim_in_range(TARGET_SPANS)[span]:
        return False
    spans = batch.spans(TARGET_SPANS)
    start, length = int(spans.start[span]), int(spans.length[span])
    recorded = batch.table.sampled_logprobs(int(spans.sequence[span]))[start : start + length]
    return len(recorded) == length and not recorded.any()
