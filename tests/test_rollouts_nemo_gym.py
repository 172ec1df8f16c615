"""NeMo-Gym rollouts as the framework wrote them: the same datums as elsewhere, and every fault named."""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import provenance
from provenance.errors import SchemaError
from provenance.formats._problem import RecordError
from provenance.integrations.rollouts import Claims, Unusable, nemo_gym
from provenance.models import Trajectory

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "rollouts"
RAW = FOLDER / "raw"
SESSION, SAMPLED, NOW = "sess-real", "2026-11-29T09:00:00Z", "2026-11-29T12:00:00Z"
needs_files = pytest.mark.skipif(not FOLDER.exists(), reason=f"{FOLDER} is not here")

Record = dict[str, Any]


def lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def build(source: Path, folder: Path, **options: Any) -> tuple[provenance.Built, list[Record], list[Record]]:
    datums, sequences = folder / "datums.jsonl", folder / "sequences.jsonl"
    claims = {"session": SESSION, "sampled_at": SAMPLED, "record_stability_info": True, "baseline": 0.5}
    built = provenance.build(
        source, kind="nemo-gym", datums=datums, sequences=sequences, **(claims | options)
    )
    return built, lines(datums) if datums.exists() else [], lines(sequences) if sequences.exists() else []


# --- real files


@needs_files
@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("blackjack_env.example_rollouts", "blackjack"),
        ("example_multi_turn_env.example_rollouts", "multi_turn"),
    ],
)
def test_datums_are_those_that_the_cookbook_made_of_the_same_rollouts(
    raw: str, name: str, tmp_path: Path
) -> None:
    built, datums, sequences = build(RAW / f"{raw}.jsonl", tmp_path)
    known = lines(FOLDER / f"{name}.sequences.jsonl")
    assert not built.unusable
    assert len(sequences) == len(known) == built.sequences
    ids = {}
    for ours, theirs in zip(sequences, known, strict=True):
        ids[ours["sequence_id"]] = theirs["sequence_id"]
        for field in ("prompt_tokens", "tokens", "logprobs", "sampled_at", "record_stability_info"):
            assert ours[field] == theirs[field], field
    for ours, theirs in zip(datums, lines(FOLDER / f"{name}.datums.jsonl"), strict=True):
        for field in ("model_input_spans", "loss_fn_input_spans"):
            ours[field] = [span | {"sequence_id": ids[span["sequence_id"]]} for span in ours[field]]
        assert ours == theirs


@needs_files
@pytest.mark.parametrize("raw", ["blackjack_env", "example_multi_turn_env", "verifiers.example-wordle"])
def test_what_is_built_is_valid(raw: str, tmp_path: Path) -> None:
    (source,) = RAW.glob(f"{raw}*")
    built, datums, _ = build(source, tmp_path)
    report = provenance.check(
        tmp_path / "datums.jsonl", ledger=tmp_path / "sequences.jsonl", session=SESSION, now=NOW
    )
    assert report.valid
    assert report.datums == len(datums) == built.datums == 5
    # Temperature 0, which two of the files say, is a warning of the contract.
    assert set(report.counts) <= {"SEQ009"}


@needs_files
def test_lists_without_ids_are_reported_one_by_one(tmp_path: Path) -> None:
    built, *written = build(RAW / "hermes_agent.example_math_rollouts.jsonl", tmp_path)
    assert built.unusable == {"empty token ids": 8}
    places = [(fault.line, fault.turn) for fault in built.examples]
    fifth = [(5, f"output[{i}]") for i in (0, 3, 6, 9)]
    assert places == [*((line, "output[0]") for line in (1, 2, 3, 4)), *fifth]
    assert (built.rollouts, built.datums, built.sequences) == (0, 0, 0)
    assert written == [[], []]
    assert not list(tmp_path.iterdir())


@needs_files
def test_placeholders_and_calls_without_ids_are_reported(tmp_path: Path) -> None:
    # They have no time either, which does not matter.
    source = RAW / "tau2_synth.example_rollouts.jsonl"
    built, *_ = build(source, tmp_path, max_examples=100, sampled_at=None)
    assert built.unusable["placeholder token ids"] == 5
    first = {(fault.turn, fault.reason) for fault in built.examples if fault.line == 1}
    # The message in output[10] and the placeholder after it count as one call: nothing came between them.
    lost = {(f"output[{i}]", "no token ids") for i in (0, 2, 4, 6, 8)}
    assert first == {*lost, ("output[11]", "placeholder token ids")}
    assert not list(tmp_path.iterdir())


