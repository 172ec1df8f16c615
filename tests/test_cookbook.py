"""Trajectories of every kind through the official cookbook's own code: what it builds must pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import provenance
from provenance import MemoryLedger, SampledSequence

tinker = pytest.importorskip("tinker")
data_processing = pytest.importorskip("tinker_cookbook.rl.data_processing")
completers = pytest.importorskip("tinker_cookbook.completers")
rl_types = pytest.importorskip("tinker_cookbook.rl.types")

Draw = Callable[[st.SearchStrategy[Any]], Any]
#: A prompt or a history: token ids, and images.
Flat = list[Any]
TOKENS = st.integers(1, 500)
NOW = "2026-01-02T12:00:00Z"


class Rollouts(NamedTuple):
    trajectories: list[Any]
    advantages: list[float]
    sequences: list[SampledSequence]


def model_input(flat: Flat) -> Any:
    chunks: list[Any] = []
    for item in flat:
        if not isinstance(item, int):
            chunks.append(item)
        elif chunks and isinstance(chunks[-1], tinker.EncodedTextChunk):
            chunks[-1] = tinker.EncodedTextChunk(tokens=[*chunks[-1].tokens, item])
        else:
            chunks.append(tinker.EncodedTextChunk(tokens=[item]))
    return tinker.ModelInput(chunks=chunks)


def prompt_of(flat: Flat) -> list[int]:
    """A prompt as a ledger keeps it: -1 where the position is no text."""
    return [token for item in flat for token in ([item] if isinstance(item, int) else [-1] * item.length)]


@st.composite
def observations(draw: Draw, min_size: int = 0) -> Flat:
    flat = draw(st.lists(TOKENS, min_size=min_size, max_size=4))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        image = tinker.types.ImageChunk(data=b"png", format="png", expected_tokens=draw(st.integers(1, 3)))
        flat.insert(draw(st.integers(0, len(flat))), image)
    return flat


@st.composite
def rollouts(draw: Draw, max_turns: int = 5, first: st.SearchStrategy[Flat] | None = None) -> Rollouts:
    """Some samples of one request, each of which goes on for some turns of its own."""
    start = draw(first if first is not None else observations())
    trajectories, sequences = [], []
    for sample in range(draw(st.integers(1, 3))):
        history = list(start)
        transitions = []
        for turn in range(draw(st.integers(1, max_turns))):
            how = (
                draw(st.sampled_from(["extend", "extend", "extend", "again", "rewrite"])) if turn else "start"
            )
            if how == "extend":
                history = [*history, *draw(observations(min_size=1))]
            elif how == "rewrite":
                history = draw(observations())
            # A rollout that has to stop may end in an observation that nobody answered.
            last = turn > 0 and draw(st.integers(0, 7)) == 0
            sampled = [] if last else draw(st.lists(TOKENS, min_size=1, max_size=4))
            logprobs = [draw(st.floats(-30, 0, width=32)) for _ in sampled]
            name = f"{sample}:{turn}"
            action = completers.TokensWithLogprobs(tokens=sampled, maybe_logprobs=logprobs, sequence_id=name)
            metrics = {rl_types.PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if draw(st.integers(0, 5)) == 0 else {}
            transitions.append(
                rl_types.Transition(
                    ob=model_input(history), ac=action, reward=1.0, episode_done=False, metrics=metrics
                )
            )
            sequences.append(
                SampledSequence(
                    sequence_id=name,
                    session_id="s",
                    prompt_tokens=prompt_of(history),
                    tokens=sampled,
                    logprobs=logprobs,
                    sampled_at="2026-01-02T10:00:00Z",
                    record_stability_info=True,
                )
            )
            history = [*history, *sampled]
        trajectories.append(rl_types.Trajectory(transitions=transitions, final_ob=model_input(history)))
    advantages = [draw(st.sampled_from([0.5, -1.25, 0.0, 1])) for _ in trajectories]
    return Rollouts(trajectories, advantages, sequences)


def plain(datum: Any) -> dict[str, Any]:
    """A datum of the SDK as JSON, without the mask that the cookbook strips before it sends one."""
    found: dict[str, Any] = {
        "model_input": datum.model_input.model_dump(mode="json"),
        "loss_fn_inputs": {
            name: {"data": list(tensor.data), "dtype": tensor.dtype, "shape": tensor.shape}
            for name, tensor in datum.loss_fn_inputs.items()
            if name != "mask"
        },
    }
    for field in ("model_input_spans", "loss_fn_input_spans"):
        spans = getattr(datum, field)
        if spans is not None:
            found[field] = [
                {
                    "type": "sampled" if isinstance(span, tinker.SampledProvenanceSpan) else "prompt",
                    "sequence_id": span.sequence_id,
                    "offset": span.offset,
                    "length": span.length,
                }
                for span in spans
            ]
    return found


def datums_of(of: Rollouts) -> list[dict[str, Any]]:
    """What the cookbook makes of trajectories, without those it refuses (an image at the end, one token)."""
    datums = []
    for trajectory, advantage in zip(of.trajectories, of.advantages, strict=True):
        try:
            datums += data_processing.trajectory_to_data(trajectory, advantage)
        except Exception as error:
            if type(error).__name__ != "DataValidationError":
                raise
    return [plain(datum) for datum in datums]


def expected_errors(datum: dict[str, Any]) -> set[str]:
    if "loss_fn_input_spans" not in datum:
        return {"SPN002"}  # nothing sampled is a target, so that the cookbook attaches no spans
    runs = [span for span in datum["loss_fn_input_spans"] if span["type"] == "sampled"]
    # Nothing precedes the first token of an empty observation's answer, so that no position predicts it.
    return {"SPN008"} if any(span["offset"] for span in runs) else set()


def errors_by_row(report: provenance.Report) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for violation in report:
        if violation.severity == "error":
            assert violation.location.row is not None, violation
            found.setdefault(violation.location.row, set()).add(violation.code)
    return found


#: A loss of int64 advantages, of nothing but zeros, and no others.
WARNINGS = {"INP007", "ADV003"}


def assert_passes(of: Rollouts) -> None:
    datums = datums_of(of)
    report = provenance.check(
        datums, ledger=MemoryLedger(of.sequences), session="s", now=NOW, max_examples=1000, allow_empty=True
    )
    expected = {row: expected_errors(datum) for row, datum in enumerate(datums)}
    assert errors_by_row(report) == {row: codes for row, codes in expected.items() if codes}
    assert report.codes(provenance.Severity.WARNING) <= WARNINGS, [str(v) for v in report]
    judged = sum(
        span["length"]
        for d in datums
        for span in d.get("loss_fn_input_spans", ())
        if span["type"] == "sampled"
    )
    assert report.checked.get("SEQ006", 0) == judged


RUN = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@RUN
@given(rollouts(max_turns=1))
def test_single_turns_pass(of: Rollouts) -> None:
    assert_passes(of)


@RUN
@given(rollouts())
def test_conversations_pass(of: Rollouts) -> None:
    assert_passes(of)


@RUN
@given(rollouts(first=st.just([])))
def test_answers_to_an_empty_observation_are_partial(of: Rollouts) -> None:
    assert_passes(of)


@pytest.mark.slow
@settings(RUN, max_examples=2000)
@given(rollouts(max_turns=8))
def test_many_conversations_pass(of: Rollouts) -> None:
    assert_passes(of)


def rollout(*turns: tuple[Flat, list[int]]) -> Rollouts:
    """One trajectory: each turn's observation, and what was sampled for it."""
    transitions, sequences = [], []
    for number, (flat, sampled) in enumerate(turns):
        logprobs = [-0.5] * len(sampled)
        action = completers.TokensWithLogprobs(
            tokens=sampled, maybe_logprobs=logprobs, sequence_id=f"{number}"
        )
        transitions.append(
            rl_types.Transition(ob=model_input(flat), ac=action, reward=0.0, episode_done=False)
        )
        sequences.append(
            SampledSequence(
                sequence_id=f"{number}",
                session_id="s",
                prompt_tokens=prompt_of(flat),
                tokens=sampled,
                logprobs=logprobs,
                sampled_at="2026-01-02T10:00:00Z",
                record_stability_info=True,
            )
        )
    return Rollouts(
        [rl_types.Trajectory(transitions=transitions, final_ob=model_input([]))], [1.0], sequences
    )


