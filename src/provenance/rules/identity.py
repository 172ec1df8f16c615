"""SEQ: the tokens, logprobs and contexts of a datum, held against what was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from provenance.columns import PROMPT, TARGETS, Ints, Mask
from provenance.pool import Pool, ranges_agree
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, RECORD, SIBLING, TWO_TARGETS, WITH_IMAGE, case
from provenance.rules._rule import Verdict, rule
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS, side_of

_FIVE_SAMPLED = {
    "loss_fn_input_spans": [{"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 5}],
    "model_input_spans": [
        {"type": "prompt", "sequence_id": "s:1", "offset": 0, "length": 1},
        {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 4},
    ],
    "sequences.0.prompt_tokens": [11],
    "sequences.0.tokens": [12, 13, 21, 22, 2],
    "sequences.0.logprobs": [-0.5, -0.25, -0.125, -0.375, -0.625],
}


def _recorded_token(batch: Batch, field: str, position: int) -> Mapping[str, Any]:
    claimed, _ = batch.claims.claimed_tokens(INPUT_SPANS if side_of(field) == "input" else TARGET_SPANS)
    return {"recorded": int(claimed[position])}


@rule(
    "SEQ003",
    at="position",
    over=("model_input",),
    reads=(TARGETS,),
    given=("SEQ002", "SEQ008", "TOK001"),
    needs=("ledger",),
    message="{value} is not the recorded token {recorded}",
    detail=_recorded_token,
    evidence="ours",
    good=[
        case(),
        case(turns="multi"),
        case({**SIBLING, "model_input.chunks.0.tokens.1": 99}),
        case({**TWO_TARGETS, "model_input.chunks.0.tokens.1": 99}, loss="cross_entropy"),
        case(
            {
                **TWO_TARGETS,
                "model_input.chunks.0.tokens.1": 99,
                "datums.1.model_input_spans.0.sequence_id": "s:sibling",
                "datums.1.model_input.chunks.0.tokens.1": 99,
            },
            loss="cross_entropy",
            copies=2,
        ),
        case({"model_input.chunks.0.tokens.1": -1}),
    ],
    bad=[case({"model_input.chunks.0.tokens.1": 99}), case({"model_input.chunks.0.tokens.3": 99})],
)
def input_token_mismatch(batch: Batch, field: str) -> Verdict:
    """An input token is not the one that was recorded at the place its span claims.

    The text was decoded and tokenised again, a chat template rendered the history differently, or ids were
    edited. The model is then trained on something that it neither saw nor said. Carry token ids through,
    never text. Where the input is no text the record holds -1. Evidence: ours (a span's claim is
    documented, that it is checked is not).
    """
    same, compared = batch.claims.input_claims
    if batch.scalar_positions is not None:
        compared = batch.scalar_positions if compared is None else compared & batch.scalar_positions
    return Verdict(same, compared)


@rule(
    "SEQ004",
    at="position",
    over=(TARGETS,),
    given=("SEQ002", "SEQ008", "TOK001", "TOK005", "VAL001"),
    needs=("ledger",),
    message="{value} is not the sampled token {recorded}",
    detail=_recorded_token,
    evidence="ours",
    good=[
        case(),
        case({"loss_fn_inputs.target_tokens.data.0": 0}),
        case({**TWO_TARGETS}, loss="cross_entropy", copies=2),
        case(
            {
                "datums.0.loss_fn_inputs.target_tokens.data": [12, 13, 99, 22, -100],
                "datums.1.loss_fn_inputs.target_tokens.data.4": None,
            },
            copies=2,
        ),
    ],
    bad=[case({"loss_fn_inputs.target_tokens.data.4": 99})],
)
def sampled_target_mismatch(batch: Batch, field: str) -> Verdict:
    """A target under a sampled span is not the token that was sampled.

    The loss would raise or lower the probability of a token the model never emitted, with the logprob of
    another. Targets that were not shifted, retokenised text, or a replaced stop token. Use the ids that
    sampling returned. Evidence: ours.
    """
    same, compared = batch.claims.target_claims
    return Verdict(same, batch.sampled if compared is None else batch.sampled & compared)


@rule(
    "SEQ005",
    at="position",
    over=(TARGETS,),
    given=("SEQ002", "SEQ008", "TOK001", "TOK005", "VAL001"),
    severity="warning",
    needs=("ledger",),
    message="{value} is not the prompt token {recorded}",
    detail=_recorded_token,
    evidence="observed",
    good=[
        case(),
        case({**TWO_TARGETS}, loss="cross_entropy", copies=2),
        case(WITH_IMAGE),
        case({"loss_fn_inputs.target_tokens.data": [None, -100, 21, 22, 2]}),
    ],
    bad=[
        case({"loss_fn_inputs.target_tokens.data": [0, 0, 21, 22, 2]}),
        case({"model_input.chunks.0.tokens.1": 0, "sequences.0.prompt_tokens.1": 0}),
    ],
)
def prompt_target_mismatch(batch: Batch, field: str) -> Verdict:
    """A target under a prompt span is not the recorded prompt token.

    An official recipe writes 0 there, so this is a warning: nothing is trained at such positions as long as
    their advantage is 0. If the ids are no placeholders the prompt was tokenised again. Not judged where
    the recorded prompt is no text. Evidence: observed.
    """
    same, compared = batch.claims.target_claims
    applies = ~batch.sampled if compared is None else ~batch.sampled & compared
    if batch.with_spans is not None:
        applies &= batch.with_spans
    # Where the record has no text no target is the recorded one, so that this matters beside a mismatch only.
    if not same.all():
        claimed, _ = batch.claims.claimed_tokens(TARGET_SPANS)
        applies &= claimed >= 0
    return Verdict(same, applies)


@rule(
    "SEQ006",
    at="position",
    over=("logprobs",),
    given=("SEQ002", "SEQ008", "VAL001", "VAL002"),
    severity="warning",
    needs=("ledger",),
    message="{value} differs from the recorded logprob {recorded}",
    detail=lambda batch, field, position: _recorded_logprob(batch, position),
    evidence="documented",
    good=[
        case({"loss_fn_inputs.logprobs.data.2": -0.1255}),
        case({"loss_fn_inputs.logprobs.data": [0.0, 0.0, -0.125, None, 0.25]}),
    ],
    bad=[case({"loss_fn_inputs.logprobs.data.3": -0.5})],
)
def logprob_mismatch(batch: Batch, field: str) -> Verdict:
    """A logprob under a sampled target span differs from what the sampler returned.

    The loss needs the sampler's own logprobs; values recomputed by another engine are close but not these,
    and the difference is the very thing that the KL term measures. Where most of a run differs widely its
    logprobs belong to other targets, mostly the neighbours. The tolerance admits a round trip through
    bfloat16. Pass on what sampling returned, each at its own target. Evidence: documented (Losses page:
    logprobs are those of the sampler).
    """
    differences, limits = batch.claims.logprob_differences, batch.parameters
    beyond = differences.beyond(limits.logprob_abs, limits.logprob_rel)
    return Verdict(None if not len(beyond) else ~batch.mark(beyond), differences.compared)


def _recorded_logprob(batch: Batch, position: int) -> Mapping[str, Any]:
    differences = batch.claims.logprob_differences
    at = int(np.searchsorted(differences.position, position))
    return {"recorded": str(differences.recorded[at])}


def _context(batch: Batch, span: int) -> tuple[Any, Any]:
    """The input before a target span's first token, and the prompt recorded for its sequence."""
    start = int(batch.target_starts[span])
    first = int(batch.columns.offsets[np.searchsorted(batch.columns.offsets, start, "right") - 1])
    return (
        batch.columns.tokens[first : start + 1],
        batch.table.prompt(int(batch.columns.target_spans.sequence[span])),
    )


