"""Datums from trajectories, case by case: tokens, values and spans as written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenance
from provenance import (
    Datum,
    DmelChunk,
    EncodedTextChunk,
    ImageAssetPointerChunk,
    ImageChunk,
    ModelInput,
    SampledSequence,
    SchemaError,
    Trajectory,
    Turn,
)
from provenance.builder import build_datums, build_group, group_advantages, untrained_turns
from provenance.models import Chunk

NOW = "2026-01-02T12:00:00Z"
CAT = ImageChunk(data=b"cat", format="png", expected_tokens=2)
DOG = ImageChunk(data=b"dog", format="png", expected_tokens=2)
#: What a prompt is written as: token ids, and chunks that are no text.
Flat = list[Any]


def chunks_of(flat: Flat) -> list[Chunk]:
    """One text chunk a token, which the builder has to join."""
    return [EncodedTextChunk(tokens=[item]) if isinstance(item, int) else item for item in flat]


def turn(name: str, flat: Flat, tokens: list[int], advantage: Any = None, **changes: Any) -> Turn:
    """A turn; the logprob of a token is minus a thousandth of it."""
    recorded = [token for item in flat for token in ([item] if isinstance(item, int) else [-1] * item.length)]
    sequence = SampledSequence(
        **{
            "sequence_id": name,
            "session_id": "s",
            "prompt_tokens": recorded,
            "tokens": tokens,
            "logprobs": [-token / 1000 for token in tokens],
            "sampled_at": "2026-01-02T10:00:00Z",
            "record_stability_info": True,
        }
        | changes
    )
    text = all(isinstance(item, int) for item in flat)
    prompt = None if text else ModelInput(chunks=chunks_of(flat))
    return Turn(sequence=sequence, prompt=prompt, advantage=advantage)


def spans_of(datum: Datum, field: str) -> str:
    """Spans as `a[0:2] a(0:1)`: brackets for a prompt, parentheses for what was sampled."""
    ends = {"prompt": "[]", "sampled": "()"}
    return " ".join(
        f"{s.sequence_id}{ends[s.type][0]}{s.offset}:{s.offset + s.length}{ends[s.type][1]}"
        for s in getattr(datum, field)
    )


def values(datum: Datum, name: str) -> list[Any]:
    found: list[Any] = datum.loss_fn_inputs[name].tolist()
    return found


def report_of(datums: list[Datum], turns: list[Turn], **options: Any) -> provenance.Report:
    ledger = [t.sequence for t in turns]
    return provenance.check(datums, ledger=ledger, session="s", now=NOW, allow_empty=True, **options)


CASES: dict[str, tuple[list[Turn], list[tuple[Flat, list[int], str, str]]]] = {
    "single": (
        [turn("a", [1, 2], [3, 4])],
        [([1, 2, 3], [2, 3, 4], "a[0:2] a(0:1)", "a[1:2] a(0:2)")],
    ),
    "one-token-prompt-and-completion": (
        [turn("a", [1], [3])],
        [([1], [3], "a[0:1]", "a(0:1)")],
    ),
    "one-token-prompt": ([turn("a", [1], [3, 4])], [([1, 3], [3, 4], "a[0:1] a(0:1)", "a(0:2)")]),
    "one-token-completion": ([turn("a", [1, 2], [3])], [([1, 2], [2, 3], "a[0:2]", "a[1:2] a(0:1)")]),
    "extended": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3, 4], [5])],
        [([1, 2, 3, 4], [2, 3, 4, 5], "a[0:2] a(0:1) b[3:4]", "a[1:2] a(0:1) b[3:4] b(0:1)")],
    ),
    "exactly-what-is-held": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3], [5])],
        [([1, 2, 3], [2, 3, 5], "a[0:2] a(0:1)", "a[1:2] a(0:1) b(0:1)")],
    ),
    "rewritten": (
        [turn("a", [1, 2], [3]), turn("b", [9, 2, 3, 4], [5])],
        [
            ([1, 2], [2, 3], "a[0:2]", "a[1:2] a(0:1)"),
            ([9, 2, 3, 4], [2, 3, 4, 5], "b[0:4]", "b[1:4] b(0:1)"),
        ],
    ),
    "stop-token-stripped-from-history": (
        [turn("a", [1, 2], [3, 0]), turn("b", [1, 2, 3, 4], [5])],
        [
            ([1, 2, 3], [2, 3, 0], "a[0:2] a(0:1)", "a[1:2] a(0:2)"),
            ([1, 2, 3, 4], [2, 3, 4, 5], "b[0:4]", "b[1:4] b(0:1)"),
        ],
    ),
    "cut-to-less-than-is-held": (
        [turn("a", [1, 2], [3, 4]), turn("b", [1, 2], [5])],
        [
            ([1, 2, 3], [2, 3, 4], "a[0:2] a(0:1)", "a[1:2] a(0:2)"),
            ([1, 2], [2, 5], "b[0:2]", "b[1:2] b(0:1)"),
        ],
    ),
    "merged-again-after-a-rewrite": (
        [turn("a", [1], [2]), turn("b", [8], [9]), turn("c", [8, 9, 7], [6])],
        [
            ([1], [2], "a[0:1]", "a(0:1)"),
            ([8, 9, 7], [9, 7, 6], "b[0:1] b(0:1) c[2:3]", "b(0:1) c[2:3] c(0:1)"),
        ],
    ),
    "ends-in-an-observation": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3, 4, 5], [])],
        [([1, 2, 3, 4], [2, 3, 4, 5], "a[0:2] a(0:1) b[3:4]", "a[1:2] a(0:1) b[3:5]")],
    ),
    "ends-in-one-token-of-an-observation": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3, 4], [])],
        [([1, 2, 3], [2, 3, 4], "a[0:2] a(0:1)", "a[1:2] a(0:1) b[3:4]")],
    ),
    "ends-in-nothing-new": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3], [])],
        [([1, 2], [2, 3], "a[0:2]", "a[1:2] a(0:1)")],
    ),
    "ends-in-an-image": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3, 4], []), turn("c", [1, 2, 3, 4, 5, CAT], [])],
        [([1, 2, 3], [2, 3, 4], "a[0:2] a(0:1)", "a[1:2] a(0:1) b[3:4]")],
    ),
    "unanswered-in-the-middle": (
        [turn("a", [1, 2], [3]), turn("b", [1, 2, 3, 4], []), turn("c", [1, 2, 3, 4, 5], [6])],
        [
            (
                [1, 2, 3, 4, 5],
                [2, 3, 4, 5, 6],
                "a[0:2] a(0:1) b[3:4] c[4:5]",
                "a[1:2] a(0:1) b[3:4] c[4:5] c(0:1)",
            )
        ],
    ),
    "unanswered-at-first": (
        [turn("a", [1, 2], []), turn("b", [1, 2, 3], [4])],
        [([1, 2, 3], [2, 3, 4], "a[0:2] b[2:3]", "a[1:2] b[2:3] b(0:1)")],
    ),
    "unanswered-and-rewritten": (
        [turn("a", [1, 2], []), turn("b", [9, 8], [7])],
        [([9, 8], [8, 7], "b[0:2]", "b[1:2] b(0:1)")],
    ),
    "never-answered": ([turn("a", [1, 2], []), turn("b", [1, 2, 3], [])], []),
    "no-turns": ([], []),
    "empty-prompt": ([turn("a", [], [3, 4])], []),
    "empty-prompt-and-one-token": (
        [turn("a", [], [3]), turn("b", [3, 4], [5])],
        [([3, 4], [4, 5], "a(0:1) b[1:2]", "b[1:2] b(0:1)")],
    ),
    "empty-prompt-then-extended": (
        [turn("a", [], [3, 4]), turn("b", [3, 4, 5], [6])],
        [([3, 4, 5], [4, 5, 6], "a(0:2) b[2:3]", "b[1:3] b(0:1)")],
    ),
    "empty-prompt-then-exactly-what-is-held": (
        [turn("a", [], [3, 4]), turn("b", [3, 4], [6])],
        [([3, 4], [4, 6], "a(0:2)", "b[1:2] b(0:1)")],
    ),
    "nothing-at-all-and-then-something": (
        [turn("a", [], []), turn("b", [1, 2], [3])],
        [([1, 2], [2, 3], "b[0:2]", "b[1:2] b(0:1)")],
    ),
    "image-first": (
        [turn("a", [CAT, 1], [2])],
        [([CAT, 1], [0, 1, 2], "a[0:3]", "a[1:3] a(0:1)")],
    ),
    "image-last": (
        [turn("a", [1, CAT], [2, 3])],
        [([1, CAT, 2], [0, 0, 2, 3], "a[0:3] a(0:1)", "a[1:3] a(0:2)")],
    ),
    "image-before-one-token": (
        [turn("a", [1, CAT], [2])],
        [([1, CAT], [0, 0, 2], "a[0:3]", "a[1:3] a(0:1)")],
    ),
    "image-alone": ([turn("a", [CAT], [2])], [([CAT], [0, 2], "a[0:2]", "a[1:2] a(0:1)")]),
    "images-extended": (
        [turn("a", [1, CAT], [2]), turn("b", [1, CAT, 2, DOG, CAT, 3], [4])],
        [
            (
                [1, CAT, 2, DOG, CAT, 3],
                [0, 0, 2, 0, 0, 0, 0, 3, 4],
                "a[0:3] a(0:1) b[4:9]",
                "a[1:3] a(0:1) b[4:9] b(0:1)",
            )
        ],
    ),
    "another-image": (
        [turn("a", [1, CAT], [2]), turn("b", [1, DOG, 2, 3], [4])],
        [
            ([1, CAT], [0, 0, 2], "a[0:3]", "a[1:3] a(0:1)"),
            ([1, DOG, 2, 3], [0, 0, 2, 3, 4], "b[0:5]", "b[1:5] b(0:1)"),
        ],
    ),
    "images-of-other-lengths": (
        [
            turn("a", [CAT, CAT, 1], [2]),
            turn("b", [CAT.model_copy(update={"expected_tokens": 4}), 1, 2], [3]),
        ],
        [
            ([CAT, CAT, 1], [0, 0, 0, 1, 2], "a[0:5]", "a[1:5] a(0:1)"),
            (
                [CAT.model_copy(update={"expected_tokens": 4}), 1, 2],
                [0, 0, 0, 1, 2, 3],
                "b[0:6]",
                "b[1:6] b(0:1)",
            ),
        ],
    ),
    "image-where-the-text-went-on": (
        [turn("a", [1], [2]), turn("b", [1, CAT], [3])],
        [([1], [2], "a[0:1]", "a(0:1)"), ([1, CAT], [0, 0, 3], "b[0:3]", "b[1:3] b(0:1)")],
    ),
}


def joined(flat: Flat) -> ModelInput:
    """Text as long as can be between what is no text."""
    chunks: list[Chunk] = []
    for item in flat:
        last = chunks[-1] if chunks else None
        if not isinstance(item, int):
            chunks.append(item)
        elif isinstance(last, EncodedTextChunk):
            chunks[-1] = EncodedTextChunk(tokens=[*last.tokens.tolist(), item])
        else:
            chunks.append(EncodedTextChunk(tokens=[item]))
    return ModelInput(chunks=chunks)


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    turns, expected = CASES[name]
    datums = build_datums(Trajectory(turns=turns, advantage=0.5))
    assert [spans_of(d, "model_input_spans") for d in datums] == [spans for _, _, spans, _ in expected]
    assert [spans_of(d, "loss_fn_input_spans") for d in datums] == [spans for _, _, _, spans in expected]
    assert [d.model_input for d in datums] == [joined(flat) for flat, *_ in expected]
    assert [values(d, "target_tokens") for d in datums] == [targets for _, targets, *_ in expected]
    report = report_of(datums, turns)
    assert not report.counts, [str(v) for v in report]
    assert report.datums == len(expected)


def test_values_lie_on_the_sampled_tokens() -> None:
    turns = [turn("a", [1, 2], [3, 4]), turn("b", [1, 2, 3, 4, 5], [6])]
    (datum,) = build_datums(Trajectory(turns=turns, advantage=0.5))
    assert set(datum.loss_fn_inputs) == {"target_tokens", "logprobs", "advantages"}
    assert values(datum, "logprobs") == [0.0, *map(np.float32, [-0.003, -0.004]), 0.0, np.float32(-0.006)]
    assert values(datum, "advantages") == [0.0, 0.5, 0.5, 0.0, 0.5]
    dtypes = {name: tensor.dtype for name, tensor in datum.loss_fn_inputs.items()}
    assert dtypes == {"target_tokens": "int64", "logprobs": "float32", "advantages": "float32"}


def test_an_answer_to_an_empty_prompt_is_context_only() -> None:
    turns = [turn("a", [], [3, 4]), turn("b", [3, 4, 5], [6])]
    trajectory = Trajectory(turns=turns, advantage=0.5)
    (datum,) = build_datums(trajectory)
    assert values(datum, "advantages") == [0.0, 0.0, 0.5]
    assert values(datum, "logprobs") == [0.0, 0.0, np.float32(-0.006)]
    assert untrained_turns(trajectory) == [0]


def test_advantages_of_turns_come_before_that_of_the_trajectory() -> None:
    turns = [
        turn("a", [1], [2, 3], [0.25, -0.0]),
        turn("b", [1, 2, 3], [4, 5], 0.0),
        turn("c", [1, 2, 3, 4, 5], [6, 7]),
    ]
    (datum,) = build_datums(Trajectory(turns=turns, advantage=2))
    found = datum.loss_fn_inputs["advantages"].data
    assert found.tolist() == [0.25, 0.0, 0.0, 0.0, 2.0, 2.0]
    assert np.signbit(found).tolist() == [False, True, False, False, False, False]


def test_untrained_turns_are_those_that_no_target_span_names() -> None:
    turns = [turn("a", [], [3]), turn("b", [3, 1], []), turn("c", [3, 1, 2], [4]), turn("d", [9], [])]
    trajectory = Trajectory(turns=turns, advantage=0.5)
    assert untrained_turns(trajectory) == [0, 1, 3]
    named = {
        s.sequence_id
        for d in build_datums(trajectory)
        for s in d.loss_fn_input_spans or ()
        if s.type == "sampled"
    }
    assert named == {"c"}


def test_audio_is_no_text_either() -> None:
    audio = DmelChunk(dmel=b"\x00\x01\x02" + b"\0" * 8)
    assert audio.length == 2
    turns = [turn("a", [1, audio], [2]), turn("b", [1, audio, 2, 3], [4])]
    datums = build_datums(Trajectory(turns=turns, advantage=0.5))
    assert [d.model_input for d in datums] == [joined([1, audio, 2, 3])]


def test_an_image_of_no_positions_keeps_its_place() -> None:
    nothing = ImageChunk(data=b"", format="png", expected_tokens=0)
    before = turn("a", [1, 2], [3])
    after = turn("b", [1, nothing, 2, 3], [4])
    datums = build_datums(Trajectory(turns=[before, after], advantage=0.5))
    assert [d.model_input for d in datums] == [joined([1, 2]), joined([1, nothing, 2, 3])]


@pytest.mark.parametrize(
    ("turns", "code", "message"),
    [
        (
            [turn("a", [1], [2], 1.0), turn("b", [1], []), turn("c", [1, 2], [3])],
            "FMT004",
            (
                "turns[2].advantage: missing, and the trajectory has none: "
                "give either, 0.0 to train on the KL term alone (FMT004 wrong-type)"
            ),
        ),
        (
            [turn("a", [1], [2], 1.0), turn("b", [1, 2, 3], [4], 1.0), turn("a", [9], [8], 1.0)],
            "SEQ010",
            (
                "turns[2].sequence.sequence_id: 'a' is that of turns[0] already, expected each one once "
                "(SEQ010 repeated-sequence)"
            ),
        ),
        (
            [turn("a", [1], [2], 1.0), turn("a", [1, 2], [3], 1.0, session_id="later")],
            "SES001",
            (
                "turns[1].sequence.session_id: 'later', expected 's' as in turns[0]: "
                "one training request is of one session (SES001 wrong-session)"
            ),
        ),
        (
            [turn("a", [1, ImageAssetPointerChunk(location="x", format="png", expected_tokens=1)], [2], 1.0)],
            "TOK004",
            (
                "turns[0].prompt.chunks[1]: an image by reference cannot be trained on: "
                "give the image itself, as an ImageChunk (TOK004 untrainable-chunk)"
            ),
        ),
    ],
)
def test_refusals(turns: list[Turn], code: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        build_datums(Trajectory(turns=turns))
    assert str(caught.value) == message
    assert caught.value.code == code


def test_sequences_without_stability_info_are_for_the_check_to_judge() -> None:
    turns = [turn("a", [1], [2], record_stability_info=False)]
    datums = build_datums(Trajectory(turns=turns, advantage=0.5))
    assert set(report_of(datums, turns).counts) == {"ADV002"}
    assert not report_of(datums, turns, contract="ppo").counts
    assert not report_of(build_datums(Trajectory(turns=turns, advantage=0.0)), turns).errors


def test_siblings_are_trajectories_of_their_own() -> None:
    turns = [turn(name, [1, 2], [3, i]) for i, name in enumerate("abc")]
    rollouts = [
        Trajectory(turns=[t], reward=reward, group_id="g", trajectory_id=t.sequence.sequence_id)
        for t, reward in zip(turns, [1, 0, 0.5], strict=True)
    ]
    group = build_group(rollouts)
    assert group.advantages.tolist() == [0.5, -0.5, 0.0]
    assert not group.zero_variance
    assert [spans_of(d, "loss_fn_input_spans") for d in group.datums] == [
        f"{name}[1:2] {name}(0:2)" for name in "abc"
    ]
    assert [values(d, "advantages") for d in group.datums] == [[0.0, a, a] for a in (0.5, -0.5, 0.0)]
    assert not report_of(group.datums, turns).counts


def test_a_turns_own_advantage_stays_in_a_group() -> None:
    turns = [turn("a", [1], [2], 0.0), turn("b", [1, 2], [3]), turn("c", [1], [4])]
    group = build_group(
        [Trajectory(turns=turns[:2], reward=1, advantage=7), Trajectory(turns=turns[2:], reward=0)]
    )
    assert [values(d, "advantages") for d in group.datums] == [[0.0, 0.5], [-0.5]]


@pytest.mark.parametrize("rewards", [[0.1, 0.1, 0.1], [1.0], [0.0, -0.0], [1e30] * 7, []])
def test_equal_rewards_are_reported(rewards: list[float]) -> None:
    rollouts = [Trajectory(turns=[turn(str(i), [1], [2])], reward=reward) for i, reward in enumerate(rewards)]
    group = build_group(rollouts)
    assert group.zero_variance
    assert group.advantages.tolist() == [0.0] * len(rewards)
    assert (len(group.datums), group.advantages.dtype) == (len(rewards), np.float32)


def test_a_rollout_without_turns_counts_in_its_group() -> None:
    group = build_group([Trajectory(turns=[turn("a", [1], [2])], reward=1), Trajectory(turns=[], reward=0)])
    assert group.advantages.tolist() == [0.5, -0.5]
    assert [values(d, "advantages") for d in group.datums] == [[0.5]]


@pytest.mark.parametrize("as_array", [list, tuple, np.array, lambda r: np.array(r, np.float32)])
def test_group_advantages_are_float32_of_the_exact_difference(as_array: Any) -> None:
    found = group_advantages(as_array([1.0, 0.0, 0.0, 0.0]))
    assert (found.dtype, found.tolist(), found.flags.writeable) == (
        np.float32,
        [0.75, -0.25, -0.25, -0.25],
        False,
    )
    # Rounded to float32 first, these rewards would be equal.
    assert group_advantages([1e9, 1e9 + 1]).tolist() == [-0.5, 0.5]


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1.0, float("nan")], "rewards[1]: nan is not finite (VAL001 non-finite-value)"),
        ([1.0, None], "rewards[1]: None is not a number (VAL001 non-finite-value)"),
        (["1"], "rewards[0]: '1' is not a number (FMT004 wrong-type)"),
        ([[1.0]], "rewards: an array of shape [1, 1] is not one-dimensional (FMT004 wrong-type)"),
        (0.5, "rewards: 0.5 is not an array of numbers (FMT004 wrong-type)"),
        ([3e38, -3e38, -3e38], "rewards[0]: 4e+38 overflows float32 (VAL001 non-finite-value)"),
        (np.array([1.7e308, 1.7e308, 0]), "rewards[0]: -inf is not finite (VAL001 non-finite-value)"),
    ],
)
def test_rewards_that_are_none(rewards: Any, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        group_advantages(rewards)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("rollouts", "message"),
    [
        (
            [Trajectory(turns=[], reward=1), Trajectory(turns=[])],
            "trajectories[1].reward: missing, a group is compared by it (FMT004 wrong-type)",
        ),
        (
            [Trajectory(turns=[], reward=1, group_id="a"), Trajectory(turns=[], reward=1, group_id="b")],
            "trajectories[1].group_id: 'b', expected 'a', the first's (FMT004 wrong-type)",
        ),
        (
            [Trajectory(turns=[], reward=1), Trajectory(turns=[turn("a", [1], [2])] * 2, reward=1)],
            (
                "trajectories[1].turns[1].sequence.sequence_id: 'a' is that of turns[0] already, "
                "expected each one once (SEQ010 repeated-sequence)"
            ),
        ),
    ],
)
def test_groups_that_are_none(rollouts: list[Trajectory], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        build_group(rollouts)
    assert str(caught.value) == message
