"""Real rollouts: valid as they are on every path, and each kind of damage is found where it was done."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _paths import PATHS

import provenance

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
NAMES = ("blackjack", "multi_turn", "tictactoe", "workplace_history_rewritten")
SESSION, NOW = "sess-real", "2026-11-29T12:00:00Z"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason=f"{FOLDER} is not here")

Datums = list[dict[str, Any]]


def lines(name: str, kind: str) -> Datums:
    text = (FOLDER / f"{name}.{kind}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module", params=NAMES)
def rollout(request: pytest.FixtureRequest) -> tuple[str, Datums, Datums]:
    if not FOLDER.exists():
        pytest.skip(f"{FOLDER} is not here")
    return request.param, lines(request.param, "datums"), lines(request.param, "sequences")


def check(data: Any, ledger: Any, **changes: Any) -> provenance.Report:
    return provenance.check(data, ledger=ledger, **({"session": SESSION, "now": NOW} | changes))


def test_rollout_files_are_valid(rollout: tuple[str, Datums, Datums]) -> None:
    name, datums, _ = rollout
    report = check(FOLDER / f"{name}.datums.jsonl", FOLDER / f"{name}.sequences.jsonl")
    assert not report.counts, [str(v) for v in report]
    assert report.datums == len(datums)
    assert report.positions == sum(len(d["loss_fn_inputs"]["target_tokens"]["data"]) for d in datums)
    assert {n.code for n in report.not_checked} == {"INP009", "SES005", "TOK001"}


@pytest.mark.parametrize("path", PATHS)
def test_rollout_is_valid_on_every_path(
    rollout: tuple[str, Datums, Datums], path: str, tmp_path: Path
) -> None:
    _, datums, sequences = rollout
    report = check(PATHS[path](datums, tmp_path), sequences)
    assert not report.counts, [str(v) for v in report]
    assert report.datums == len(datums)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl.gz"])
def test_rollout_sequences_are_the_same_in_another_format(
    rollout: tuple[str, Datums, Datums], suffix: str, tmp_path: Path
) -> None:
    name, datums, sequences = rollout
    provenance.write_sequences(sequences, tmp_path / f"sequences{suffix}")
    plain = check(datums, FOLDER / f"{name}.sequences.jsonl")
    other = check(datums, tmp_path / f"sequences{suffix}")
    assert not other.counts, [str(v) for v in other]
    assert other.checked == plain.checked


# Damage. Each is done to the last datum, so that a wrong row shows.


def target_spans(datum: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Each target span and the position it starts at."""
    found, start = [], 0
    for span in datum["loss_fn_input_spans"]:
        found.append((start, span))
        start += span["length"]
    return found


def sampled_run(datum: dict[str, Any], at_least: int = 2) -> tuple[int, dict[str, Any]]:
    """The last sampled target span, and the position it starts at."""
    return next(
        (s, span)
        for s, span in reversed(target_spans(datum))
        if span["type"] == "sampled" and span["length"] >= at_least
    )


def values(datum: dict[str, Any], name: str) -> list[Any]:
    return datum["loss_fn_inputs"][name]["data"]


def input_tokens(datum: dict[str, Any]) -> list[int]:
    (chunk,) = datum["model_input"]["chunks"]
    return chunk["tokens"]


Place = tuple[str, str, int | None, int | None]
Damage = Callable[[dict[str, Any]], set[Place]]


def replace_inner_target(datum: dict[str, Any]) -> set[Place]:
    start, _ = sampled_run(datum)
    values(datum, "target_tokens")[start] += 1
    return {("TOK005", "target_tokens", start, 1)}


def replace_last_target(datum: dict[str, Any]) -> set[Place]:
    # No input follows it, so that only the ledger can tell.
    last = len(values(datum, "target_tokens")) - 1
    start, span = sampled_run(datum)
    assert start + span["length"] == last + 1
    values(datum, "target_tokens")[last] += 1
    return {("SEQ004", "target_tokens", last, 1)}


def move_target_span(datum: dict[str, Any]) -> set[Place]:
    start, span = next(
        (s, span) for s, span in target_spans(datum) if span["type"] == "prompt" and span["length"] > 1
    )
    span["offset"] -= 1
    # The tokens under it are the record's own, one further on, so whether they differ depends on them.
    return {("SPN009", "loss_fn_input_spans", start, span["length"])}


def move_logprob(datum: dict[str, Any]) -> set[Place]:
    start, _ = sampled_run(datum)
    values(datum, "logprobs")[start + 1] -= 2.0
    return {("SEQ006", "logprobs", start + 1, 1)}


def replace_input_token(datum: dict[str, Any]) -> set[Place]:
    input_tokens(datum)[0] += 1
    return {("SEQ003", "model_input", 0, 1)}


