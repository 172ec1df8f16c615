"""`provenance build` as its users meet it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from _docs import COMMAND, block
from test_cli import call, on_terminal
from test_rollouts_build import lines, rollout, turn, write
from test_rollouts_nemo_gym import FIRST, NOW, RAW, SAMPLED, needs_files, record

from provenance.integrations.rollouts import names


@needs_files
def test_the_two_commands_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rollouts.jsonl").write_bytes((RAW / "blackjack_env.example_rollouts.jsonl").read_bytes())
    build, check = (
        shlex.split(found["command"].replace("\\\n", ""))[1:]
        for found in COMMAND.finditer(block("importing.md", "$ provenance build "))
    )
    built = call(*build)
    assert (built.returncode, built.stderr) == (0, "")
    assert built.stdout == "5 rollouts, 5 datums, 6 sequences, 0 not used\n"
    checked = call(*check, "--now", "2026-04-07T21:00:00Z")
    assert checked.returncode == 0
    assert re.search(r"^valid: 5 datums, ", checked.stdout, re.MULTILINE)
    # The file's own time, half a year before.
    assert "SES002" in call(*check, "--now", NOW).stdout


@needs_files
def test_what_cannot_be_used_is_shown_and_fails(tmp_path: Path) -> None:
    source = RAW / "hermes_agent.example_math_rollouts.jsonl"
    done = call(
        "build", source, RAW / "blackjack_env.example_rollouts.jsonl", "--from", "nemo-gym", "--session", "s",
        "--datums", tmp_path / "d.jsonl", "--sequences", tmp_path / "s.jsonl", "--max-examples", "2",
        "--sampled-at", SAMPLED, "--baseline", "0.5",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "not used, empty token ids: 8",
        f"  {source}: line 1: output[0]: prompt_token_ids is []",
        f"  {source}: line 2: output[0]: prompt_token_ids is []",
        "  ... and 6 more",
        "",
        "5 rollouts, 5 datums, 6 sequences, 8 not used",
    ]
    assert len(lines(tmp_path / "d.jsonl")) == 5
    (sampled_at,) = {sequence["sampled_at"] for sequence in lines(tmp_path / "s.jsonl")}
    assert sampled_at == SAMPLED
    assert not any(sequence["record_stability_info"] for sequence in lines(tmp_path / "s.jsonl"))


def arguments(folder: Path, *more: str) -> list[str]:
    targets = ["--datums", str(folder / "d.jsonl"), "--sequences", str(folder / "s.jsonl")]
    return ["build", str(folder / "rollouts.jsonl"), *targets, *more]


@pytest.mark.parametrize("bad", [rollout("a", reward=None), rollout("a", turns=[])])
def test_where_nothing_can_be_used_nothing_is_written(bad: dict[str, object], tmp_path: Path) -> None:
    write(tmp_path / "rollouts.jsonl", bad)
    done = call(*arguments(tmp_path, "--from", "turns"))
    assert done.returncode == 1
    assert done.stdout.endswith("nothing could be used, nothing was written: 1 not used\n")
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


def test_equal_groups_are_said_and_do_not_fail(tmp_path: Path) -> None:
    records = [rollout("a"), rollout("b"), rollout("c", group_id="h"), rollout("d", group_id="h", reward=0)]
    write(tmp_path / "rollouts.jsonl", *records)
    done = call(*arguments(tmp_path, "--from", "turns"))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "1 of 2 groups have equal rewards, or one rollout: their advantages are 0",
        "",
        "4 rollouts, 4 datums, 4 sequences, 0 not used",
    ]


def test_json_for_programs(tmp_path: Path) -> None:
    write(
        tmp_path / "rollouts.jsonl",
        rollout("a"),
        rollout("a"),
        {"turns": [turn("b"), turn("c", tokens=[])], "advantage": 1},
    )
    done = call(*arguments(tmp_path, "--from", "turns", "--format", "json"))
    assert done.returncode == 1
    found = json.loads(done.stdout)
    examples = found.pop("examples")
    assert found == {
        "rollouts": 2,
        "datums": 2,
        "sequences": 3,
        "groups": 1,
        "equal_groups": 1,
        "unusable": {"repeat": 1, "nothing to train on": 1},
    }
    assert [(e["reason"], e["line"], e["turn"]) for e in examples] == [
        ("repeat", 2, ""),
        ("nothing to train on", 3, "turns[1]"),
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "missing option '--from'"),
        (["--from", "nemogym"], "'nemogym' is none of 'nemo-gym', 'turns' (see provenance build --help)"),
        (["--from", "nemo-gym"], "do not say which session sampled them: give it (--session)"),
        (["--from", "turns", "--session", "s"], "leave session, sampled_at and record_stability_info out"),
        (["--from", "turns", "--baseline", "mean"], "'mean' is neither 'group' nor a finite number"),
        (["--from", "turns", "--baseline", "inf"], "'inf' is neither 'group' nor a finite number"),
        (["--from", "nemo-gym", "--session", "s", "--sampled-at", "noon"], "'noon' is not an RFC 3339 time"),
        (["--from", "nemo-gym", "--session", "s"], "line 1: no field 'response', which every"),
    ],
)
def test_misuse_is_one_line(more: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path / "rollouts.jsonl", rollout("a"))
    done = call(*arguments(tmp_path, *more))
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]


def test_what_a_file_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    given = record(FIRST)
    given["response"]["id"] = "\x1b[2J"
    write(tmp_path / "rollouts.jsonl", given, given)
    code, seen = on_terminal(arguments(tmp_path, "--from", "nemo-gym", "--session", "s"), stream="stdout")
    assert code == 1
    assert "\x1b[2J" not in seen
    assert "\\x1b[2J" in seen


def test_the_help_names_every_format() -> None:
    text = " ".join(call("build", "--help").stdout.split())
    (listed,) = re.findall(r"What wrote ROLLOUTS: (.*?)\. \[required\]", text)
    assert all(name in listed for name in names())
