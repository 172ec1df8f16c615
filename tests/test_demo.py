"""The demo: its model samples what it says it does, its datums are valid, its faults are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import provenance
from provenance import MemoryLedger
from provenance.builder import build_group
from provenance.demo import data
from provenance.demo.faults import FAULTS, FOREIGN, STALE
from provenance.demo.game import GROUP, TURNS
from provenance.demo.ngram import NgramModel


def model_of(text: str) -> NgramModel:
    return NgramModel(text, seed=3)


def test_probabilities_are_a_distribution_everywhere() -> None:
    model = model_of("abracadabra\nabra\n")
    for context in ("", "a", "abrac", "cccccc", "\n"):
        probabilities = model.probabilities(model.encode(context))
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert (probabilities > 0).all()


def test_a_prediction_is_the_one_computed_by_hand() -> None:
    # Two characters. Below: uniform. Empty context: a 3 times, b once, 2 kinds. After a: a twice, b once.
    model = model_of("aaab")
    empty = (3 + 2 * 0.5) / (4 + 2)
    after_a = (2 + 2 * empty) / (3 + 2)
    assert model.probabilities([])[0] == pytest.approx(empty)
    assert model.probabilities(model.encode("ba"))[0] == pytest.approx(after_a)


def test_samples_follow_the_distribution_and_carry_its_logprobs() -> None:
    model = model_of("ab\nac\nab\nab\n")
    prompt = model.encode("a")
    samples = model.sample(prompt, 4000)
    drawn = Counter(sample.tokens[0] for sample in samples)
    expected = model.probabilities(prompt)
    for token, probability in enumerate(expected):
        assert drawn[token] / 4000 == pytest.approx(probability, abs=0.03)
    for sample in samples[:50]:
        for i, token in enumerate(sample.tokens):
            probability = model.probabilities(prompt + sample.tokens[:i])[token]
            assert sample.logprobs[i] == np.float32(np.log(probability))
    assert len({sample.sequence_id for sample in samples}) == 4000


def test_samples_end_with_the_stop_or_at_the_limit() -> None:
    model = model_of("abcdefgh\n" * 3)
    for sample in model.sample(model.encode("c"), 200, max_tokens=4):
        ended = sample.tokens[-1] == model.encode("\n")[0]
        assert sample.stop_reason == ("stop" if ended else "length")
        assert ended or len(sample.tokens) == 4
        assert model.encode("\n")[0] not in sample.tokens[:-1]


def test_rollouts_are_games_whose_turns_extend_each_other() -> None:
    model, groups = data.sample_and_record(MemoryLedger())
    assert {len(group) for group in groups} == {GROUP}
    for group in groups:
        assert len(build_group(group).datums) == GROUP
        for rollout in group:
            assert len(rollout.turns) == TURNS
            for turn, later in zip(rollout.turns, rollout.turns[1:], strict=False):
                seen = [*turn.sequence.prompt_tokens, *turn.sequence.tokens]
                prompt = later.sequence.prompt_tokens.tolist()
                assert prompt[: len(seen)] == seen
                verdict = model.decode(prompt[len(seen) :]).strip().split(".")[0]
                assert verdict in ("right", "no")


def test_what_is_built_is_valid_and_each_fault_is_found(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    model, groups = data.sample_and_record(ledger)
    datums = data.build(groups, tmp_path / "datums.jsonl")
    report = provenance.check(tmp_path / "datums.jsonl", ledger=ledger, session=data.SESSION)
    assert report.valid
    assert report.datums == len(datums) == len(groups) * GROUP
    assert report.warnings == 0
    faults = data.break_some(model, ledger, datums, tmp_path / "broken.jsonl")
    assert faults == [*FAULTS, FOREIGN, STALE]
    report = provenance.check(tmp_path / "broken.jsonl", ledger=ledger, session=data.SESSION)
    for line, fault in enumerate(faults, 1):
        found = {v.code for v in report.violations if v.location.line == line}
        assert set(fault.codes) <= found, fault.happened


def run(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "provenance", "demo", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_the_command_tells_the_story_and_leaves_its_files(tmp_path: Path) -> None:
    first = run(cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    folder = tmp_path / "provenance-demo"
    files = sorted(p.name for p in folder.iterdir())
    assert files == [".provenance-demo", "broken.jsonl", "datums.jsonl", "ledger.db"]
    for fault in (*FAULTS, FOREIGN, STALE):
        assert fault.happened in first.stdout
    commands = [
        line.strip(" $") for line in first.stdout.splitlines() if "provenance check provenance-demo" in line
    ]
    assert len(commands) == 3
    again = run(cwd=tmp_path)
    assert again.returncode == 0
    assert again.stdout.splitlines()[:6] == first.stdout.splitlines()[:6]


@pytest.mark.parametrize("name", ["datums.jsonl", "ledger.db"])
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    done = run(str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert repr(name) in done.stderr
    assert [(p.name, p.read_text(encoding="utf-8")) for p in tmp_path.iterdir()] == [(name, "mine")]


def test_a_file_of_ones_own_beside_a_demo_is_left_alone(tmp_path: Path) -> None:
    assert run("here", cwd=tmp_path).returncode == 0
    own = tmp_path / "here" / "notes.txt"
    own.write_text("mine", encoding="utf-8")
    done = run("here", cwd=tmp_path)
    assert (done.returncode, repr("notes.txt") in done.stderr) == (2, True)
    assert own.read_text(encoding="utf-8") == "mine"


def test_a_file_where_the_folder_should_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    done = run("taken", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "taken" in done.stderr


def test_torch_and_pyarrow_are_not_needed(tmp_path: Path) -> None:
    script = (
        "import sys\nsys.modules['torch'] = sys.modules['pyarrow'] = None\n"
        "from provenance.cli import main\nmain(['demo', 'here'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
