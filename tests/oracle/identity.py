"""What spans claim, held against what was recorded: SEQ002-SEQ006, SEQ011, SEQ012, SPN008, ADV002, VAL003."""

from __future__ import annotations

from typing import Any

from oracle.datum import NO_TEXT, Span
from oracle.judging import Judge, finite, sampled_spans, scored, token_fits
from oracle.records import Records
from oracle.world import INPUT_SPANS, TARGET_SPANS, TARGETS, Json, float32


def judge_identity(judge: Judge, records: Records) -> None:
    """All rules about positions and spans that need the ledger."""
    datum = judge.datum
    if datum.spans is None:
        return
    for name, spans in datum.spans.items():
        for i, span in enumerate(spans):
            if records.in_range(span) is False:
                judge.one("SEQ002", name, i, span.sequence_id)
    for i, span in sampled_spans(datum):
        record, within = records.find(span.sequence_id), records.in_range(span)
        partial = bool(within) and record is not None and span.length != len(record.tokens)
        if within is not False and (span.offset != 0 or partial):
            judge.one("SPN008", TARGET_SPANS, i, span.sequence_id)
    if datum.inputs[TARGETS].one_dimensional:
        _judge_tokens(judge, records)
    _judge_contexts(judge, records)
    if judge.loss != "cross_entropy":
        _judge_logprobs(judge, records)
        _judge_advantages(judge, records)


def judge_without_ledger(judge: Judge) -> None:
    """What SPN008 and VAL003 can say without one."""
    for i, span in sampled_spans(judge.datum):
        if span.offset != 0:
            judge.one("SPN008", TARGET_SPANS, i, span.sequence_id)
        if judge.loss != "cross_entropy":
            _judge_placeholder(judge, span, recorded_zeros=False)


def _recorded(judge: Judge, records: Records, name: str, i: int) -> int | None:
    """The token that was recorded where the span over a position claims it; None where nobody can say."""
    assert judge.datum.spans is not None
    claim = judge.datum.claims[name][i]
    record = records.find(claim.sequence_id)
    if record is None or not records.in_range(judge.datum.spans[name][claim.span]):
        return None
    return record.part(claim.kind)[claim.position]


def _same(token: Any, recorded: int) -> bool:
    return recorded == -1 if token == NO_TEXT else token == recorded


def _input_differs(judge: Judge, records: Records, i: int) -> bool:
    token, recorded = judge.datum.tokens[i], _recorded(judge, records, INPUT_SPANS, i)
    return recorded is not None and _readable(judge, token) and not _same(token, recorded)


def _readable(judge: Judge, token: Any) -> bool:
    return token == NO_TEXT or token_fits(token, judge.parameters["vocab_size"])


def _judge_tokens(judge: Judge, records: Records) -> None:
    """SEQ003, SEQ004, SEQ005."""
    datum = judge.datum
    wrong_input = [i for i in range(len(datum.tokens)) if _input_differs(judge, records, i)]
    judge.positions("SEQ003", "model_input", wrong_input)
    not_shifted = judge.found_at("TOK005", TARGETS)
    wrong_sampled, wrong_prompt = [], []
    for i, target in enumerate(datum.inputs[TARGETS].values):
        recorded = _recorded(judge, records, TARGET_SPANS, i)
        if recorded in (None, target) or i in not_shifted or not _readable(judge, target):
            continue
        if datum.claims[TARGET_SPANS][i].kind == "sampled":
            wrong_sampled.append(i)
        elif recorded != -1:
            wrong_prompt.append(i)
    judge.positions("SEQ004", TARGETS, wrong_sampled)
    judge.positions("SEQ005", TARGETS, wrong_prompt)


def _judge_contexts(judge: Judge, records: Records) -> None:
    """SEQ011."""
    datum = judge.datum
    assert datum.spans is not None
    judged = datum.inputs[TARGETS].one_dimensional  # SEQ003 does not judge the others
    in_doubt = {
        i
        for i, claim in enumerate(datum.claims[INPUT_SPANS])
        if not _readable(judge, datum.tokens[i])
        or records.in_range(datum.spans[INPUT_SPANS][claim.span]) is False
        or (judged and _input_differs(judge, records, i))
    }
    for i, span in sampled_spans(datum):
        record = records.find(span.sequence_id)
        if span.offset != 0 or span.length == 0 or record is None or not records.in_range(span):
            continue
        before = datum.tokens[: span.start + 1]
        if in_doubt.isdisjoint(range(len(before))) and not (
            len(before) == len(record.prompt) and all(map(_same, before, record.prompt))
        ):
            judge.one("SEQ011", TARGET_SPANS, i, span.sequence_id)


def _judge_logprobs(judge: Judge, records: Records) -> None:
    """SEQ006, SEQ012, VAL003."""
    parameters, given = judge.parameters, judge.datum.inputs["logprobs"].values
    differing = []
    for _, span in sampled_spans(judge.datum):
        run = given[span.start : span.start + span.length]
        record, recorded = records.find(span.sequence_id), list[Any]()
        if record is not None and records.in_range(span):
            recorded = record.logprobs[span.offset : span.offset + span.length]
        zeros = len(recorded) == span.length and all(v == 0 for v in recorded)
        _judge_placeholder(judge, span, recorded_zeros=zeros)
        if record is None or not record.has_all_logprobs or not recorded:
            continue
        distances = [
            float32(abs(a - b)) if finite(a) and finite(b) else None
            for a, b in zip(run, recorded, strict=True)
        ]
        for k, distance in enumerate(distances):
            if distance is None or run[k] > parameters["tolerance"]:
                continue
            if distance > _allowed(parameters, run[k], recorded[k]):
                differing.append(span.start + k)
        compared = [distance for distance in distances if distance is not None]
        if (
            len(compared) == span.length >= max(parameters["foreign_run"], 1)
            and sum(compared) / span.length > parameters["foreign_logprobs"]
        ):
            judge.one("SEQ012", "logprobs", span.start, span.sequence_id, span.length)
    judge.positions("SEQ006", "logprobs", differing)


def _allowed(parameters: Json, a: float, b: float) -> float:
    """The difference that is allowed, a float32 as the logprobs are."""
    relative = float32(float32(parameters["logprob_rel"]) * max(abs(a), abs(b)))
    return float32(float32(parameters["logprob_abs"]) + relative)


def _judge_placeholder(judge: Judge, span: Span, *, recorded_zeros: bool) -> None:
    """VAL003 of one sampled span."""
    run = judge.datum.inputs["logprobs"].values[span.start : span.start + span.length]
    long_enough = span.length >= judge.parameters["placeholder_run"]
    if long_enough and all(v == 0 for v in run) and not recorded_zeros:
        judge.one("VAL003", "logprobs", span.start, span.sequence_id, span.length)


def _judge_advantages(judge: Judge, records: Records) -> None:
    """ADV002."""
    unrecorded = []
    for i, value in enumerate(judge.datum.inputs["advantages"].values):
        claim = judge.datum.claims[TARGET_SPANS][i]
        record = records.find(claim.sequence_id)
        if record is None or record.doubtful or claim.kind != "sampled" or not scored(value):
            continue
        if not record.raw["record_stability_info"]:
            unrecorded.append(i)
    judge.positions("ADV002", "advantages", unrecorded)
