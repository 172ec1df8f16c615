"""Once per datum and sequence: SEQ001, SEQ009, SEQ013, SES001-SES005."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from oracle.datum import place_of
from oracle.judging import Judge, sampled_spans
from oracle.records import Record, Records
from oracle.world import INPUT_SPANS, TARGET_SPANS, World, moment


def judge_sequences(judge: Judge, records: Records) -> None:
    assert judge.datum.spans is not None
    spans = [span for name in (INPUT_SPANS, TARGET_SPANS) for span in judge.datum.spans[name]]
    sampled = {span.sequence_id for span in spans if span.kind == "sampled"}
    trained = {span.sequence_id for _, span in sampled_spans(judge.datum) if span.length}
    for sequence_id in {span.sequence_id for span in spans}:
        record = records.find(sequence_id)
        if record is None:
            codes = ["SEQ001" if sequence_id in sampled else "SEQ013"]
        else:
            codes = ["SES001"] if record.foreign else []
            if not record.doubtful:
                codes += _times(judge, records.world, record, sequence_id in sampled)
                codes += _sampling(judge, record) if sequence_id in trained else []
        name, i = place_of(judge.datum, sequence_id)
        for code in codes:
            judge.one(code, name, i, sequence_id)


def _times(judge: Judge, world: World, record: Record, sampled: bool) -> list[str]:
    codes, now, parameters = [], moment(world.now), judge.parameters
    sampled_at = moment(record.raw["sampled_at"])
    if sampled_at > now + _seconds(parameters["skew"]):
        codes.append("SES004")
    last_used = max(sampled_at, moment(record.raw.get("last_used_at") or record.raw["sampled_at"]))
    left = _seconds(parameters["window"]) - (now - last_used)
    if sampled and record.raw["record_stability_info"] and not record.foreign:
        if left < timedelta(0):
            codes.append("SES002")
        elif left <= _seconds(parameters["margin"]):
            codes.append("SES003")
    return codes


def _sampling(judge: Judge, record: Record) -> list[str]:
    raw, codes = record.raw, []
    modified = (
        raw.get("temperature") not in (None, 1),
        raw.get("top_p") not in (None, 1),
        raw.get("top_k") not in (None, 0, -1),
    )
    if any(modified):
        codes.append("SEQ009")
    version, learner = _version(raw.get("policy_version")), judge.parameters["learner_version"]
    lag = judge.parameters["max_policy_lag"]
    if None not in (version, learner, lag) and learner - version > lag:
        codes.append("SES005")
    return codes


def _seconds(number: float) -> timedelta:
    return timedelta(seconds=min(number, 1e10))  # more than all of the calendar is as good as for ever


def _version(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None