@needs_files
def test_a_last_call_that_lost_its_ids_is_reported(tmp_path: Path) -> None:
    records = lines(RAW / "example_multi_turn_env.example_rollouts.jsonl")
    for given in records:
        output = given["response"]["output"]
        output[-1] = {key: value for key, value in output[-1].items() if key not in FIRST or key in MESSAGE}
    source = tmp_path / "rollouts.jsonl"
    source.write_text("".join(json.dumps(given) + "\n" for given in records), encoding="utf-8")
    built, datums, _ = build(source, tmp_path)
    assert built.unusable == {"no token ids": len(records)}
    assert len(datums) == len(records)


# --- one record


def call(prompt: list[int], tokens: list[int], **changes: Any) -> Record:
    ids = {
        "prompt_token_ids": prompt,
        "generation_token_ids": tokens,
        "generation_log_probs": [-0.5] * len(tokens),
    }
    return {"type": "message", "role": "assistant", "content": [], **ids, **changes}


def record(*output: Any, **changes: Any) -> Record:
    response = {"id": "resp_1", "created_at": 1775592436.0, "model": "m", "output": list(output)}
    return {"response": response, "reward": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 0} | changes


def read(given: Record, **claims: Any) -> tuple[Trajectory | None, list[Unusable]]:
    found = list(nemo_gym.read(given, Claims(session="s", **claims)))
    faults = [fault for fault in found if isinstance(fault, Unusable)]
    trajectories = [trajectory for trajectory in found if isinstance(trajectory, Trajectory)]
    assert len(trajectories) <= 1
    return (trajectories[0] if trajectories else None), faults


MESSAGE = {"type": "message", "role": "assistant", "content": []}
TOOL_CALL = {"type": "function_call", "name": "f", "arguments": "{}"}
OTHER_CALL = {"type": "custom_tool_call", "name": "f", "input": ""}
TOOL_ANSWER = {"type": "function_call_output", "output": "1"}
THOUGHT = {"type": "reasoning", "summary": []}
USER = {"type": "message", "role": "user", "content": "go on"}
FIRST, SECOND = call([1, 2], [3]), call([1, 2, 3, 4], [5, 6])


