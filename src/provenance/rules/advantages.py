"""ADV: where the reward signal lies."""

from __future__ import annotations

import numpy as np

from provenance.columns import Mask
from provenance.rules._batch import Batch
from provenance.rules._examples import RECORD, WITHOUT_SPANS, case
from provenance.rules._rule import Verdict, rule
from provenance.rules._sides import TARGET_SPANS


@rule(
    "ADV001",
    at="position",
    over=("advantages",),
    given=("VAL001", "SPN002"),
    elsewhere="off",
    message="advantage {value} on a token that was not sampled",
    evidence="documented",
    good=[
        case(),
        case({"loss_fn_inputs.advantages.data.0": -0.0}),
        case({"loss_fn_inputs.advantages.data.1": 1e-60}),
        case({"loss_fn_inputs.advantages.data.0": float("nan")}),
        case(WITHOUT_SPANS),
    ],
    bad=[
        case({"loss_fn_inputs.advantages.data.0": 1e-9}),
        case({"loss_fn_inputs.advantages.data.3": 0.5}, turns="multi"),
    ],
)
def unsourced_advantage(batch: Batch, field: str) -> Mask:
    """A token carries reward signal but lies under no sampled target span.

    Prompt, tool output and user turns were not chosen by the model; training on them as if they were
    teaches it to write its own observations. A mask that covers the whole datum, or the turn after the one
    meant, is the usual cause. Set the advantage to 0 there. Any nonzero value counts, 1e-9 too; what
    float32 rounds to 0 is 0. Evidence: documented (StableReinforce page).
    """
    return ~batch.signal | batch.sampled


@rule(
    "ADV002",
    at="position",
    over=("advantages",),
    given=("SEQ001", "ADV001"),
    elsewhere="off",
    needs=("ledger",),
    message="advantage {value} on a sequence that was sampled without record_stability_info",
    evidence="documented",
    good=[
        case(),
        case({"sequences.0.record_stability_info": False, "loss_fn_inputs.advantages.data": [0.0] * 5}),
        case({"sequences.2": {**RECORD, "sequence_id": "s:2"}}, turns="multi"),
        case(
            {
                "sequences.0.record_stability_info": False,
                "sequences.2": {**RECORD, "sequence_id": "s:2"},
                "loss_fn_inputs.advantages.data": [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            },
            turns="multi",
        ),
    ],
    bad=[
        case({"sequences.0.record_stability_info": False}),
        case(
            {"sequences.0.record_stability_info": False, "sequences.2": {**RECORD, "sequence_id": "s:2"}},
            turns="multi",
        ),
    ],
)
def unrecorded_advantage(batch: Batch, field: str) -> Verdict:
    """A token carries reward signal, but its sequence was not recorded for stable_reinforce.

    The server needs what ``record_stability_info=True`` makes it keep at sampling time, and cannot
    reconstruct it. The sequence id comes back either way, so nothing else shows it. Create the sampling
    client with the flag. Evidence: documented (StableReinforce page).
    """
    known = batch.claims.comparable(TARGET_SPANS)
    recorded = batch.table.record_stability_info[batch.columns.target_spans.sequence]
    applies = batch.signal & batch.sampled
    if not known[batch.sampled_spans].all():
        applies &= batch.over_spans(TARGET_SPANS, known)
    return Verdict(None if recorded.all() else batch.over_spans(TARGET_SPANS, recorded), applies)


@rule(
    "ADV003",
    at="dataset",
    over=("advantages", "weights"),
    severity="warning",
    message="every value in the dataset is 0",
    evidence="ours",
    good=[
        case(),
        case({"datums.0.loss_fn_inputs.advantages.data": [0.0] * 5}, copies=2),
        case(loss="cross_entropy"),
    ],
    bad=[
        case({"loss_fn_inputs.advantages.data": [0.0] * 5}),
        case({"loss_fn_inputs.weights.data": [0.0] * 5}, loss="cross_entropy"),
    ],
)
def no_signal(batch: Batch, field: str) -> Verdict:
    """No advantage, or no weight, in the whole dataset is nonzero.

    The step trains on nothing but the KL term. All groups had constant rewards, or the advantages were lost
    on the way. Leave such groups out. Legal, hence a warning. Evidence: ours.
    """
    present = batch.tensor(field).present
    return Verdict(np.array([batch.values(field).nonzero.any()]), np.array([present.any()]))


@rule(
    "ADV004",
    at="element",
    over=("advantages",),
    given=("VAL001",),
    severity="warning",
    message="advantage {value} is larger than {limit} in absolute value",
    detail=lambda batch, field, element: {"limit": batch.parameters.advantage_limit},
    evidence="ours",
    good=[
        case({"loss_fn_inputs.advantages.data.2": -100.0}),
        case({"loss_fn_inputs.advantages.data.2": float("inf")}),
    ],
    bad=[
        case({"loss_fn_inputs.advantages.data.2": 7428.0}),
        case({"loss_fn_inputs.advantages.data.2": -7428.0}),
    ],
)
def large_advantage(batch: Batch, field: str) -> Verdict:
    """An advantage is larger than any plausible one.

    Dividing by the standard deviation of a group whose rewards differ by rounding only gives values in the
    thousands, and one such token outweighs the batch. Leave such groups out, or do not divide.
    ``advantage_limit`` is 100. Evidence: ours.
    """
    limit = np.float32(batch.parameters.advantage_limit)
    return Verdict(batch.values(field).between(-limit, limit))


@rule(
    "ADV005",
    at="span",
    over=("advantages",),
    given=("VAL001",),
    severity="warning",
    message="no advantage on the {edge} token of a sampled run that has one elsewhere",
    detail=lambda batch, field, span: {"edge": _bare_edges(batch, span)},
    evidence="ours",
    good=[
        case(),
        case({"loss_fn_inputs.advantages.data": [0.0] * 5}),
        case({"loss_fn_inputs.advantages.data.3": 0.0}),
        case(turns="one-token"),
        case({"loss_fn_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 3, "length": 0}}),
        case({"loss_fn_inputs.advantages.data.2": None}),
    ],
    bad=[
        case({"loss_fn_inputs.advantages.data.2": 0.0}),
        case({"loss_fn_inputs.advantages.data.4": 0.0}),
        case({"loss_fn_inputs.advantages.data": [0.0, 0.0, 0.0, 1.0, 0.0]}),
    ],
)
def edge_without_advantage(batch: Batch, field: str) -> Verdict:
    """A sampled run has an advantage inside but none on its first or last token.

    The mask is off by one, or the stop token was left out; the model then never learns to stop. Give every
    token of a sampled run its advantage, or none of them. Evidence: ours.
    """
    spans, starts = batch.columns.target_spans, batch.target_starts
    applies, signal = batch.sampled_runs, batch.signal
    chosen = applies.nonzero()[0]
    ends = starts[chosen] + spans.length[chosen]
    bare_edge = ~(signal[starts[chosen]] & signal[ends - 1])
    valid = np.ones(len(applies), np.bool_)
    # Most runs have an advantage on both edges, and the others mostly none at all.
    for span, end in zip(chosen[bare_edge].tolist(), ends[bare_edge].tolist(), strict=True):
        valid[span] = not signal[starts[span] : end].any()
    return Verdict(valid, applies)


def _bare_edges(batch: Batch, span: int) -> str:
    start = int(batch.target_starts[span])
    end = start + int(batch.columns.target_spans.length[span])
    edges = [name for name, at in (("first", start), ("last", end - 1)) if not batch.signal[at]]
    return " or the ".join(edges)
