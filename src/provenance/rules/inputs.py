"""INP: which loss inputs a datum has, and their dtypes, ranks and lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from provenance.columns import FLOAT32, INT64, Mask, any_in_rows
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, TWO_TARGETS, WITHOUT_SPANS, case
from provenance.rules._rule import EVERY_INPUT, REQUIRED_INPUTS, Verdict, rule

_UNMEASURED = {"type": "image", "format": "png", "data": "iVBORw0KGgo="}
#: Inputs whose int64 form loses nothing (INP007), so that it is no wrong dtype.
_MAY_BE_INTEGER: Final = ("advantages", "weights", "sequence_ratio_mask")


@rule(
    "INP001",
    at="datum",
    over=REQUIRED_INPUTS,
    gate=True,
    custom=True,
    message="missing; {loss} requires {required}",
    detail=lambda batch, field, datum: {
        "loss": batch.loss.name,
        "required": ", ".join(batch.loss.required),
    },
    evidence="documented",
    good=[case(), case(loss="cross_entropy"), case(loss="gspo")],
    bad=[
        case({"loss_fn_inputs.advantages": DROP}),
        case({"loss_fn_inputs.logprobs": None}),
        case({"loss_fn_inputs.sequence_ratio_mask": DROP}, loss="gspo"),
    ],
)
def missing_loss_input(batch: Batch, field: str) -> Mask:
    """A loss input that the loss requires is not there.

    The request would be refused. A null list counts as missing, an empty one as present. It happens when a
    dataset made for one loss is used with another, or a column is lost in a join. Add the input, or check
    against the loss you train with. Evidence: documented (Losses page).
    """
    tensor = batch.columns.inputs.get(field)
    return np.zeros(len(batch.columns), np.bool_) if tensor is None else tensor.present


@rule(
    "INP002",
    at="datum",
    over=EVERY_INPUT,
    custom=True,
    message="{loss} does not take this input; it takes {takes}",
    detail=lambda batch, field, datum: {
        "loss": batch.loss.name,
        "takes": ", ".join((*batch.loss.required, *batch.loss.optional)),
    },
    evidence="observed",
    good=[
        case(),
        case({"loss_fn_inputs.clip_low_threshold": {"data": [0.8] * 5, "dtype": "float32"}}, loss="ppo"),
        case({"loss_fn_inputs.mask": None}),
    ],
    bad=[
        case({"loss_fn_inputs.mask": {"data": [0.0, 0.0, 1.0, 1.0, 1.0], "dtype": "float32"}}),
        case({"loss_fn_inputs.logprobs": {"data": [0.0] * 5, "dtype": "float32"}}, loss="cross_entropy"),
        case({"datums.1.loss_fn_inputs.mask": {"data": [1.0] * 5, "dtype": "float32"}}, loss="ppo", copies=2),
    ],
)
def unknown_loss_input(batch: Batch, field: str) -> Verdict:
    """A datum carries a loss input that the loss does not take.

    Servers refuse the whole request for a leftover mask or weights tensor. Drop the input before upload; a
    mask belongs into the advantages. Evidence: observed (the official cookbook strips its mask before
    sending).
    """
    present = batch.tensor(field).present
    return Verdict(None if batch.loss.takes(field) else ~present, present)


def _dtype_problem(batch: Batch, field: str, datum: int) -> Mapping[str, Any]:
    tensor = batch.tensor(field)
    expected = "int64" if field in batch.loss.int64 else "float32"
    declared = {INT64: "declared int64", FLOAT32: "declared float32"}.get(
        int(tensor.declared[datum]), "declared an unknown dtype"
    )
    return {"problem": tensor.notes.get(datum, declared), "expected": expected}


@rule(
    "INP003",
    at="datum",
    over=EVERY_INPUT,
    gate=True,
    custom=True,
    message="{problem}, expected {expected}",
    detail=_dtype_problem,
    evidence="documented",
    good=[
        case(),
        case({"loss_fn_inputs.target_tokens.data.0": 12.0}),
        case({"loss_fn_inputs.advantages": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}),
        case({"loss_fn_inputs.turn": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}, loss="custom"),
        case({"loss_fn_inputs.mask": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}),
    ],
    bad=[
        case({"loss_fn_inputs.logprobs.dtype": "bfloat16"}),
        case({"loss_fn_inputs.target_tokens.dtype": "float32"}),
        case({"loss_fn_inputs.target_tokens.data.1": 13.5}),
        case({"loss_fn_inputs.logprobs": {"data": [0, 0, 0, 0, 0], "dtype": "int64"}}),
    ],
)
def wrong_dtype(batch: Batch, field: str) -> Verdict:
    """A loss input is not declared with the dtype it has to have.

    Token ids are int64 and everything else float32; Tinker's tensors know no other dtype. Arrays of
    float16, float64 and bfloat16 are narrowed or widened when a datum is built, but a *declared* dtype must
    be one of the two, and an id must be a whole number: the official client turns 2.7 into 2 without a
    word. Integer advantages, weights and masks lose nothing and are INP007. Evidence: documented (Datum
    page).
    """
    tensor = batch.tensor(field)
    if field in batch.loss.int64:
        valid = tensor.declared == INT64
    else:
        valid = tensor.declared == FLOAT32
        if field in _MAY_BE_INTEGER or not batch.loss.declared:
            valid |= tensor.declared == INT64
    for datum in tensor.notes:
        valid[datum] = False
    return Verdict(valid, tensor.present if batch.loss.takes(field) else np.zeros_like(valid))


def _shape(batch: Batch, field: str, datum: int) -> Mapping[str, Any]:
    tensor = batch.tensor(field)
    rank, count = int(tensor.rank[datum]), int(tensor.offsets[datum + 1] - tensor.offsets[datum])
    allowed = batch.loss.ranks_of(field)
    if rank not in allowed:
        wanted = " or ".join({0: "a scalar", 1: "(N,)", 2: "(N, K)"}[r] for r in allowed)
        if rank == 2:
            return {
                "problem": f"shape ({int(tensor.rows[datum])}, {int(tensor.width[datum])})",
                "expected": wanted,
            }
        return {"problem": f"{rank} dimension{'s' * (rank != 1)}", "expected": wanted}
    return {"problem": f"{count} value{'s' * (count != 1)}", "expected": "as many as the shape says"}


@rule(
    "INP004",
    at="datum",
    over=EVERY_INPUT,
    gate=True,
    custom=True,
    message="{problem}, expected {expected}",
    detail=_shape,
    evidence="documented",
    good=[
        case(),
        case(TWO_TARGETS, loss="cross_entropy"),
        case({"loss_fn_inputs.mask": {"data": [1.0] * 5, "dtype": "float32", "shape": [1, 5]}}),
    ],
    bad=[
        case({"loss_fn_inputs.logprobs.shape": [1, 5]}),
        case({"loss_fn_inputs.advantages.shape": [4]}),
        case({"loss_fn_inputs.target_tokens.shape": [5, 1, 1]}, loss="custom"),
        case({"loss_fn_inputs.advantages": {"data": [1.0], "dtype": "float32", "shape": []}}),
        case({"datums.1.loss_fn_inputs.logprobs.data": [-0.5]}, copies=2),
    ],
)
def wrong_rank(batch: Batch, field: str) -> Verdict:
    """A loss input has the wrong number of dimensions, or a shape that its values do not fill.

    One value a position, or (N, K) for cross entropy. A leftover batch dimension, (1, N), is the usual cause,
    and the official client skips its own span check for such a tensor. Take the batch dimension away before
    the datum is built. Evidence: documented (Losses page).
    """
    tensor = batch.tensor(field)
    first, *others = batch.loss.ranks_of(field)
    allowed = tensor.rank == first
    for rank in others:
        allowed |= tensor.rank == rank
    valid = tensor.sound & allowed
    return Verdict(valid, tensor.present if batch.loss.takes(field) else np.zeros_like(valid))


@rule(
    "INP005",
    at="datum",
    over=EVERY_INPUT,
    given=("INP004",),
    gate=True,
    custom=True,
    message="{rows} rows for {positions} positions of model_input",
    detail=lambda batch, field, datum: {
        "rows": int(batch.tensor(field).rows[datum]),
        "positions": int(batch.lengths[datum]),
    },
    evidence="documented",
    good=[
        case(),
        case({"loss_fn_inputs.mask": {"data": [1.0] * 3, "dtype": "float32"}}),
        case(
            {"datums.1.loss_fn_inputs.scale": {"data": [0.5], "dtype": "float32", "shape": []}},
            loss="custom",
            copies=2,
        ),
        case({**WITHOUT_SPANS, "model_input.chunks.1": _UNMEASURED}, loss="ppo"),
        case({"loss_fn_inputs.logprobs.shape": [1, 5]}),
        case(
            {
                "datums.0.model_input.chunks": [_UNMEASURED],
                "datums.0.model_input_spans": DROP,
                "datums.1.model_input.chunks": [_UNMEASURED],
                "datums.1.loss_fn_input_spans": DROP,
            },
            copies=2,
        ),
    ],
    bad=[
        case(
            {"loss_fn_inputs.logprobs": {"data": [-0.125, -0.375, -0.625], "dtype": "float32", "shape": [3]}}
        ),
        case({"model_input.chunks.0.tokens.5": 2, "model_input_spans.1.length": 3}),
    ],
)
def length_mismatch(batch: Batch, field: str) -> Verdict:
    """A loss input has more or fewer rows than model_input has positions.

    Input and targets are shifted by one against each other, so both are one shorter than the full sequence:
    model_input keeps its last token, or logprobs cover the completion alone, or text was tokenised again.
    Build all of them from the same full sequence: input = F[:-1], targets = F[1:]. An image of
    unknown length is taken to be as long as the targets leave room for. Evidence: documented (Datum page).
    """
    tensor = batch.tensor(field)
    valid = tensor.rows == batch.lengths
    if not batch.loss.takes(field):
        return Verdict(None, np.zeros_like(valid))
    return Verdict(valid, tensor.present & (tensor.rank > 0) & (batch.measured | ~batch.spanned))


@rule(
    "INP006",
    at="datum",
    over=("model_input",),
    gate=True,
    custom=True,
    message="no positions",
    evidence="observed",
    good=[
        case(),
        case(turns="one-token"),
        case({"model_input.chunks": [_UNMEASURED]}),
    ],
    bad=[
        case(
            {
                "model_input.chunks": [],
                "loss_fn_inputs.target_tokens": {"data": [], "dtype": "int64", "shape": [0]},
                "loss_fn_inputs.logprobs": {"data": [], "dtype": "float32", "shape": [0]},
                "loss_fn_inputs.advantages": {"data": [], "dtype": "float32", "shape": [0]},
                "model_input_spans": [],
                "loss_fn_input_spans": [],
            }
        )
    ],
)
def empty_datum(batch: Batch, field: str) -> Mask:
    """A datum has no positions at all.

    There is nothing to train on, and servers refuse it. A rollout that ended before its first token leaves
    such a datum behind; drop it. Evidence: observed.
    """
    return (batch.lengths > 0) | ~batch.measured


@rule(
    "INP007",
    at="datum",
    over=_MAY_BE_INTEGER,
    severity="warning",
    message="declared int64, expected float32",
    evidence="observed",
    good=[case(), case({"loss_fn_inputs.advantages.data": [0, 0, 1, 1, 1]})],
    bad=[
        case({"loss_fn_inputs.advantages": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}),
        case({"loss_fn_inputs.weights": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}, loss="cross_entropy"),
        case(
            {"loss_fn_inputs.sequence_ratio_mask": {"data": [0, 0, 1, 1, 1], "dtype": "int64"}}, loss="gspo"
        ),
    ],
)
def integer_loss_input(batch: Batch, field: str) -> Verdict:
    """Advantages, weights or a mask are declared int64.

    Nothing is lost, and the official client sends it as it is, but nobody documents that a server takes it.
    A list of Python ints becomes int64; write floats. Evidence: observed.
    """
    tensor = batch.tensor(field)
    return Verdict(tensor.declared != INT64, tensor.present)


def _ratio_mask_problem(batch: Batch, field: str, datum: int) -> Mapping[str, Any]:
    tensor = batch.tensor(field)
    start, stop = tensor.offsets[datum : datum + 2]
    values = tensor.values[start:stop]
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        return {"problem": f"{float(values[wrong[0]])!r} at position {int(wrong[0])}, expected 0 or 1"}
    return {"problem": "no 1 in the mask: the mean ratio over no token is NaN"}


@rule(
    "INP008",
    at="datum",
    over=("sequence_ratio_mask",),
    given=("INP005", "VAL001"),
    message="{problem}",
    detail=_ratio_mask_problem,
    evidence="documented",
    good=[
        case(loss="gspo"),
        case({"loss_fn_inputs.sequence_ratio_mask.data.3": float("nan")}, loss="gspo"),
    ],
    bad=[
        case({"loss_fn_inputs.sequence_ratio_mask.data.3": 0.5}, loss="gspo"),
        case({"loss_fn_inputs.sequence_ratio_mask.data": [0.0] * 5}, loss="gspo"),
        case({"loss_fn_inputs.sequence_ratio_mask.data.3": 0.5}, loss="gspo", copies=2),
    ],
)
def invalid_ratio_mask(batch: Batch, field: str) -> Verdict:
    """The mask of the sequence ratio is not made of 0 and 1, or has no 1.

    gspo averages the log-ratio over the mask; a fractional mask weighs tokens, and an empty one divides by
    zero, which makes the whole loss NaN. Mark the sampled tokens with 1. Evidence: documented (Losses page,
    gspo).
    """
    tensor = batch.tensor(field)
    ones = tensor.values == 1
    fractional = any_in_rows((tensor.values != 0) & ~ones, tensor.offsets)
    return Verdict(~fractional & any_in_rows(ones, tensor.offsets), tensor.present)


@rule(
    "INP009",
    at="datum",
    over=("model_input",),
    needs=("max_tokens",),
    custom=True,
    message="{positions} positions, at most {limit}",
    detail=lambda batch, field, datum: {
        "positions": int(batch.lengths[datum]),
        "limit": batch.parameters.max_tokens,
    },
    evidence="observed",
    good=[case(parameters={"max_tokens": 5})],
    bad=[case(parameters={"max_tokens": 4})],
)
def datum_too_long(batch: Batch, field: str) -> Mask:
    """A datum is longer than the model's context.

    The request is refused, or a server cuts it. Drop the datum: what is cut is no whole sequence any more.
    Checked only where ``max_tokens`` is given, since the limit belongs to the model. Evidence: observed.
    """
    limit = batch.parameters.max_tokens
    return batch.lengths <= (batch.lengths if limit is None else limit)