@pytest.mark.parametrize(
    ("output", "sampled", "faults"),
    [
        ([FIRST], [[3]], []),
        ([FIRST, SECOND], [[3], [5, 6]], []),
        ([THOUGHT, TOOL_CALL, TOOL_CALL | FIRST, TOOL_ANSWER, TOOL_ANSWER, SECOND], [[3], [5, 6]], []),
        ([FIRST, TOOL_CALL, OTHER_CALL, TOOL_ANSWER, SECOND], [[3], [5, 6]], []),
        ([FIRST, MESSAGE], [[3]], [("output[1]", "no token ids")]),
        ([FIRST, THOUGHT, TOOL_CALL, TOOL_ANSWER], [[3]], [("output[1]", "no token ids")]),
        ([FIRST, TOOL_ANSWER, TOOL_CALL], [[3]], [("output[2]", "no token ids")]),
        ([FIRST, MESSAGE, SECOND], [[3], [5, 6]], []),
        ([OTHER_CALL, TOOL_ANSWER], None, [("output[0]", "no token ids")]),
        ([THOUGHT, TOOL_CALL, TOOL_ANSWER, SECOND], [[5, 6]], [("output[0]", "no token ids")]),
        ([FIRST, USER, MESSAGE], [[3]], [("output[2]", "no token ids")]),
        ([MESSAGE, USER], None, [("output[0]", "no token ids")]),
        ([USER], None, [("", "no model call")]),
        ([], None, [("", "no model call")]),
        ([[USER, FIRST], [USER, MESSAGE, USER, SECOND]], [[3], [5, 6]], []),
        ([[USER, FIRST], [USER, FIRST, USER, SECOND]], [[3], [5, 6]], []),
        ([[USER, FIRST], [USER, MESSAGE]], [[3]], [("output[1][1]", "no token ids")]),
        ([[USER, FIRST], [USER, FIRST, USER, MESSAGE]], [[3]], [("output[1][3]", "no token ids")]),
        ([[USER, FIRST], [USER, SECOND, TOOL_ANSWER]], [[3], [5, 6]], []),
        ([[USER, FIRST], []], [[3]], [("output[1]", "no token ids")]),
        ([FIRST, call([1, 2, 3, 4], [])], [[3]], [("output[1]", "empty token ids")]),
        ([call([], [3])], None, [("output[0]", "empty token ids")]),
        ([call([1], [3], generation_log_probs=None)], None, [("output[0]", "no logprobs")]),
        ([call([1], [3], generation_log_probs=[])], None, [("output[0]", "no logprobs")]),
        ([call([1], [3], prompt_token_ids=None)], None, [("output[0]", "no token ids")]),
        ([call([0], [0])], None, [("output[0]", "placeholder token ids")]),
        ([call([0, 0], [0, 7])], [[0, 7]], []),
        ([call([0, 7], [0, 0])], [[0, 0]], []),
        ([call([1], [3, 4], generation_log_probs=[-1.0])], None, [("output[0]", "malformed")]),
        ([call([1], [3], generation_log_probs=[math.nan])], None, [("output[0]", "malformed")]),
        ([call([1], [-3])], None, [("output[0]", "malformed")]),
        ([call([1.5], [3])], None, [("output[0]", "malformed")]),
    ],
)
def test_model_calls_of_a_response(
    output: list[Any], sampled: list[list[int]] | None, faults: list[tuple[str, str]]
) -> None:
    trajectory, found = read(record(*output))
    turns = None if trajectory is None else [turn.sequence.tokens.tolist() for turn in trajectory.turns]
    assert turns == sampled
    assert [(fault.turn, fault.reason) for fault in found] == faults
    assert all(fault.detail for fault in found)


def test_what_a_record_says_about_its_sequences() -> None:
    params = {"input": "hi", "temperature": 0.7, "top_p": 0.9}
    given = record(FIRST, SECOND, responses_create_params=params)
    given["response"]["top_p"] = 1
    trajectory, _ = read(given)
    assert trajectory is not None
    assert (trajectory.reward, trajectory.group_id) == (1.0, "3")
    first, second = (turn.sequence for turn in trajectory.turns)
    assert (first.prompt_tokens.tolist(), first.logprobs.tolist()) == ([1, 2], [-0.5])
    assert second.prompt_tokens.tolist() == [1, 2, 3, 4]
    assert (first.temperature, first.top_p, first.model) == (0.7, 1.0, "m")
    assert first.sampled_at.isoformat() == "2026-04-07T20:07:16+00:00"
    assert not first.record_stability_info


@pytest.mark.parametrize(
    ("task", "group", "expected"), [(3, "9", "3"), ("t", None, "t"), (None, "9", "9"), (None, None, None)]
)
def test_the_group_is_the_task(task: Any, group: Any, expected: str | None) -> None:
    given = record(FIRST, _ng_task_index=task)
    given["response"]["group_id"] = group
    trajectory, _ = read(given)
    assert trajectory is not None
    assert trajectory.group_id == expected


def test_claims_win_over_the_time_of_the_record() -> None:
    when = provenance.SampledSequence(
        sequence_id="x", session_id="s", prompt_tokens=[], tokens=[], logprobs=[],
        sampled_at=SAMPLED, record_stability_info=True,
    ).sampled_at  # fmt: skip
    trajectory, _ = read(record(FIRST), sampled_at=when, record_stability_info=True)
    assert trajectory is not None
    assert trajectory.turns[0].sequence.sampled_at == when
    assert trajectory.turns[0].sequence.record_stability_info


@pytest.mark.parametrize("created_at", [None, 0, 0.0, -1, "yesterday", True, math.nan, math.inf, 10**400])
def test_no_time_is_no_time(created_at: Any) -> None:
    given = record(FIRST)
    given["response"]["created_at"] = created_at
    trajectory, (fault,) = read(given)
    assert trajectory is None
    assert fault.reason == "no time of sampling"


