"""The builder against the official cookbook's `trajectory_to_data`: the same datums, field for field.

Three differences, each because of what stable_reinforce refuses: the cookbook trains on part of a sequence
whose prompt is empty (SPN008), builds datums that train on nothing (SPN002), and raises where a trajectory
ends in an image.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cookbook import NOW, RUN, Rollouts, data_processing, plain, rl_types, rollout, rollouts, tinker

import provenance
from provenance import Datum, EncodedTextChunk, ImageChunk, ModelInput, Trajectory, Turn
from provenance.builder import build_datums, build_group

FEW = settings(RUN, max_examples=30)
IMAGE = tinker.types.ImageChunk(data=b"png", format="png", expected_tokens=2)
OTHER = tinker.types.ImageChunk(data=b"gif", format="png", expected_tokens=2)


def trajectories_of(of: Rollouts) -> list[Trajectory]:
    """Our own of the cookbook's; a turn that is masked there has an advantage of 0 here."""
    sequences = iter(of.sequences)
    return [
        Trajectory(
            turns=[
                Turn(sequence=next(sequences), prompt=model_input(t.ob), advantage=0.0 if masked(t) else None)
                for t in trajectory.transitions
            ],
            advantage=advantage,
            reward=advantage,
        )
        for trajectory, advantage in zip(of.trajectories, of.advantages, strict=True)
    ]


def model_input(given: Any) -> ModelInput:
    return ModelInput(
        chunks=[
            EncodedTextChunk(tokens=chunk.tokens)
            if isinstance(chunk, tinker.EncodedTextChunk)
            else ImageChunk(data=chunk.data, format=chunk.format, expected_tokens=chunk.expected_tokens)
            for chunk in given.chunks
        ]
    )


def masked(transition: Any) -> bool:
    return bool(transition.metrics.get(rl_types.PARSE_ERROR_MASKED_METRIC_KEY))


def theirs(trajectory: Any, advantage: Any) -> list[dict[str, Any]] | None:
    """What the cookbook builds, None for what it refuses; a plain integer as advantage is a number, too."""
    try:
        datums = data_processing.trajectory_to_data(trajectory, float(advantage))
    except Exception as error:
        if type(error).__name__ != "DataValidationError":
            raise
        return None
    found = [plain(datum) for datum in datums]
    for datum in found:
        # Of observations alone it makes a list of integers.
        datum["loss_fn_inputs"]["advantages"]["dtype"] = "float32"
    return found


def mended(datum: dict[str, Any]) -> dict[str, Any] | None:
    """A datum of theirs without what stable_reinforce refuses, None where nothing is left to train on."""
    first, *rest = datum.get("loss_fn_input_spans", [None])
    if first is not None and first["type"] == "sampled" and first["offset"]:
        # The rest of an answer to an empty prompt: the next turn's prompt holds it as well.
        sample, colon, number = first["sequence_id"].rpartition(":")
        name = f"{sample}{colon}{int(number) + 1}"
        follows = {"type": "prompt", "sequence_id": name, "offset": 1, "length": first["length"]}
        if rest and rest[0] == {**follows, "offset": 1 + first["length"], "length": rest[0]["length"]}:
            follows["length"] += rest.pop(0)["length"]
        for name in ("logprobs", "advantages"):
            values = datum["loss_fn_inputs"][name]["data"]
            values[: first["length"]] = [0.0] * first["length"]
        datum["loss_fn_input_spans"] = [follows, *rest]
    spans = datum.get("loss_fn_input_spans", ())
    return datum if any(span["type"] == "sampled" for span in spans) else None


def compare(of: Rollouts) -> int:
    """Hold both to each other; the number of datums that were compared."""
    compared = 0
    for trajectory, original in zip(trajectories_of(of), of.trajectories, strict=True):
        built, expected = build_datums(trajectory), theirs(original, trajectory.advantage)
        if expected is not None:
            kept = [Datum.model_validate(datum) for datum in map(mended, expected) if datum is not None]
            assert built == kept
            compared += len(kept)
    return compared


