"""SPN: the two span lists of a datum, as far as they can be judged without knowing what was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import OTHER_KIND, SAMPLED, TARGETS, Ints, Mask, Spans, any_in_rows, sums_of_rows
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, RECORD, WITHOUT_SPANS, case
from provenance.rules._rule import Verdict, rule
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS

_BOTH = (INPUT_SPANS, TARGET_SPANS)
#: Lengths are capped before they are summed, so that a sum of nonsense cannot wrap around to the right one.
_CAP = 1 << 40
_EMPTY = {"type": "sampled", "sequence_id": "s:1", "offset": 2, "length": 0}


@rule(
    "SPN001",
    at="datum",
    over=(TARGET_SPANS,),
    gate=True,
    message="only {present} is there",
    detail=lambda batch, field, datum: {
        "present": INPUT_SPANS if batch.columns.input_spans.present[datum] else TARGET_SPANS
    },
    evidence="documented",
    good=[
        case(),
        case(WITHOUT_SPANS, loss="ppo"),
    ],
    bad=[case({"loss_fn_input_spans": DROP}), case({"model_input_spans": None})],
)
def unpaired_spans(batch: Batch, field: str) -> Mask:
    """A datum has one of its two span lists and not the other.

    Provenance comes as a pair: the input spans say where the input's tokens come from, the other list where
    the targets do. An empty list counts as a list. Attach both with ``Datum.with_provenance``. Evidence:
    documented (Datum page; the official client only asserts it).
    """
    paired: Mask = batch.columns.input_spans.present == batch.columns.target_spans.present
    return paired


@rule(
    "SPN002",
    at="datum",
    over=(TARGET_SPANS,),
    given=("SPN001",),
    elsewhere="off",
    message="missing; {loss} needs provenance on every datum",
    detail=lambda batch, field, datum: {"loss": batch.loss.name},
    evidence="documented",
    good=[case()],
    bad=[case(WITHOUT_SPANS)],
)
def missing_spans(batch: Batch, field: str) -> Mask:
    """A datum carries no spans, and the loss needs them.

    stable_reinforce takes its KL term over what the spans call sampled; without spans the request is
    refused. The sampling responses carry the sequence ids that spans name: keep them, and build both lists.
    Evidence: documented (StableReinforce page).
    """
    return batch.columns.target_spans.present


def _covered(spans: Spans) -> Ints:
    return sums_of_rows(np.minimum(np.maximum(spans.length, -_CAP), _CAP), spans.offsets)


@rule(
    "SPN003",
    at="datum",
    over=(INPUT_SPANS,),
    given=("INP005", "TOK003", "SPN005"),
    gate=True,
    message="spans cover {covered} positions, model_input has {positions}",
    detail=lambda batch, field, datum: {
        "covered": int(_covered(batch.columns.input_spans)[datum]),
        "positions": int(batch.lengths[datum]),
    },
    evidence="documented",
    good=[
        case(),
        case(turns="multi"),
        case(WITHOUT_SPANS, loss="ppo"),
        case({"model_input.chunks.0.tokens.5": 2}),
        case({"model_input_spans.1.length": -3}),
        case({"model_input.chunks": [{"type": "image", "format": "png", "data": "iVBORw0KGgo="}]}),
    ],
    bad=[case({"model_input_spans.1.length": 1}), case({"model_input_spans.0.length": 4})],
)
def untiled_input(batch: Batch, field: str) -> Verdict:
    """The input spans do not add up to the length of the input.

    Spans tile their field: consecutive runs, every position in exactly one, position by order. Too few
    positions are covered after padding or after appending an EOS token; there is no span for such tokens, so
    they cannot be trained on. Cut input and targets to what the spans cover. The official client checks this
    in ``with_provenance`` only. Evidence: documented (Datum page).
    """
    spans = batch.columns.input_spans
    return Verdict(_covered(spans) == batch.lengths, spans.present)


def _target_rows(batch: Batch) -> Ints:
    if not batch.looks_at(TARGETS):  # the rule is off, and what other rules see has to fit together
        return batch.lengths
    tensor = batch.columns.inputs.get(TARGETS)
    return np.full(len(batch.columns), -1) if tensor is None else np.where(tensor.present, tensor.rows, -1)


@rule(
    "SPN004",
    at="datum",
    over=(TARGET_SPANS,),
    reads=(TARGETS,),
    given=("INP004", "SPN005"),
    gate=True,
    message="spans cover {covered} positions, target_tokens has {rows}",
    detail=lambda batch, field, datum: {
        "covered": int(_covered(batch.columns.target_spans)[datum]),
        "rows": int(_target_rows(batch)[datum]),
    },
    evidence="documented",
    good=[
        case(),
        case(turns="multi"),
        case(WITHOUT_SPANS, loss="ppo"),
        case({"loss_fn_inputs.target_tokens": DROP}),
        case({"datums.1.loss_fn_inputs.target_tokens": DROP}, copies=2),
        case({"loss_fn_inputs.target_tokens.shape": [1, 5]}),
        case({"loss_fn_input_spans.1.length": 3.5}),
    ],
    bad=[
        case({"loss_fn_input_spans.1.length": 2}),
        case({"loss_fn_input_spans.0.length": 3}),
        case({"loss_fn_inputs.target_tokens": {"data": [], "dtype": "int64", "shape": [0]}}),
    ],
)
def untiled_targets(batch: Batch, field: str) -> Verdict:
    """The target spans do not add up to the rows of target_tokens.

    See SPN003; this is the same for the other list. Copying the input spans without the shift by one is a
    common cause: the first prompt token is no target, and the last sampled token is no input. Evidence:
    documented (Datum page).
    """
    spans, rows = batch.columns.target_spans, _target_rows(batch)
    return Verdict(_covered(spans) == rows, spans.present & (rows >= 0))


def _span_problem(batch: Batch, field: str, span: int) -> Mapping[str, Any]:
    spans = batch.spans(field)
    if span in spans.notes:
        return {"problem": spans.notes[span]}
    if spans.kind[span] == OTHER_KIND:
        return {"problem": "type is neither prompt nor sampled"}
    if spans.sequence[span] < 0 or batch.columns.ids[spans.sequence[span]] == "":
        return {"problem": "sequence_id is empty"}
    name, value = ("offset", spans.start[span]) if spans.start[span] < 0 else ("length", spans.length[span])
    return {"problem": f"{name} is {int(value)}, expected 0 or more"}


@rule(
    "SPN005",
    at="span",
    over=_BOTH,
    gate=True,
    message="{problem}",
    detail=_span_problem,
    evidence="documented",
    good=[
        case(),
        case({"model_input_spans.0.offset": None}),
        case({"model_input_spans.2": _EMPTY}),
    ],
    bad=[
        case({"loss_fn_input_spans.1.type": "sample"}),
        case({"model_input_spans.0.sequence_id": ""}),
        case({"loss_fn_input_spans.0.sequence_id": None}),
        case({"model_input_spans.0.offset": -1}),
        case({"loss_fn_input_spans.1.length": -3}),
        case({"loss_fn_input_spans.1.length": 3.5}),
    ],
)
def invalid_span(batch: Batch, field: str) -> Mask:
    """A span is not one: its type, sequence_id, offset or length has no meaning.

    The type is prompt or sampled, the id a non-empty string, offset and length are integers of 0 or more;
    offset is 0 where it is left out. Evidence: documented (Datum page; the official client refuses these
    too).
    """
    spans = batch.spans(field)
    valid: Mask = (spans.kind != OTHER_KIND) & (spans.sequence >= 0)
    valid &= (spans.start >= 0) & (spans.length >= 0)
    if "" in batch.columns.ids:
        valid &= spans.sequence != batch.columns.ids.index("")
    for span in spans.notes:
        valid[span] = False
    return valid


@rule(
    "SPN006",
    at="span",
    over=_BOTH,
    severity="warning",
    message="a {kind} span of length 0",
    detail=lambda batch, field, span: {
        "kind": "sampled" if batch.spans(field).kind[span] == SAMPLED else "prompt"
    },
    evidence="observed",
    good=[
        case(),
        case(turns="multi"),
    ],
    bad=[
        case({"model_input_spans.2": _EMPTY}),
        case({"loss_fn_input_spans.2": {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 0}}),
    ],
)
def zero_length_span(batch: Batch, field: str) -> Mask:
    """A span covers no position.

    It says nothing. SDK 0.35 and later accept it and an official recipe writes one for a one-token
    completion; older SDKs and some servers refuse it. Leave empty spans out. Evidence:
    observed.
    """
    valid: Mask = batch.spans(field).length >= 1
    return valid


@rule(
    "SPN007",
    at="datum",
    over=(TARGET_SPANS,),
    given=("SPN002", "INP006"),
    elsewhere="off",
    message="no sampled span among the targets",
    evidence="documented",
    good=[
        case(),
        case(turns="one-token"),
        case(WITHOUT_SPANS),
    ],
    bad=[
        case({"loss_fn_input_spans": [{"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 5}]}),
        case(
            {
                "loss_fn_input_spans": [
                    {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 5},
                    {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 0},
                ]
            }
        ),
    ],
)
def no_sampled_target(batch: Batch, field: str) -> Verdict:
    """No target of a datum is said to be sampled.

    There is nothing the loss could act on, and the request is refused. The datum holds a prompt only, or its
    completion was marked as prompt. Drop the datum, or mark what was sampled. Evidence: documented
    (StableReinforce page).
    """
    spans = batch.columns.target_spans
    return Verdict(any_in_rows(batch.sampled_runs, spans.offsets), spans.present)


def _partial(batch: Batch, field: str, span: int) -> Mapping[str, Any]:
    spans = batch.columns.target_spans
    start, length = int(spans.start[span]), int(spans.length[span])
    whole = "its sequence, expected the whole of it"
    if batch.sequences is not None and batch.claims.comparable(TARGET_SPANS)[span]:
        whole = f"a sequence of {int(batch.table.token_length[spans.sequence[span]])}, expected all of them"
    return {"start": start, "end": start + length, "whole": whole}


@rule(
    "SPN008",
    at="span",
    over=(TARGET_SPANS,),
    given=("SEQ002",),
    elsewhere="off",
    partly={"ledger": "that a sampled span reaches the end of its sequence"},
    message="a sampled target covers tokens {start}:{end} of {whole}",
    detail=_partial,
    evidence="documented",
    good=[
        case(),
        case(turns="multi"),
        case({"sequences.0.tokens": [21, 22], "sequences.0.logprobs": [-0.125, -0.375]}),
        case({"sequences.0.tokens.3": 5, "sequences.0.logprobs.3": -0.5, "sequences.1": RECORD}),
    ],
    bad=[
        case(
            {
                "loss_fn_input_spans.1": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
                "loss_fn_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 2, "length": 1},
            }
        ),
        case({"sequences.0.tokens.3": 5, "sequences.0.logprobs.3": -0.5}),
        case({"loss_fn_input_spans.1.offset": 1, "sequences.0": DROP}),
    ],
)
def partial_sequence(batch: Batch, field: str) -> Verdict:
    """A sampled target span does not cover its whole sequence.

    Among the targets each sampled sequence stands as one run from its first token to its last; input spans
    may cover a part. A run that was split, a completion cut to a length limit after sampling, or an empty
    first observation (its first token has no position that predicts it) break this. Train on the whole
    sequence with zero advantages where it should not count. Evidence: documented (StableReinforce page).
    """
    spans = batch.columns.target_spans
    valid = spans.start == 0
    if batch.sequences is not None:
        whole = spans.length == batch.table.token_length[spans.sequence]
        valid &= whole | ~batch.claims.comparable(field)
    return Verdict(valid, batch.sampled_spans)


@rule(
    "SPN009",
    at="position",
    over=(TARGET_SPANS,),
    message="target and next input name the same sequence, but not the same position of it",
    evidence="ours",
    good=[case(), case(turns="multi")],
    bad=[
        case({"loss_fn_input_spans.0.offset": 0}),
        case({"model_input_spans.1.offset": 1}),
    ],
)
def misaligned_spans(batch: Batch, field: str) -> Verdict:
    """The two span lists are not shifted by one against each other.

    Target i is the token that input i + 1 holds, so where both are said to come from the same sequence they
    are the same position of it. Target spans that were copied from the input spans, with the lengths
    corrected but not the offsets, fail here. Needs no ledger. Evidence: ours (that input and
    targets are aligned is documented).
    """
    shifted = batch.shifted
    applies = shifted.over(shifted.same_source)
    misplaced = shifted.same_source & ~shifted.same_place
    return Verdict(~shifted.over(misplaced) if misplaced.any() else None, applies)


@rule(
    "SPN010",
    at="span",
    over=_BOTH,
    severity="warning",
    message="starts at {start} of its sequence, the span before it ended at {end}",
    detail=lambda batch, field, span: {
        "start": int(batch.spans(field).start[span]),
        "end": int(batch.spans(field).start[span - 1]) + int(batch.spans(field).length[span - 1]),
    },
    evidence="ours",
    good=[
        case(),
        case(
            {
                "model_input_spans.0.length": 1,
                "model_input_spans.1": {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 2},
                "model_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
            }
        ),
        case(
            {
                "model_input_spans.0": {
                    "type": "prompt",
                    "sequence_id": "s:sibling",
                    "offset": 0,
                    "length": 1,
                },
                "model_input_spans.1": {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 2},
                "model_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
            }
        ),
        case(
            {
                "model_input_spans.1": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 1},
                "model_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 1, "length": 1},
                "model_input_spans.3": {"type": "prompt", "sequence_id": "s:2", "offset": 4, "length": 1},
                "model_input_spans.4": {"type": "prompt", "sequence_id": "s:2", "offset": 5, "length": 1},
                "model_input_spans.5": {"type": "sampled", "sequence_id": "s:2", "offset": 0, "length": 1},
            },
            turns="multi",
        ),
        case(
            {
                "datums.1.model_input_spans": DROP,
                "datums.1.loss_fn_input_spans": DROP,
            },
            loss="ppo",
            copies=2,
        ),
        case({"datums.1.model_input_spans.0.sequence_id": "s:1"}, turns="one-token", copies=2),
    ],
    bad=[
        case(
            {
                "model_input_spans.0.length": 1,
                "model_input_spans.1": {"type": "prompt", "sequence_id": "s:1", "offset": 2, "length": 2},
                "model_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
            }
        ),
        case(
            {
                "loss_fn_input_spans.0.length": 1,
                "loss_fn_input_spans.1": {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 1},
                "loss_fn_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 3},
            }
        ),
    ],
)
def discontiguous_spans(batch: Batch, field: str) -> Verdict:
    """Two adjacent spans name the same sequence, and the second does not continue the first.

    The middle of a prompt was cut out to fit a length limit, or spans were merged in the wrong order. Each
    span may be right and the text still skips. Leave out the datum that is too long, or start a new one where
    the text was cut. Evidence: ours.
    """
    spans = batch.spans(field)
    # One more than there are spans, because a datum without any may come last.
    follows = np.zeros(len(spans.kind) + 1, np.bool_)
    follows[1:-1] = (spans.sequence[1:] == spans.sequence[:-1]) & (spans.kind[1:] == spans.kind[:-1])
    follows[spans.offsets] = False
    continues = np.ones(len(spans.kind), np.bool_)
    continues[1:] = spans.start[1:] == spans.start[:-1] + spans.length[:-1]
    return Verdict(continues, follows[:-1])
