"""What a datum says of itself: the rules that need neither a ledger nor a clock."""

from __future__ import annotations

from typing import Any

from oracle.datum import NO_TEXT, Plain, Tensor
from oracle.judging import Judge, finite, sampled_spans, scored, token_fits
from oracle.world import INPUT_SPANS, TARGET_SPANS, TARGETS, takes


def vector(datum: Plain, name: str) -> list[Any] | None:
    """The values of an input with one value a position, if it is there."""
    tensor = datum.inputs.get(name)
    return tensor.values if tensor is not None and tensor.one_dimensional else None


def judge_inputs(judge: Judge) -> None:
    """INP002, INP007-INP009, VAL001."""
    datum, loss = judge.datum, judge.loss
    for name, tensor in datum.inputs.items():
        if loss != "custom" and name not in takes(loss):
            judge.datum_level("INP002", name)
        elif loss != "custom" and name != TARGETS and tensor.dtype == "int64":
            judge.datum_level("INP007", name)
        judge.cells("VAL001", name, [at for at, value in enumerate(tensor.values) if not finite(value)])
    most = judge.parameters["max_tokens"]
    if most is not None and datum.length > most:
        judge.datum_level("INP009", "model_input")
    mask = vector(datum, "sequence_ratio_mask") if loss == "gspo" else None
    if mask is not None and all(map(finite, mask)) and (any(v not in (0, 1) for v in mask) or 1 not in mask):
        judge.datum_level("INP008", "sequence_ratio_mask")


def judge_tokens(judge: Judge) -> None:
    """TOK001, TOK002, TOK004, TOK005, TOK006."""
    datum, vocab_size = judge.datum, judge.parameters["vocab_size"]
    for i, chunk in enumerate(datum.chunks):
        if chunk["type"] == "encoded_text" and not chunk["tokens"]:
            judge.one("TOK002", "model_input", i, None)
        if chunk["type"] == "image_asset_pointer":
            judge.one("TOK004", "model_input", i, None)
    tokens = datum.tokens
    wrong_tokens = [i for i, t in enumerate(tokens) if t != NO_TEXT and not token_fits(t, vocab_size)]
    judge.positions("TOK001", "model_input", wrong_tokens)
    targets = datum.inputs[TARGETS]
    wrong = [at for at, t in enumerate(targets.values) if t is not None and not token_fits(t, vocab_size)]
    judge.cells("TOK001", TARGETS, wrong)
    if not targets.one_dimensional or not datum.measured:
        return
    signal = vector(datum, "weights" if judge.loss == "cross_entropy" else "advantages")
    not_shifted, not_next = [], []
    for i, target in enumerate(targets.values[:-1]):
        following = tokens[i + 1]
        if (
            following == NO_TEXT
            or not token_fits(following, vocab_size)
            or not token_fits(target, vocab_size)
        ):
            continue
        if target == following:
            continue
        if datum.spans is None:
            if signal is not None and signal[i] not in (None, 0):  # a NaN is not zero either
                not_next.append(i)
            continue
        claim, of_input = datum.claims[TARGET_SPANS][i], datum.claims[INPUT_SPANS][i + 1]
        if claim.kind != "sampled":
            continue
        same = (claim.kind, claim.sequence_id, claim.position) == (
            of_input.kind,
            of_input.sequence_id,
            of_input.position,
        )
        (not_shifted if same else not_next).append(i)
    judge.positions("TOK005", TARGETS, not_shifted)
    judge.positions("TOK006", TARGETS, not_next)


def judge_spans(judge: Judge) -> None:
    """SPN002, SPN006, SPN007, SPN009, SPN010; SPN008 is with the ledger's rules."""
    datum = judge.datum
    if datum.spans is None:
        judge.datum_level("SPN002", TARGET_SPANS)
        return
    for name, spans in datum.spans.items():
        for i, span in enumerate(spans):
            if span.length == 0:
                judge.one("SPN006", name, i, span.sequence_id)
            before = spans[i - 1]
            if (
                i > 0
                and (before.sequence_id, before.kind) == (span.sequence_id, span.kind)
                and before.offset + before.length != span.offset
            ):
                judge.one("SPN010", name, i, span.sequence_id)
    if not any(span.length for _, span in sampled_spans(datum)):
        judge.datum_level("SPN007", TARGET_SPANS)
    misaligned = []
    for i, claim in enumerate(datum.claims[TARGET_SPANS][:-1]):
        of_input = datum.claims[INPUT_SPANS][i + 1]
        one_source = (claim.sequence_id, claim.kind) == (of_input.sequence_id, of_input.kind)
        if one_source and claim.position != of_input.position:
            misaligned.append(i)
    judge.positions("SPN009", TARGET_SPANS, misaligned)


def judge_values(judge: Judge) -> None:
    """VAL002, ADV001, ADV004, ADV005; VAL003 and ADV002 are with the ledger's rules."""
    datum = judge.datum
    if judge.loss == "cross_entropy":
        return
    logprobs, advantages = datum.inputs["logprobs"].values, datum.inputs["advantages"].values
    too_high = [i for i, v in enumerate(logprobs) if finite(v) and v > judge.parameters["tolerance"]]
    judge.positions("VAL002", "logprobs", too_high)
    limit = judge.parameters["advantage_limit"]
    judge.positions(
        "ADV004", "advantages", [i for i, v in enumerate(advantages) if finite(v) and abs(v) > limit]
    )
    if datum.spans is None:
        return
    claims = datum.claims[TARGET_SPANS]
    judge.positions(
        "ADV001",
        "advantages",
        [i for i, v in enumerate(advantages) if scored(v) and claims[i].kind != "sampled"],
    )
    for _, span in sampled_spans(datum):
        run = advantages[span.start : span.start + span.length]
        if all(map(finite, run)) and any(run) and not (run[0] and run[-1]):
            judge.one("ADV005", "advantages", span.start, span.sequence_id, span.length)


def has_signal(tensor: Tensor) -> bool:
    return any(value != 0 for value in tensor.values if value is not None)