def _context_difference(batch: Batch, field: str, span: int) -> Mapping[str, Any]:
    given, recorded = _context(batch, span)
    common = min(len(given), len(recorded))
    different = np.flatnonzero(given[:common] != recorded[:common])
    where = f", first difference at {int(different[0])}" if len(different) else ""
    return {"given": len(given), "recorded": len(recorded), "where": where}


def _context_in_doubt(batch: Batch) -> Mask | None:
    """(s,): in a target span's context a token is none, or a span claims what its record does not have.

    None where no token or span is like that.
    """
    columns = batch.columns
    overrun = batch.claims.comparable(INPUT_SPANS) & ~batch.claims.claim_in_range(INPUT_SPANS)
    if batch.readable_tokens is None and not overrun.any():
        return None
    doubt = batch.over_spans(INPUT_SPANS, overrun)
    if batch.readable_tokens is not None:
        doubt |= ~batch.readable_tokens if columns.text is None else ~batch.readable_tokens & columns.text
    return batch.any_in_contexts(doubt)


@rule(
    "SEQ011",
    at="span",
    over=(TARGET_SPANS,),
    given=("SEQ002", "SEQ003"),
    severity="warning",
    needs=("ledger",),
    message="the input before it ({given} tokens) is not the prompt it was sampled from ({recorded}){where}",
    detail=_context_difference,
    evidence="ours",
    good=[
        case(),
        case(turns="multi"),
        case(copies=2),
        case(turns="one-token"),
        case(WITH_IMAGE),
        case(SIBLING),
        case({"sequences.0": DROP}),
        case({"sequences.0.prompt_tokens": [11, 12]}),
        case({"datums.1.model_input.chunks.0.tokens.1": -1}, copies=2),
        case({"loss_fn_input_spans.0.offset": 0}),
        case({"loss_fn_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 0}}),
        case(
            {
                "loss_fn_input_spans.1.length": 2,
                "loss_fn_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 2, "length": 1},
            }
        ),
        case({"model_input.chunks.0.tokens.1": 99}),
    ],
    bad=[
        case(
            {
                "sequences.0.prompt_tokens": [90, 11, 12, 13],
                "model_input_spans.0.offset": 1,
                "loss_fn_input_spans.0.offset": 2,
            }
        ),
        case({"sequences.1.prompt_tokens": [11, 12, 21, 99, 31, 32]}, turns="multi"),
        case({"sequences.1.prompt_tokens.6": 33}, turns="multi"),
        case({**TWO_TARGETS, "model_input.chunks.0.tokens.1": 99}, loss="cross_entropy"),
        case(
            {
                "model_input_spans.0.sequence_id": "s:2",
                "loss_fn_input_spans.0.sequence_id": "s:2",
                "sequences.1": {**RECORD, "sequence_id": "s:2"},
                "sequences.0.prompt_tokens.0": 90,
            }
        ),
        case(
            {
                "model_input.chunks.0.tokens.2": 12,
                "model_input_spans.0.length": 2,
                "model_input_spans.1": {"type": "prompt", "sequence_id": "s:1", "offset": 1, "length": 1},
                "model_input_spans.2": {"type": "sampled", "sequence_id": "s:1", "offset": 0, "length": 2},
            }
        ),
        case(
            {
                "model_input.chunks.0.tokens": [21, 22, 2, 21, 22],
                "loss_fn_inputs.target_tokens.data": [22, 2, 21, 22, 2],
                "model_input_spans.0.type": "sampled",
                "loss_fn_input_spans.0.type": "sampled",
            }
        ),
    ],
)
def context_mismatch(batch: Batch, field: str) -> Verdict:
    """A sequence is trained under another context than it was sampled in.

    Every token and span may be right and the condition still wrong: a system prompt left out, the oldest
    turns cut, reasoning removed from the history. The learner then scores the tokens under a context the
    sampler never saw. Start a new datum where a prompt does not extend the tokens so far. Evidence: ours.
    """
    spans = batch.columns.target_spans
    applies = batch.sampled_runs & (spans.start == 0) & batch.claims.claim_in_range(field)
    in_doubt = _context_in_doubt(batch)
    if in_doubt is not None:
        applies &= ~in_doubt
    valid = np.ones(len(applies), np.bool_)
    chosen = applies.nonzero()[0]
    starts = batch.target_starts[chosen]
    row = batch.columns.offsets.searchsorted(starts, "right") - 1
    firsts = batch.columns.offsets[row]
    lengths = starts + 1 - firsts
    sequences = spans.sequence[chosen]
    as_long = lengths == batch.table.prompt_length[sequences]
    valid[chosen] = as_long
    # A prompt that one verified input span covers needs no second look: most first turns are of that kind.
    rest = (as_long & ~_is_one_verified_prompt(batch, row, sequences, lengths)).nonzero()[0]
    recorded = batch.table.prompt_start[sequences[rest]]
    given = Pool(batch.columns.tokens)
    valid[chosen[rest]] = ranges_agree(given, firsts[rest], batch.table.pool, recorded, lengths[rest])
    return Verdict(valid, applies)


def _is_one_verified_prompt(batch: Batch, row: Ints, sequence: Ints, length: Ints) -> Mask:
    """The datum's first input span is all of the sequence's prompt, and all input tokens are as claimed."""
    spans = batch.columns.input_spans
    same, compared = batch.claims.input_claims
    if compared is not None or not same.all():
        return np.zeros(len(row), np.bool_)
    first = spans.offsets[row]
    whole: Mask = (spans.kind[first] == PROMPT) & (spans.sequence[first] == sequence)
    whole &= (spans.start[first] == 0) & (spans.length[first] == length)
    return whole


@rule(
    "SEQ012",
    at="span",
    over=("logprobs",),
    given=("SEQ002", "SEQ008", "VAL001"),
    elsewhere="warning",
    needs=("ledger",),
    message="the logprobs differ from the recorded ones by {mean:.3g} nat on average over {count} tokens",
    detail=lambda batch, field, span: {
        "mean": _mean_difference(batch)[span],
        "count": int(batch.columns.target_spans.length[span]),
    },
    evidence="ours",
    good=[
        case(),
        case({**_FIVE_SAMPLED, "loss_fn_inputs.logprobs.data": [-0.5, -0.25, -0.125, -0.375, -1.0]}),
        case(
            {"loss_fn_inputs.logprobs.data": [0.0, 0.0, -0.625, -0.875, -1.125]},
            parameters={"foreign_run": 2},
        ),
        case({"loss_fn_inputs.logprobs.data.2": float("-inf")}, parameters={"foreign_run": 3}),
    ],
    bad=[
        case({**_FIVE_SAMPLED, "loss_fn_inputs.logprobs.data": [-2.0, -1.5, -0.125, -0.5, -0.0]}),
        case({"loss_fn_inputs.logprobs.data": [0.0, 0.0, -2.0, -2.0, -2.0]}, parameters={"foreign_run": 3}),
        case({"loss_fn_inputs.logprobs.data": [-2.0]}, turns="one-token", parameters={"foreign_run": 1}),
    ],
)
def foreign_logprobs(batch: Batch, field: str) -> Verdict:
    """The logprobs of a whole sampled run are not those of its sequence.

    Single values may differ by numerics (SEQ006). A mean difference above half a nat over four or more tokens
    means a shift by one, another sequence's values, or another model's. Place the logprobs that sampling
    returned at the targets they belong to. Evidence: ours.
    """
    spans = batch.columns.target_spans
    means = _mean_difference(batch)
    long_enough = spans.length >= max(1, batch.parameters.foreign_run)
    return Verdict(~(means > batch.parameters.foreign_logprobs), ~np.isnan(means) & long_enough)


def _mean_difference(batch: Batch) -> Any:
    """(s,): mean absolute difference over each target span, NaN where it cannot be compared."""
    differences = batch.claims.logprob_differences
    means = np.full(len(batch.columns.target_spans.kind), np.nan)
    means[differences.span] = differences.means
    return means