IMAGE = tinker.types.ImageChunk(data=b"png", format="png", expected_tokens=2)


@pytest.mark.parametrize(
    ("of", "datums", "errors"),
    [
        (rollout(([1, 2, 3], [4, 5])), 1, set()),
        (rollout(([1], [2])), 1, set()),
        (rollout(([1, 2], [3]), ([1, 2, 3, 4], [5])), 1, set()),
        (rollout(([1, 2], [3]), ([1, 2, 3], [5])), 1, set()),
        (rollout(([1, 2], [3]), ([9, 2, 3, 4], [5])), 2, set()),
        (rollout(([1, IMAGE, 2], [3]), ([1, IMAGE, 2, 3, IMAGE, 4], [5])), 1, set()),
        (rollout(([IMAGE], [3, 4])), 1, set()),
        (rollout(([1, 2], [3]), ([1, 2, 3, 4, 5], [])), 1, set()),
        (rollout(([], [3, 4])), 1, {"SPN008"}),
        (rollout(([], [3]), ([3, 4], [5])), 1, set()),
        (rollout(([1, 2], [3]), ([9, 8], [])), 2, {"SPN002"}),
    ],
    ids=[
        "single",
        "one-token",
        "extended",
        "again",
        "rewritten",
        "images",
        "image-alone",
        "trailing",
        "empty",
        "empty-one-token",
        "unanswered",
    ],
)
def test_kinds_of_trajectories(of: Rollouts, datums: int, errors: set[str]) -> None:
    built = datums_of(of)
    assert len(built) == datums
    report = provenance.check(built, ledger=of.sequences, session="s", now=NOW)
    assert report.codes(provenance.Severity.ERROR) == errors
    assert_passes(of)