def reward_a_prompt_token(datum: dict[str, Any]) -> set[Place]:
    start, _span = next((s, span) for s, span in target_spans(datum) if span["type"] == "prompt")
    values(datum, "advantages")[start] = 0.5
    return {("ADV001", "advantages", start, 1)}


DAMAGES: list[tuple[Damage, set[str]]] = [
    (replace_inner_target, set()),
    (replace_last_target, set()),
    (move_target_span, {"SEQ005"}),
    # A short run's mean moves by more than half a nat, too.
    (move_logprob, {"SEQ012"}),
    (replace_input_token, set()),
    (reward_a_prompt_token, set()),
]


@pytest.mark.parametrize("path", ["dicts", "jsonl", "parquet"])
@pytest.mark.parametrize(("damage", "also"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_damage_is_found_where_it_was_done(
    rollout: tuple[str, Datums, Datums], damage: Damage, also: set[str], path: str, tmp_path: Path
) -> None:
    _, datums, sequences = rollout
    datums = [*datums[:-1], copy.deepcopy(datums[-1])]
    expected = damage(datums[-1])
    report = check(PATHS[path](datums, tmp_path), sequences)
    places = {
        (v.code, v.location.field, v.location.index, v.location.length) for v in report if v.code not in also
    }
    assert places == expected
    assert {v.location.row for v in report} == {len(datums) - 1}
    assert set(report.counts) - also == {code for code, *_ in expected}


def test_a_replaced_token_in_the_middle_of_a_run_names_its_sequence(
    rollout: tuple[str, Datums, Datums],
) -> None:
    _, datums, sequences = copy.deepcopy(rollout)
    start, span = sampled_run(datums[-1], at_least=3)
    target, follows = values(datums[-1], "target_tokens"), input_tokens(datums[-1])
    # In both places, as a tokenizer would do it: the shift holds and the record does not.
    target[start + 1] += 1
    follows[start + 2] += 1
    report = check(datums, sequences)
    found = {(v.code, v.location.index, v.location.sequence_id) for v in report if v.severity == "error"}
    assert found == {("SEQ004", start + 1, span["sequence_id"]), ("SEQ003", start + 2, span["sequence_id"])}


def pairs_of_sampled(datums: Datums) -> set[tuple[int, str]]:
    """Datum and sequence, for sequences that a sampled span names."""
    return {
        (row, span["sequence_id"])
        for row, datum in enumerate(datums)
        for field in ("model_input_spans", "loss_fn_input_spans")
        for span in datum[field]
        if span["type"] == "sampled"
    }


def test_a_day_later_every_sequence_has_expired(rollout: tuple[str, Datums, Datums]) -> None:
    _, datums, sequences = rollout
    report = check(datums, sequences, now="2026-12-01T12:00:00Z", max_examples=10_000)
    found = [(v.location.row, v.location.sequence_id) for v in report if v.code == "SES002"]
    assert len(found) == len(set(found))
    assert set(found) == pairs_of_sampled(datums)
    assert set(report.counts) == {"SES002"}
    assert report.counts["SES002"].violations == len(found)
    assert report.bad_datums == len(datums)


def test_in_another_session_every_sequence_is_foreign(rollout: tuple[str, Datums, Datums]) -> None:
    _, datums, sequences = rollout
    report = check(datums, sequences, session="sess-other", max_examples=10_000)
    named = {
        (row, span["sequence_id"])
        for row, datum in enumerate(datums)
        for field in ("model_input_spans", "loss_fn_input_spans")
        for span in datum[field]
    }
    assert {(v.location.row, v.location.sequence_id) for v in report} == named
    assert set(report.counts) == {"SES001"}


def test_a_datum_twice_repeats_its_sequences(rollout: tuple[str, Datums, Datums]) -> None:
    _, datums, sequences = rollout
    report = check([*datums, datums[0]], sequences, max_examples=10_000)
    trained = {s["sequence_id"] for s in datums[0]["loss_fn_input_spans"] if s["type"] == "sampled"}
    assert {v.location.sequence_id for v in report} == trained
    assert {v.location.row for v in report} == {len(datums)}
    assert set(report.counts) == {"SEQ010"}


@pytest.mark.slow
def test_damage_to_any_target_is_found_at_that_target(rollout: tuple[str, Datums, Datums]) -> None:
    _, datums, sequences = rollout
    ledger = provenance.MemoryLedger(map(provenance.SampledSequence.model_validate, sequences))
    for row in range(0, len(datums), max(1, len(datums) // 3)):
        for start, span in target_spans(datums[row]):
            for index in {start, start + span["length"] // 2, start + span["length"] - 1}:
                damaged = copy.deepcopy(datums[row])
                values(damaged, "target_tokens")[index] += 1
                (violation,) = check([damaged], ledger)
                assert violation.code in (("TOK005", "SEQ004") if span["type"] == "sampled" else ("SEQ005",))
                assert (violation.location.index, violation.location.length) == (index, 1)
                assert violation.location.sequence_id == span["sequence_id"]
