"""The verdict on a dataset: each datum, the dataset as a whole, and the options of the loss."""

from __future__ import annotations

import math
from typing import Any

from oracle.content import has_signal, judge_inputs, judge_spans, judge_tokens, judge_values
from oracle.datum import Plain, place_of
from oracle.identity import judge_identity, judge_without_ledger
from oracle.judging import Judge, sampled_spans
from oracle.records import Records
from oracle.sequences import judge_sequences
from oracle.shape import shape
from oracle.world import CONFIG_KEYS, PARAMETERS, Finding, World, in_contract, is_number, severity


def judge(world: World) -> list[Finding]:
    """All that is wrong with a dataset, in an order of its own."""
    loss, parameters = world.loss, {**PARAMETERS, **world.parameters}
    found: list[Finding] = _judge_config(world)
    if not world.datums:
        found.append(Finding("FMT005", "error", None, None))
    records = Records(world)
    passed: list[Plain] = []
    for row, datum in enumerate(world.datums):
        faults, plain = shape(datum, row, loss)
        for code, name, index, sequence_id in faults:
            one = None if index is None else 1
            found.append(Finding(code, severity(code, loss), row, name, index, one, sequence_id))
        if plain is None:
            continue
        passed.append(plain)
        one_judge = Judge(plain, loss, parameters, found)
        judge_inputs(one_judge)
        if loss == "custom":
            continue
        judge_tokens(one_judge)
        judge_spans(one_judge)
        judge_values(one_judge)
        if world.sequences is None:
            judge_without_ledger(one_judge)
        elif plain.spans is not None:
            judge_sequences(one_judge, records)
            judge_identity(one_judge, records)
    found += _repeated(passed, loss) + _without_signal(passed, loss) + records.judge()
    return sorted((finding for finding in found if in_contract(finding.code, loss)), key=repr)


def _repeated(datums: list[Plain], loss: str) -> list[Finding]:
    """SEQ010."""
    found, earlier = [], set[str]()
    for datum in datums:
        here = {span.sequence_id for _, span in sampled_spans(datum) if span.length}
        for sequence_id in here & earlier:
            name, i = place_of(datum, sequence_id)
            found.append(Finding("SEQ010", "warning", datum.row, name, i, 1, sequence_id))
        earlier |= here
    return found


def _without_signal(datums: list[Plain], loss: str) -> list[Finding]:
    """ADV003."""
    name = "weights" if loss == "cross_entropy" else "advantages"
    if loss == "custom" or not datums or any(has_signal(datum.inputs[name]) for datum in datums):
        return []
    return [Finding("ADV003", "warning", None, name)]


def _judge_config(world: World) -> list[Finding]:
    """CFG001, CFG002, CFG003."""
    known, config = CONFIG_KEYS.get(world.loss, ()), world.config
    codes: list[tuple[str, str]] = [("CFG002", key) for key in config if key not in known]
    numbers = {key: config[key] for key in config if key in known and key != "loss_id"}
    unusable = {key for key, value in numbers.items() if not _usable(key, value)}
    low, high = numbers.get("clip_low_threshold"), numbers.get("clip_high_threshold")
    if low is not None and high is not None and not unusable and low > high:
        unusable.add("clip_high_threshold")
    codes += [("CFG001", key) for key in unusable]
    if high is not None and "clip_high_threshold" not in unusable and high <= 1:
        codes.append(("CFG003", "clip_high_threshold"))
    return [Finding(code, severity(code, world.loss), None, key) for code, key in codes]


def _usable(key: str, value: Any) -> bool:
    if not is_number(value):
        return False
    try:
        return math.isfinite(float(value)) and (key != "kl_coeff" or value >= 0)
    except OverflowError:  # an integer beyond any float
        return False
