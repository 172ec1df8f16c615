"""TOK: token ids and the chunks of the input, and the shift between input and targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import IMAGE, IMAGE_POINTER, TARGETS, TEXT, UNKNOWN_LENGTH, Mask, lengths_of
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, TWO_TARGETS, WITH_IMAGE, WITHOUT_SPANS, case
from provenance.rules._rule import Verdict, rule

_IMAGE = {"type": "image", "format": "png", "data": "iVBORw0KGgo=", "expected_tokens": 1}
_POINTER = {"type": "image_asset_pointer", "format": "png", "location": "a.png", "expected_tokens": 1}
_UNMEASURED = {"type": "image", "format": "png", "data": "iVBORw0KGgo="}


def _id_and_bound(batch: Batch, field: str, element: int) -> Mapping[str, Any]:
    vocabulary = batch.parameters.vocab_size
    bound = f"the vocabulary size {vocabulary}" if batch.token_limit == vocabulary else "2^31"
    nulls = batch.columns.null_tokens
    if field == "model_input" and nulls is not None and nulls[element]:
        return {"value": "null", "bound": bound}
    return {"bound": bound}


@rule(
    "TOK001",
    at="element",
    over=("model_input", TARGETS),
    partly={"vocab_size": "the upper bound of a token id"},
    message="{value} is not a token id, expected 0 <= id < {bound}",
    detail=_id_and_bound,
    evidence="observed",
    good=[
        case(),
        case(parameters={"vocab_size": 23}),
        case(WITH_IMAGE),
        case({"loss_fn_inputs.target_tokens.data.0": None}),
    ],
    bad=[
        case({"loss_fn_inputs.target_tokens.data.0": -100}),
        case({"model_input.chunks.0.tokens.0": -1}),
        case({"loss_fn_inputs.target_tokens.data.4": 2**31}),
        case({"model_input.chunks.0.tokens.1": None}),
        case(parameters={"vocab_size": 22}),
        case({"loss_fn_inputs.target_tokens.data.4": 2**31}, parameters={"vocab_size": 2**32}),
        case(
            {
                "model_input.chunks.0.tokens.1": None,
                "model_input.chunks.0.tokens.3": -1,
                "loss_fn_inputs.target_tokens.data.1": -100,
            }
        ),
    ],
)
def token_out_of_range(batch: Batch, field: str) -> Verdict:
    """A token id is negative, null, too large for int32, or not in the vocabulary.

    -100 is a label for ignored positions in other frameworks; Tinker scores by advantages and weights and
    looks every id up. An id beyond the vocabulary is another tokenizer's. Use the true next token as the
    target (0 where the position is no text). The upper bound is checked where ``vocab_size`` is given.
    Evidence: observed.
    """
    if field == "model_input":
        return Verdict(batch.readable_tokens, batch.columns.text)
    return Verdict(batch.values(field).between(0, batch.token_limit - 1), batch.tensor(field).valid)


@rule(
    "TOK002",
    at="chunk",
    over=("model_input",),
    severity="warning",
    message="an encoded_text chunk without tokens",
    evidence="observed",
    good=[
        case(),
        case(WITH_IMAGE),
        case({"model_input.chunks.1": {**_IMAGE, "expected_tokens": 0}}),
    ],
    bad=[case({"model_input.chunks.1": {"type": "encoded_text", "tokens": []}})],
)
def empty_text_chunk(batch: Batch, field: str) -> Mask:
    """The input has a text chunk without tokens.

    It has no effect, an official recipe leaves one behind for a one-token completion, and a public report
    has a server refusing it. Append a chunk only when there are tokens. Evidence: observed.
    """
    chunks = batch.columns.chunks
    valid: Mask = (chunks.kind != TEXT) | (chunks.length > 0)
    return valid


@rule(
    "TOK003",
    at="chunk",
    over=("model_input",),
    gate=True,
    message="an image without expected_tokens in a datum with spans",
    evidence="documented",
    good=[
        case(WITH_IMAGE),
        case({**WITH_IMAGE, **WITHOUT_SPANS, "model_input.chunks.1": _UNMEASURED}, loss="ppo"),
    ],
    bad=[
        case({**WITH_IMAGE, "model_input.chunks.1": {**_IMAGE, "expected_tokens": None}}),
        case(
            {
                **WITH_IMAGE,
                "model_input.chunks.1": {k: v for k, v in _POINTER.items() if k != "expected_tokens"},
            }
        ),
        case(
            {
                "datums.0.model_input.chunks.1": _UNMEASURED,
                "datums.0.model_input_spans": DROP,
                "datums.1.model_input.chunks.1": _UNMEASURED,
                "datums.1.loss_fn_input_spans": DROP,
            },
            copies=2,
        ),
    ],
)
def unknown_chunk_length(batch: Batch, field: str) -> Verdict:
    """An image does not say how many positions it takes, in a datum that carries spans.

    Spans and loss inputs count image positions too, so nothing can be compared with an input of unknown
    length. Set ``expected_tokens``. In a datum without spans it is optional; its length is then what the
    targets leave for it. Evidence: documented (Datum page: the length of an image chunk is its
    expected_tokens).
    """
    chunks = batch.columns.chunks
    images = (chunks.kind == IMAGE) | (chunks.kind == IMAGE_POINTER)
    in_spanned = batch.spanned.repeat(lengths_of(chunks.offsets))
    return Verdict(chunks.length != UNKNOWN_LENGTH, images & in_spanned)


@rule(
    "TOK004",
    at="chunk",
    over=("model_input",),
    message="an image_asset_pointer cannot be sent in a training request",
    evidence="observed",
    good=[case(WITH_IMAGE)],
    bad=[case({**WITH_IMAGE, "model_input.chunks.1": _POINTER})],
)
def untrainable_chunk(batch: Batch, field: str) -> Mask:
    """The input refers to an image by its location.

    Such a pointer is fine for sampling; the official client cannot encode it in a training request. Load the
    image and use an image chunk with its bytes. Evidence: observed.
    """
    valid: Mask = batch.columns.chunks.kind != IMAGE_POINTER
    return valid


def _next_input(batch: Batch, field: str, position: int) -> Mapping[str, Any]:
    return {"next": int(batch.columns.tokens[position + 1])}


@rule(
    "TOK005",
    at="position",
    over=(TARGETS,),
    given=("TOK001", "VAL001"),
    message="{value} is not the next input token {next}, though both claim the same sampled position",
    detail=_next_input,
    evidence="ours",
    good=[
        case(),
        case(turns="multi"),
        case({"loss_fn_inputs.target_tokens.data.0": 0}),
        case({"model_input.chunks.0.tokens.3": -1}),
        case({"model_input_spans.1.offset": 1}),
        case({**TWO_TARGETS, "model_input.chunks.0.tokens.3": 99}, loss="cross_entropy"),
        case({"loss_fn_inputs.target_tokens.data": [12, 13, -100, None, 2]}),
    ],
    bad=[case({"loss_fn_inputs.target_tokens.data.2": 99}), case({"model_input.chunks.0.tokens.4": 99})],
)
def target_not_shifted(batch: Batch, field: str) -> Verdict:
    """A target differs from the next input token, though both are said to be the same sampled token.

    One of the two was edited or cut without the other: targets were not shifted, or the text was tokenised
    again for one of them. Take both from one sequence, input = F[:-1] and targets = F[1:]. Needs no ledger.
    Evidence: ours.
    """
    shifted = batch.shifted
    applies = shifted.over(shifted.same_place & shifted.sampled) & batch.next_is_token
    if batch.scalar_positions is not None:
        applies &= batch.scalar_positions
    return Verdict(batch.target_is_next_input, applies)


@rule(
    "TOK006",
    at="position",
    over=(TARGETS,),
    reads=("advantages", "weights"),
    given=("TOK001", "VAL001"),
    severity="warning",
    message="{value} is not the next input token {next}",
    detail=_next_input,
    evidence="ours",
    good=[
        case(),
        case(WITHOUT_SPANS, loss="importance_sampling"),
        case(loss="cross_entropy"),
        case({"loss_fn_inputs.advantages.data.0": 0.01}, loss="ppo"),
        case({**TWO_TARGETS, **WITHOUT_SPANS, "model_input.chunks.0.tokens.3": 99}, loss="cross_entropy"),
        case({**WITHOUT_SPANS, "loss_fn_inputs.target_tokens.data": [12, 13, -100, None, 2]}, loss="ppo"),
    ],
    bad=[
        case({**WITHOUT_SPANS, "loss_fn_inputs.target_tokens.data.2": 99}, loss="importance_sampling"),
        case({**WITHOUT_SPANS, "loss_fn_inputs.target_tokens.data.3": 99}, loss="cross_entropy"),
        case(
            {
                "model_input_spans": [
                    {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 3},
                    {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 2},
                ],
                "model_input.chunks.0.tokens": [11, 12, 13, 11, 12],
            }
        ),
    ],
)
def target_not_next_input(batch: Batch, field: str) -> Verdict:
    """A scored target is not the token that the input continues with.

    Where spans do not settle it (TOK005), a target that is scored, by a sampled span or, without spans, by
    a nonzero advantage or weight, should be the next input token. Alternative-token targets are legal, so
    this is a warning. Not judged for (N, K) targets. Evidence: ours.
    """
    shifted = batch.shifted
    scored = (
        batch.sampled if batch.with_spans is None else np.where(batch.with_spans, batch.sampled, batch.signal)
    )
    applies = scored & batch.next_is_token & ~shifted.over(shifted.same_place & shifted.sampled)
    if batch.scalar_positions is not None:
        applies &= batch.scalar_positions
    return Verdict(batch.target_is_next_input, applies)