@pytest.mark.parametrize(
    "where",
    [
        lambda given, part: given.update(responses_create_params={"input": [{"content": [part]}]}),
        lambda given, part: given["response"]["output"].insert(
            0, {"type": "function_call_output", "output": [part]}
        ),
        lambda given, part: given["response"].update(output=[[{"content": [part]}, FIRST]]),
    ],
)
def test_a_prompt_with_an_image_is_not_text(where: Callable[[Record, Record], None]) -> None:
    given = record(FIRST)
    where(given, {"type": "input_image", "image_url": "data:..."})
    trajectory, (fault,) = read(given)
    assert trajectory is None
    assert fault.reason == "prompt with media"
    given = record(FIRST)
    where(given, {"type": "input_text", "text": "hi"})
    assert read(given)[0] is not None


def names(given: Record) -> list[str]:
    trajectory, _ = read(given)
    assert trajectory is not None
    return [turn.sequence.sequence_id for turn in trajectory.turns]


def test_ids_are_the_same_for_the_same_rollout_and_differ_for_others() -> None:
    ids = names(record(FIRST, SECOND))
    assert len(set(ids)) == 2
    assert all(name.startswith("resp_1-") for name in ids)
    reread = json.loads(json.dumps(record(FIRST, SECOND, reward=0.0, terminated=True), sort_keys=True))
    assert names(reread) == ids
    others = [
        record(FIRST, call([1, 2, 3, 4], [5, 7])),
        record(FIRST, call([1, 2, 3, 9], [5, 6])),
        record(FIRST, SECOND | {"generation_log_probs": [-0.5, -0.25]}),
        record(FIRST, SECOND, _ng_rollout_index=1),
        record(FIRST, SECOND, _ng_task_index=4),
    ]
    assert all(not {*ids} & {*names(other)} for other in others)


def test_a_response_without_an_id_has_one_of_its_content() -> None:
    first, second = record(FIRST), record(SECOND)
    for given in (first, second):
        given["response"]["id"] = None
    assert names(first) != names(second)


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from nodes(item, (*path, key))


ODD: list[Any] = [None, [], {}, "", "x", "\ud800", 5, -1, 1.5, math.nan, math.inf, 10**400, True, [[]], [{}]]


def test_nothing_odd_in_a_record_is_a_crash() -> None:
    """Every place of a record holds every odd value once; what is wrong is reported or refused."""
    tools = {"type": "function_call_output", "output": [{"type": "input_text"}]}
    params = {"input": [{"role": "user", "content": [{"type": "input_text"}]}], "temperature": 1.0}
    for output in ([THOUGHT, TOOL_CALL | FIRST, tools, SECOND], [[USER, FIRST], [USER, SECOND]]):
        given = record(*output, responses_create_params=params, agent_ref={"name": "a"})
        given["response"]["top_p"] = 0.9
        outcomes = set()
        for path in nodes(given):
            for odd in ODD:
                changed = copy.deepcopy(given)
                holder = changed
                for key in path[:-1]:
                    holder = holder[key]
                if not path:
                    changed = odd if isinstance(odd, dict) else {"response": odd}
                else:
                    holder[path[-1]] = odd
                try:
                    for found in nemo_gym.read(changed, Claims(session="s")):
                        outcomes.add(type(found))
                except (RecordError, SchemaError) as error:
                    outcomes.add(type(error))
        assert outcomes == {Trajectory, Unusable, RecordError, SchemaError}


def test_a_line_that_was_cut_off_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    source = tmp_path / "rollouts.jsonl.gz"
    whole = [json.dumps(record(call([1, 2], [k]), _ng_rollout_index=k)) for k in (3, 4)]
    text = f"{whole[0]}\n\n{whole[1][:40]}\n{whole[1]}\n" + json.dumps({"other": 1}) + "\n"
    source.write_bytes(gzip.compress(text.encode()))
    built, datums, _ = build(source, tmp_path)
    assert len(datums) == 2
    assert built.unusable == {"malformed": 2}
    assert [fault.line for fault in built.examples] == [3, 5]
    assert str(built.examples[1]) == f"{source}: line 5: response: missing"
