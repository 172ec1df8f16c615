"""`provenance.build`: advantages, what is refused, and outputs that are both there or neither."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _docs import block

import provenance
from provenance import LedgerError, ProvenanceError, ReadError, SchemaError, WriteError
from provenance.builder import build_group, group_advantages
from provenance.formats import read_datums, read_sequences
from provenance.integrations import rollouts
from provenance.integrations.rollouts import _build

NOW = "2026-01-02T12:00:00Z"

Record = dict[str, Any]
POINTER = {"type": "image_asset_pointer", "location": "a", "format": "png", "expected_tokens": 1}


def turn(name: str, prompt: Sequence[int] = (1, 2), tokens: Sequence[int] = (3, 4), **changes: Any) -> Record:
    sequence = {
        "sequence_id": name,
        "session_id": "s",
        "prompt_tokens": list(prompt),
        "tokens": list(tokens),
        "logprobs": [-0.5] * len(tokens),
        "sampled_at": "2026-01-02T03:04:05Z",
        "record_stability_info": True,
    }
    extra = {key: changes.pop(key) for key in ("advantage",) if key in changes}
    return {"sequence": sequence | changes} | extra


def rollout(name: str, **changes: Any) -> Record:
    return {"turns": [turn(name)], "reward": 1.0, "group_id": "g"} | changes


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def build(folder: Path, *records: Record, **options: Any) -> provenance.Built:
    source = write(folder / "rollouts.jsonl", *records)
    targets = {"datums": folder / "datums.jsonl", "sequences": folder / "sequences.jsonl"}
    return provenance.build(source, **({"kind": "turns"} | targets | options))


def lines(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def advantages(folder: Path) -> list[list[float]]:
    """Of the sampled tokens of each datum."""
    found = []
    for datum in lines(folder / "datums.jsonl"):
        values = datum["loss_fn_inputs"]["advantages"]["data"]
        logprobs = datum["loss_fn_inputs"]["logprobs"]["data"]
        found.append([a for a, q in zip(values, logprobs, strict=True) if q])
    return found


# --- advantages


def test_the_mean_of_a_group_is_the_baseline_wherever_its_rollouts_are(tmp_path: Path) -> None:
    rewards = {"a": 0.1, "b": 0.7, "c": 0.2, "d": 0.3, "e": 0.3}
    groups = {"a": "x", "b": "y", "c": "x", "d": "y", "e": "z"}
    records = [rollout(name, reward=rewards[name], group_id=groups[name]) for name in rewards]
    built = build(tmp_path, *records)
    expected = {}
    for group in "xyz":
        members = [name for name in rewards if groups[name] == group]
        made = group_advantages([rewards[name] for name in members])
        expected |= dict(zip(members, made.tolist(), strict=True))
    assert advantages(tmp_path) == [[expected[name]] * 2 for name in rewards]
    assert (built.groups, built.equal_groups) == (3, 1)


def test_it_builds_what_build_group_builds(tmp_path: Path) -> None:
    records = [rollout(name, reward=reward) for name, reward in (("a", 0.1), ("b", 0.7), ("c", 0.4))]
    build(tmp_path, *records, datums=tmp_path / "built.jsonl")
    group = build_group([provenance.Trajectory.model_validate(record) for record in records])
    provenance.write_datums(group.datums, tmp_path / "group.jsonl")
    assert (tmp_path / "built.jsonl").read_bytes() == (tmp_path / "group.jsonl").read_bytes()


def test_groups_of_different_files_are_different(tmp_path: Path) -> None:
    first = write(tmp_path / "1.jsonl", rollout("a", reward=1.0), rollout("b", reward=0.0))
    second = write(tmp_path / "2.jsonl", rollout("c", reward=8.0), rollout("d", reward=4.0))
    targets = {"datums": tmp_path / "datums.jsonl", "sequences": tmp_path / "sequences.jsonl"}
    built = provenance.build([first, second], kind="turns", **targets)
    assert built.groups == 2
    assert [values[0] for values in advantages(tmp_path)] == [0.5, -0.5, 2.0, -2.0]


def test_a_number_is_the_baseline_of_all(tmp_path: Path) -> None:
    built = build(tmp_path, rollout("a", group_id=None), rollout("b", reward=0.25), baseline=0.5)
    assert [values[0] for values in advantages(tmp_path)] == [0.5, -0.25]
    assert built.groups == 0


def test_advantages_of_the_rollout_are_kept_and_its_reward_counts_in_its_group(tmp_path: Path) -> None:
    built = build(
        tmp_path,
        {"turns": [turn("a")], "advantage": 3.0, "reward": 5.0, "group_id": "g"},
        {"turns": [turn("b", advantage=[1.0, 2.0])]},
        {"turns": [turn("f")], "advantage": 4.0, "reward": 9.0, "group_id": "nobody else's"},
        {"turns": [turn("h")], "advantage": 6.0, "group_id": "g"},
        {
            "turns": [turn("c", advantage=7.0), turn("d", [1, 2, 3, 4, 5], [6, 7])],
            "reward": 1.0,
            "group_id": "g",
        },
        rollout("e", reward=0.0),
    )
    own = [[3.0, 3.0], [1.0, 2.0], [4.0, 4.0], [6.0, 6.0]]
    assert advantages(tmp_path) == [*own, [7.0, 7.0, -1.0, -1.0], [-2.0, -2.0]]
    assert (built.groups, built.equal_groups) == (1, 0)


@pytest.mark.parametrize(
    "bad",
    [
        [turn("x"), turn("y", session_id="t")],
        [turn("x"), turn("x")],
        [turn("x", [1, -1]) | {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [1]}, POINTER]}}],
    ],
)
def test_what_cannot_be_built_counts_nowhere(bad: list[Record], tmp_path: Path) -> None:
    build(tmp_path, rollout("a"), rollout("b", reward=0.0), rollout("x", turns=bad, reward=-30.0))
    assert advantages(tmp_path) == [[0.5, 0.5], [-0.5, -0.5]]
    assert [sequence["sequence_id"] for sequence in lines(tmp_path / "sequences.jsonl")] == ["a", "b"]


def test_what_sampled_nothing_counts_in_its_group(tmp_path: Path) -> None:
    silent = rollout("x", turns=[turn("x", tokens=[])], reward=-3.0)
    built = build(tmp_path, rollout("a"), silent, rollout("y", turns=[], reward=-1.0))
    assert advantages(tmp_path) == [[2.0, 2.0]]
    assert built.unusable == {"nothing to train on": 1, "no turn": 1}


def test_a_turn_that_sampled_nothing_needs_no_advantage(tmp_path: Path) -> None:
    last = turn("y", [1, 2, 3, 4, 5], [])
    built = build(tmp_path, {"turns": [turn("x", advantage=7.0), last]}, {"turns": [last], "reward": 1.0})
    assert advantages(tmp_path) == [[7.0, 7.0]]
    assert built.unusable == {"nothing to train on": 1, "repeat": 1}


def test_a_group_that_float32_cannot_hold_does_not_stop_others(tmp_path: Path) -> None:
    far = [rollout(f"x{i}", reward=reward, group_id="h") for i, reward in enumerate([3e38, -3e38, -3e38])]
    built = build(tmp_path, *far, rollout("a"), rollout("b", reward=0.0))
    assert built.unusable == {"cannot be built": 3}
    assert (built.rollouts, built.groups, built.equal_groups) == (2, 1, 0)
    assert [fault.line for fault in built.examples] == [1, 2, 3]
    assert "reward: 3e+38, and the rewards of its group are further from" in str(built.examples[0])
    assert advantages(tmp_path) == [[0.5, 0.5], [-0.5, -0.5]]
    built = build(tmp_path, *far, rollout("a"), baseline=-3e38)
    assert built.unusable == {"cannot be built": 1}
    assert (built.rollouts, built.sequences) == (3, 3)


# --- what is not used


@pytest.mark.parametrize(
    ("bad", "reason", "detail"),
    [
        (rollout("a"), "repeat", r"sequence 'a' was read already, .*rollouts.jsonl: line 1"),
        (
            {"turns": [turn("x"), turn("x")], "advantage": 1},
            "repeat",
            "sequence 'x' was read already, earlier in",
        ),
        (rollout("x", reward=None), "no reward", "it has no advantage either"),
        (rollout("x", group_id=None), "no group", "give a number instead"),
        (
            {"turns": [turn("x", logprobs=[0.0])]},
            "malformed",
            r"turns\[0\].sequence.logprobs: 1 values, expected 2",
        ),
        (rollout("x", turns=[]), "no turn", r"turns is \[\]"),
        ({"turns": [], "group_id": "g"}, "no turn", r"turns is \[\]"),
        (
            {"turns": [turn("x", temperature=1e39)]},
            "malformed",
            r"turns\[0\].sequence.temperature: 1e\+39 is out of range, expected a number from -3e38 to 3e38",
        ),
        ({"turns": [{}]}, "malformed", r"turns\[0\].sequence: missing"),
        ({"turns": 5}, "malformed", "turns: 5"),
        ({"other": 5}, "malformed", "turns: missing"),
        (rollout("x", reward="1"), "malformed", "reward: '1' is not a number"),
        (rollout("x", turns=[turn("x"), turn("y", tokens=[])]), "nothing to train on", r"turns\[1\]"),
        (rollout("x", turns=[turn("x"), turn("y", session_id="t")]), "cannot be built", "SES001"),
    ],
)
def test_what_cannot_be_used_is_named(bad: Record, reason: str, detail: str, tmp_path: Path) -> None:
    built = build(tmp_path, rollout("a", reward=0.0), bad, rollout("b"))
    assert built.unusable == {reason: 1}
    (fault,) = built.examples
    assert (fault.reason, fault.file, fault.line) == (reason, str(tmp_path / "rollouts.jsonl"), 2)
    assert re.search(detail, str(fault))
    assert {"a", "b"} <= {sequence["sequence_id"] for sequence in lines(tmp_path / "sequences.jsonl")}
    report = provenance.check(
        tmp_path / "datums.jsonl", ledger=tmp_path / "sequences.jsonl", session="s", now=NOW
    )
    assert report.valid
    assert report.datums == built.datums


def test_counts_are_exact_and_examples_are_few(tmp_path: Path) -> None:
    built = build(tmp_path, rollout("a"), *[rollout("a")] * 30, *[{"turns": None}] * 3, max_examples=2)
    assert built.unusable == {"repeat": 30, "malformed": 3}
    assert [fault.line for fault in built.examples] == [2, 3, 32, 33]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", "turns", "no record in it; expected turns rollouts"),
        ("\n\n", "turns", "no record in it; expected turns rollouts"),
        ("nothing\n[1]\n", "turns", "line 1: expecting value at column 1; expected turns rollouts"),
        (
            '{"response": "text"}\n',
            "nemo-gym",
            "line 1: response: 'text' is not an object; expected nemo-gym",
        ),
        ('\n{"a": 1}\n', "turns", "line 2: no field 'turns', which every turns rollout has"),
        ('{"response": {}}\n', "turns", "no field 'turns', .*; it has response, as --from nemo-gym reads"),
        ('{"turns": []}\n', "nemo-gym", "no field 'response', .*; it has turns, as --from turns reads"),
        ('{"model_input": {}}\n', "turns", "it has a model_input, as datums have"),
        ('{"prompt_tokens": []}\n', "turns", "it has prompt_tokens, as sampled sequences have"),
    ],
)
def test_a_file_of_another_format_says_so(text: str, kind: str, message: str, tmp_path: Path) -> None:
    source = tmp_path / "rollouts.jsonl"
    source.write_text(text, encoding="utf-8")
    session = "s" if kind == "nemo-gym" else None
    with pytest.raises(ReadError, match=message) as error:
        provenance.build(
            source, kind=kind, datums=tmp_path / "d.jsonl", sequences=tmp_path / "s.jsonl", session=session
        )
    assert error.value.file == str(source)
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"kind": "turn"}, ProvenanceError, "'turn' is no format of rollouts, did you mean 'turns'"),
        ({"kind": "x"}, ProvenanceError, "'x' is no format of rollouts: there is nemo-gym, turns"),
        ({"kind": "nemo-gym"}, ProvenanceError, "do not say which session sampled them"),
        ({"kind": "nemo-gym", "session": ""}, SchemaError, "session_id: ''"),
        ({"kind": "nemo-gym", "session": "s", "sampled_at": "now"}, SchemaError, "'now' is not an RFC 3339"),
        ({"session": "s"}, ProvenanceError, "turns rollouts say session, time and stability info themselves"),
        ({"record_stability_info": True}, ProvenanceError, "turns rollouts say"),
        ({"baseline": "mean"}, ProvenanceError, "baseline 'mean' is neither"),
        ({"baseline": float("nan")}, ProvenanceError, "baseline nan is neither"),
        ({"datums": "-"}, WriteError, "-: is no file"),
        ({"datums": "d.db"}, WriteError, "a ledger, which holds no datums"),
        ({"datums": "d.txt"}, WriteError, "unknown suffix"),
        ({"sequences": "d.txt"}, WriteError, "unknown suffix"),
    ],
)
def test_misuse_is_refused_before_anything_is_read(
    options: Record, kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    targets = {"datums": "d.jsonl", "sequences": "s.jsonl"}
    with pytest.raises(kind, match=message):
        provenance.build("none.jsonl", **({"kind": "turns"} | targets | options))
    assert not list(tmp_path.iterdir())


def test_a_file_has_one_use(tmp_path: Path) -> None:
    for options in (
        {"datums": tmp_path / "rollouts.jsonl"},
        {"sequences": tmp_path / "rollouts.jsonl"},
        {"sequences": tmp_path / "datums.jsonl"},
    ):
        with pytest.raises(WriteError, match="something else too"):
            build(tmp_path, rollout("a"), **options)
    assert lines(tmp_path / "rollouts.jsonl") == [rollout("a")]


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    targets = {"datums": tmp_path / "d.jsonl", "sequences": tmp_path / "s.jsonl"}
    for source in ("-", tmp_path / "pipe"):
        with pytest.raises(ReadError, match="rollouts are read twice: save it to a file first"):
            provenance.build(source, kind="turns", **targets)
    with pytest.raises(ReadError, match="no such file"):
        provenance.build(tmp_path / "none.jsonl", kind="turns", **targets)
    with pytest.raises(ReadError, match="directory"):
        provenance.build(tmp_path, kind="turns", **targets)


# --- outputs


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow", ".db"])
def test_every_format_holds_the_same(suffix: str, tmp_path: Path) -> None:
    records = [rollout("a"), rollout("b", reward=0.5), {"turns": [turn("c", [9], [8])], "advantage": 1.0}]
    datums = tmp_path / f"datums{suffix if suffix != '.db' else '.jsonl'}"
    build(tmp_path, *records, datums=datums, sequences=tmp_path / f"sequences{suffix}")
    (columns,) = read_datums(datums)
    assert columns.inputs["advantages"].values.tolist() == [0, 0.25, 0.25, 0, -0.25, -0.25, 1]
    report = provenance.check(datums, ledger=tmp_path / f"sequences{suffix}", session="s", now=NOW)
    assert report.valid
    assert "SEQ006" in report.checked
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_ledger_records_a_repeat_and_refuses_other_content(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    for _ in range(2):
        build(tmp_path, rollout("a"), sequences=place)
    before = (tmp_path / "datums.jsonl").read_bytes()
    changed = rollout("a", turns=[turn("a", tokens=[3, 5])])
    with pytest.raises(LedgerError, match=r"ledger\.db: sequence 'a' of session 's' is recorded already"):
        build(tmp_path, rollout("b"), changed, sequences=place)
    assert (tmp_path / "datums.jsonl").read_bytes() == before
    with provenance.SqlLedger(place) as ledger:
        assert ledger.stats().sequences == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["datums.jsonl", "ledger.db", "rollouts.jsonl"]


@pytest.mark.parametrize("target", ["datums", "sequences"])
@pytest.mark.parametrize("sequences", ["sequences.jsonl", "sequences.db"])
def test_both_outputs_are_there_or_neither(target: str, sequences: str, tmp_path: Path) -> None:
    places = {"datums": tmp_path / "datums.jsonl", "sequences": tmp_path / sequences}
    places[target] = tmp_path / "none" / places[target].name
    with pytest.raises((WriteError, LedgerError)):
        build(tmp_path, rollout("a"), **places)
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".db"])
def test_where_nothing_can_be_used_earlier_outputs_stay(suffix: str, tmp_path: Path) -> None:
    places = {
        "datums": tmp_path / f"datums{suffix if suffix != '.db' else '.jsonl'}",
        "sequences": tmp_path / f"sequences{suffix}",
    }
    build(tmp_path, rollout("a"), **places)
    before = [path.read_bytes() for path in places.values()]
    built = build(tmp_path, rollout("b", reward=None), **places)
    assert built.unusable == {"no reward": 1}
    assert (built.rollouts, built.datums, built.sequences) == (0, 0, 0)
    assert [path.read_bytes() for path in places.values()] == before


def test_a_rollout_that_trains_on_nothing_is_not_counted(tmp_path: Path) -> None:
    nothing = {"turns": [turn("x", tokens=[])], "advantage": 1.0}
    built = build(tmp_path, nothing)
    assert (built.rollouts, built.datums, built.sequences) == (0, 0, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]
    built = build(tmp_path, nothing, rollout("a"))
    assert (built.rollouts, built.datums, built.sequences) == (1, 1, 2)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def and_then_write(advantages: Any) -> None:
        settle(advantages)
        write(tmp_path / "rollouts.jsonl", rollout("a"), rollout("b"))

    settle = _build.Advantages.settle  # between the two readings
    monkeypatch.setattr(_build.Advantages, "settle", and_then_write)
    with pytest.raises(ReadError, match="changed while it was read: build again"):
        build(tmp_path, rollout("a"))
    with pytest.raises(ReadError, match="changed while it was read: build again"):
        build(tmp_path, rollout("a"), baseline=0.0)
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


def test_an_image_in_a_prompt_of_turns(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGk=", "format": "png", "expected_tokens": 2}
    prompt = {
        "chunks": [{"type": "encoded_text", "tokens": [1]}, image, {"type": "encoded_text", "tokens": [2]}]
    }
    turns = [turn("a", [1, -1, -1, 2]) | {"prompt": prompt}]
    build(tmp_path, {"turns": turns, "advantage": 1.0})
    (datum,) = lines(tmp_path / "datums.jsonl")
    assert [chunk["type"] for chunk in datum["model_input"]["chunks"]] == [
        "encoded_text",
        "image",
        "encoded_text",
    ]
    ((table, faults),) = read_sequences(tmp_path / "sequences.jsonl")
    assert not faults
    assert np.array_equal(table.prompt(0), [1, -1, -1, 2])


def test_the_turns_of_the_documentation(tmp_path: Path) -> None:
    built = build(tmp_path, json.loads(block("importing.md", '{"turns"')), baseline=0)
    assert (built.rollouts, built.datums, built.sequences, built.unusable) == (1, 1, 2, {})


# --- adding a format


def test_adding_a_format_is_adding_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/importing.md, as it stands there."""
    package = tmp_path / "formats"
    package.mkdir()
    (package / "completions.py").write_text(block("importing.md", '"""What our sampler'), encoding="utf-8")
    monkeypatch.setattr(rollouts, "__path__", [*rollouts.__path__, str(package)])
    assert rollouts.names() == ["completions", "nemo-gym", "turns"]
    line = {
        "id": "a",
        "prompt_ids": [1, 2],
        "completion_ids": [3],
        "logprobs": [-0.5],
        "task": "t",
        "reward": 1.0,
    }
    built = build(
        tmp_path, line, line | {"id": "b", "logprobs": None},
        kind="completions", session="s", sampled_at="2026-01-02T03:04:05Z", baseline=0.0,
    )  # fmt: skip
    assert advantages(tmp_path) == [[1.0]]
    assert built.unusable == {"no logprobs": 1}
    assert built.examples[0].line == 2


def test_compressed_rollouts_and_patterns(tmp_path: Path) -> None:
    for name in "ab":
        text = json.dumps(rollout(name)) + "\n"
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    built = provenance.build(
        str(tmp_path / "*.gz"), kind="turns", datums=tmp_path / "d.jsonl", sequences=tmp_path / "s.jsonl"
    )
    assert (built.rollouts, built.groups, built.equal_groups) == (2, 2, 2)
