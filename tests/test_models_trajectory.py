"""Turn and Trajectory: what they hold, refuse, and write."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from provenance.errors import SchemaError
from provenance.models import EncodedTextChunk, ImageChunk, ModelInput, SampledSequence, Trajectory, Turn

SEQUENCE = SampledSequence(
    sequence_id="s:7",
    session_id="s",
    prompt_tokens=[11, -1, -1, 12],
    tokens=[21, 22],
    logprobs=[-0.5, -0.25],
    sampled_at="2026-11-29T10:00:00Z",
    record_stability_info=True,
)
TEXT = SEQUENCE.model_copy(update={"prompt_tokens": [11, 12]})
IMAGE = ImageChunk(data=b"png", format="png", expected_tokens=2)
PROMPT = ModelInput(chunks=[EncodedTextChunk(tokens=[11]), IMAGE, EncodedTextChunk(tokens=[12])])


def test_json_leaves_out_what_is_not_known() -> None:
    plain = {"sequence": TEXT.model_dump(mode="json")}
    assert Turn(sequence=TEXT).model_dump(mode="json") == plain
    assert Trajectory(turns=[Turn(sequence=TEXT)]).model_dump(mode="json") == {"turns": [plain]}
    assert Turn.model_validate(plain | {"prompt": None, "advantage": None}) == Turn(sequence=TEXT)


def test_a_line_of_json_comes_back() -> None:
    turns = [
        Turn(sequence=SEQUENCE, prompt=PROMPT, advantage=0.1),
        Turn(sequence=TEXT, advantage=[0.5, -0.0]),
        Turn(sequence=TEXT),
    ]
    trajectory = Trajectory(turns=turns, advantage=1, reward=0.1, group_id="g", trajectory_id="t")
    line = trajectory.model_dump_json()
    assert "\n" not in line
    back = Trajectory.model_validate_json(line)
    assert back == trajectory
    assert back.turns[0].advantage == 0.1  # not what float32 makes of it
    assert back.model_dump_json() == line


def test_copies_and_pickles_are_equal_and_frozen() -> None:
    trajectory = Trajectory(turns=[Turn(sequence=TEXT, advantage=np.array([0.5, 1]))], advantage=0.0)
    for other in (copy.deepcopy(trajectory), pickle.loads(pickle.dumps(trajectory))):
        assert other == trajectory
        vector = other.turns[0].advantage
        assert isinstance(vector, np.ndarray)
        assert (vector.dtype, vector.flags.writeable) == (np.float32, False)
        with pytest.raises(ValueError, match="frozen"):
            other.advantage = 1.0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0.5, [0.5, 0.5]),
        ([0.5, 0.5], 0.5),
        ([0.5, 0.5], [0.5, 1.0]),
        (None, [0.5, 0.5]),
        (0.5, 1.0),
        (None, 0.0),
    ],
)
def test_another_advantage_is_another_turn(left: Any, right: Any) -> None:
    assert Turn(sequence=TEXT, advantage=left) == Turn(sequence=TEXT, advantage=left)
    assert Turn(sequence=TEXT, advantage=left) != Turn(sequence=TEXT, advantage=right)


def test_an_advantage_for_one_token_is_no_plain_number() -> None:
    one = TEXT.model_copy(update={"tokens": [21], "logprobs": [-0.5]})
    assert Turn(sequence=one, advantage=0.5) != Turn(sequence=one, advantage=[0.5])
    assert Turn(sequence=one, advantage=[0.5]) != Turn(sequence=one, advantage=0.5)


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.array(1), np.array(1.0), np.int64(1)], ids=repr)
def test_scalars_of_any_library_are_numbers(value: Any) -> None:
    for number in (
        Turn(sequence=TEXT, advantage=value).advantage,
        Trajectory(turns=[], advantage=value).advantage,
        Trajectory(turns=[], reward=value).reward,
    ):
        assert (type(number), number) == (float, 1.0)


def test_tensors_of_torch_are_numbers_and_vectors() -> None:
    torch = pytest.importorskip("torch")
    advantages = torch.tensor([0.5, 1.0])
    assert Turn(sequence=TEXT, advantage=advantages) == Turn(sequence=TEXT, advantage=[0.5, 1.0])
    assert Turn(sequence=TEXT, advantage=advantages[0]) == Turn(sequence=TEXT, advantage=0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"advantage": [1.0]},
            (
                "advantage: shape [1], expected a number or shape [2], one for each token "
                "(INP005 length-mismatch)"
            ),
        ),
        (
            {"advantage": [[1.0, 2.0]]},
            "advantage: an array of shape [1, 2] is not one-dimensional (FMT004 wrong-type)",
        ),
        ({"advantage": [1.0, float("nan")]}, "advantage[1]: nan is not finite (VAL001 non-finite-value)"),
        ({"advantage": [1.0, None]}, "advantage[1]: None is not a number (VAL001 non-finite-value)"),
        ({"advantage": float("inf")}, "advantage: inf is not finite (VAL001 non-finite-value)"),
        ({"advantage": 1e39}, "advantage: 1e+39 overflows float32 (VAL001 non-finite-value)"),
        ({"advantage": True}, "advantage: True is not a number (FMT004 wrong-type)"),
        ({"advantage": "1"}, "advantage: '1' is not a number (FMT004 wrong-type)"),
        (
            {"prompt": ModelInput.from_ints([11])},
            "prompt: length 1, expected 2, that of sequence.prompt_tokens (SEQ003 input-token-mismatch)",
        ),
        (
            {"prompt": ModelInput.from_ints([11, 13])},
            (
                "prompt: 13 at position 1, sequence.prompt_tokens has 12 (-1 is no text) "
                "(SEQ003 input-token-mismatch)"
            ),
        ),
        (
            {"prompt": ModelInput(chunks=[IMAGE])},
            (
                "prompt: -1 at position 0, sequence.prompt_tokens has 11 (-1 is no text) "
                "(SEQ003 input-token-mismatch)"
            ),
        ),
        (
            {"prompt": ModelInput(chunks=[EncodedTextChunk(tokens=[1]), ImageChunk(data=b"", format="png")])},
            ("prompt.chunks[1]: the length is unknown, set expected_tokens (TOK003 unknown-chunk-length)"),
        ),
        (
            {"sequence": SEQUENCE},
            (
                "prompt: missing, but position 1 of sequence.prompt_tokens is no text: "
                "give the request's prompt (FMT004 wrong-type)"
            ),
        ),
        ({"reward": 1.0}, "reward: unknown field (FMT004 wrong-type)"),
    ],
)
def test_what_a_turn_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Turn(**{"sequence": TEXT} | change)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"turns": [{"sequence": TEXT}, {"sequence": TEXT, "advantage": [1]}]},
            (
                "turns[1].advantage: shape [1], expected a number or shape [2], one for each token "
                "(INP005 length-mismatch)"
            ),
        ),
        ({"turns": [{}]}, "turns[0].sequence: missing (FMT004 wrong-type)"),
        ({"turns": {}}, "turns: {} is not a list (FMT004 wrong-type)"),
        ({"advantage": [1.0]}, "advantage: [1.0] is not a number (FMT004 wrong-type)"),
        ({"reward": float("nan")}, "reward: nan is not finite (VAL001 non-finite-value)"),
        ({"group_id": ""}, "group_id: '' should have at least 1 character (FMT004 wrong-type)"),
        ({"trajectory_id": 7}, "trajectory_id: 7 should be a valid string (FMT004 wrong-type)"),
    ],
)
def test_what_a_trajectory_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Trajectory(**{"turns": []} | change)
    assert str(caught.value) == message


def test_the_json_schema_takes_one_advantage_or_many() -> None:
    number, null = {"type": "number"}, {"type": "null"}
    advantage = Turn.model_json_schema()["properties"]["advantage"]
    assert advantage["anyOf"] == [number, {"type": "array", "items": number}, null]
    assert advantage["description"].startswith("Of the sampled tokens")
    assert Trajectory.model_json_schema()["properties"]["reward"]["anyOf"] == [number, null]