@FEW
@given(rollouts(max_turns=1))
def test_single_turns_agree(of: Rollouts) -> None:
    compare(of)


@FEW
@given(rollouts())
def test_conversations_agree(of: Rollouts) -> None:
    compare(of)


@FEW
@given(rollouts(first=st.just([])))
def test_conversations_that_start_from_nothing_agree(of: Rollouts) -> None:
    compare(of)


@FEW
@given(rollouts())
def test_what_the_cookbook_refuses_or_breaks_is_valid_too(of: Rollouts) -> None:
    datums = [datum for trajectory in trajectories_of(of) for datum in build_datums(trajectory)]
    report = provenance.check(datums, ledger=of.sequences, session="s", now=NOW, allow_empty=True)
    assert set(report.counts) <= {"ADV003"}, [str(v) for v in report]


@pytest.mark.parametrize(
    ("of", "datums"),
    [
        (rollout(([1, 2, 3], [4, 5])), 1),
        (rollout(([1], [2])), 1),
        (rollout(([1, 2], [3]), ([1, 2, 3, 4], [5])), 1),
        (rollout(([1, 2], [3]), ([1, 2, 3], [5])), 1),
        (rollout(([1, 2], [3]), ([9, 2, 3, 4], [5])), 2),
        (rollout(([1, 2], [3, 0]), ([1, 2, 3, 4], [5])), 2),
        (rollout(([1, IMAGE, 2], [3]), ([1, IMAGE, 2, 3, IMAGE, 4], [5])), 1),
        (rollout(([1, IMAGE, 2], [3]), ([1, OTHER, 2, 3, IMAGE, 4], [5])), 2),
        (rollout(([IMAGE, OTHER], [3, 4])), 1),
        (rollout(([1, 2], [3]), ([1, 2, 3, 4, 5], [])), 1),
        (rollout(([1, 2], [3]), ([1, 2, 3, 4], []), ([1, 2, 3, 4, 5], [6])), 1),
        (rollout(([], [3]), ([3, 4], [5])), 1),
        (rollout(([], [3, 4]), ([3, 4, 5], [6])), 1),
        (rollout(([], [3, 4]), ([3, 4], [6])), 1),
    ],
)
def test_kinds_of_trajectories_agree(of: Rollouts, datums: int) -> None:
    assert compare(of) == datums


def test_what_the_cookbook_makes_of_the_differences() -> None:
    """So that a later cookbook that does otherwise is noticed."""
    partial, nothing = rollout(([], [3, 4])), rollout(([1, 2], []))
    image = rollout(([1, 2], [3]), ([1, 2, 3, IMAGE], []))
    (datum,) = theirs(partial.trajectories[0], 1.0) or ()
    assert datum["loss_fn_input_spans"] == [{"type": "sampled", "sequence_id": "0", "offset": 1, "length": 1}]
    (datum,) = theirs(nothing.trajectories[0], 1.0) or ()
    assert "loss_fn_input_spans" not in datum
    assert theirs(image.trajectories[0], 1.0) is None
    counts = [len(build_datums(*trajectories_of(of))) for of in (partial, nothing, image)]
    assert counts == [0, 0, 1]


@FEW
@given(st.lists(st.sampled_from([0.0, 0.1, 1.0, -3.5]), min_size=1, max_size=4))
def test_groups_agree(rewards: list[float]) -> None:
    group, varied = (
        rl_types.TrajectoryGroup(
            trajectories_G=[rl_types.Trajectory(transitions=[], final_ob=tinker.ModelInput.empty())] * len(r),
            final_rewards_G=r,
            metrics_G=[{}] * len(r),
        )
        for r in (rewards, [0.0, 1.0])
    )
    (expected,) = data_processing.compute_advantages([group])
    found = build_group([Trajectory(turns=[], reward=reward) for reward in rewards])
    assert found.advantages == pytest.approx(expected.numpy(), abs=1e-6)
    assert found.zero_variance == (
        group not in data_processing.remove_constant_reward_groups([group, varied])
    )
