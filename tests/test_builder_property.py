"""Whatever the trajectory, its datums break no rule. Structure is drawn, numbers come from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import provenance
from provenance import (
    DmelChunk,
    EncodedTextChunk,
    ImageChunk,
    ModelInput,
    SampledSequence,
    Trajectory,
    Turn,
)
from provenance.builder import build_datums, untrained_turns
from provenance.models import Chunk

Draw = Callable[[st.SearchStrategy[Any]], Any]
NOW = "2026-01-02T12:00:00Z"
#: Two images that differ in their bytes only, one of another length, and audio.
MEDIA: tuple[Chunk, ...] = (
    ImageChunk(data=b"cat", format="png", expected_tokens=2),
    ImageChunk(data=b"dog", format="png", expected_tokens=2),
    ImageChunk(data=b"cat", format="jpeg", expected_tokens=1),
    DmelChunk(dmel=b"\x00\x01\x02" + b"\0" * 8),
)


class Step(NamedTuple):
    """One turn, before there are numbers."""

    how: str
    """extend what came before, extend it by nothing, strip its last token (of a template), or rewrite it."""
    added: tuple[int | str, ...]
    """Text of some tokens, or a medium by its index in MEDIA."""
    sampled: int
    advantage: str
    """none, one, zero, vector, or edges: a vector that starts with 0."""


@st.composite
def steps(draw: Draw) -> Step:
    pieces = st.one_of(st.integers(0, 40), st.sampled_from(["0", "1", "2", "3"]))
    return Step(
        draw(st.sampled_from(["extend", "extend", "extend", "again", "strip", "rewrite"])),
        tuple(draw(st.lists(pieces, max_size=3))),
        draw(st.sampled_from([0, 1, 1, 2, 40])),
        draw(st.sampled_from(["none", "none", "one", "zero", "vector", "edges"])),
    )


def trajectory_of(plan: list[Step], seed: int) -> Trajectory:
    random = np.random.default_rng(seed)
    held: list[Chunk] = []
    turns = []
    for number, step in enumerate(plan):
        last = held[-1] if held else None
        if step.how == "rewrite":
            held = []
        elif step.how == "strip" and isinstance(last, EncodedTextChunk):
            held = [*held[:-1], EncodedTextChunk(tokens=last.tokens[:-1])]
        added = () if step.how == "again" else step.added
        held = [*held, *(chunk_of(piece, random) for piece in added)]
        sequence = SampledSequence(
            sequence_id=f"t:{number}",
            session_id="s",
            prompt_tokens=ids_of(held),
            tokens=random.integers(0, 2**31, step.sampled),
            logprobs=-random.exponential(size=step.sampled),
            sampled_at="2026-01-02T10:00:00Z",
            record_stability_info=True,
        )
        turns.append(
            Turn(
                sequence=sequence,
                prompt=ModelInput(chunks=held),
                advantage=advantage_of(step, random),
            )
        )
        held = [*held, EncodedTextChunk(tokens=sequence.tokens)]
    return Trajectory(turns=turns, advantage=0.5)


def chunk_of(piece: int | str, random: np.random.Generator) -> Chunk:
    return (
        MEDIA[int(piece)] if isinstance(piece, str) else EncodedTextChunk(tokens=random.integers(0, 9, piece))
    )


def ids_of(chunks: list[Chunk]) -> list[int]:
    return [
        int(token)
        for chunk in chunks
        for token in (chunk.tokens if isinstance(chunk, EncodedTextChunk) else [-1] * chunk.length)
    ]


def advantage_of(step: Step, random: np.random.Generator) -> Any:
    vector = random.normal(size=step.sampled)
    if step.advantage == "edges":
        vector[:1] = 0
    return {"none": None, "one": -1.25, "zero": -0.0}.get(step.advantage, vector)


def deserved(trajectory: Trajectory) -> set[str]:
    """Warnings about the advantages that the turns themselves carry."""
    skipped = untrained_turns(trajectory)
    given = [
        np.broadcast_to(0.5 if turn.advantage is None else turn.advantage, turn.sequence.tokens.shape)
        for i, turn in enumerate(trajectory.turns)
        if i not in skipped
    ]
    found = {"ADV003"} if given and not any(a.any() for a in given) else set()
    return found | {"ADV005" for a in given if a.any() and not (a[0] and a[-1])}


def expected_datums(trajectory: Trajectory) -> list[list[str]]:
    """The sequences that each datum trains on: a turn starts a new one where it changes what came before."""
    datums: list[list[str]] = []
    held: list[Any] | None = None
    for turn in trajectory.turns:
        prompt = flat(turn.prompt)
        if held is None or prompt[: len(held)] != held:
            datums.append([])
        if prompt and turn.sequence.tokens.size:
            datums[-1].append(turn.sequence.sequence_id)
        held = prompt + turn.sequence.tokens.tolist()
    return [names for names in datums if names]


def flat(prompt: ModelInput | None) -> list[Any]:
    """Token ids, and each medium as one item."""
    assert prompt is not None
    items: list[Any] = []
    for chunk in prompt.chunks:
        items += chunk.tokens.tolist() if isinstance(chunk, EncodedTextChunk) else [chunk]
    return items


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps(), max_size=6), st.integers(0, 2**32))
@example([Step("extend", (), 2, "none"), Step("again", (), 0, "none"), Step("again", (), 1, "none")], 0)
@example([Step("extend", (1,), 1, "none"), Step("extend", ("0",), 0, "none")], 0)
@example([Step("extend", ("0",), 1, "edges"), Step("strip", (1,), 40, "edges")], 0)
def test_what_is_built_is_valid(plan: list[Step], seed: int) -> None:
    trajectory = trajectory_of(plan, seed)
    datums = build_datums(trajectory)
    ledger = [turn.sequence for turn in trajectory.turns]
    report = provenance.check(datums, ledger=ledger, session="s", now=NOW, allow_empty=True)
    assert set(report.counts) == deserved(trajectory), [str(v) for v in report]
    targets = [
        [span.sequence_id for span in datum.loss_fn_input_spans or () if span.type == "sampled"]
        for datum in datums
    ]
    assert targets == expected_datums(trajectory)
    # Nothing was left unjudged.
    assert {n.code for n in report.not_checked} == {"INP009", "SES005", "TOK001"}
    names = {name for those in targets for name in those}
    trained = [sequence for sequence in ledger if sequence.sequence_id in names]
    assert report.checked.get("SEQ006", 0) == sum(sequence.tokens.size for sequence in trained)
    assert report.checked.get("SEQ011", 0) == len(trained)


@settings(max_examples=25, deadline=None)
@given(st.lists(steps(), max_size=6), st.integers(0, 2**32))
def test_what_is_built_comes_back_from_a_line_of_json(plan: list[Step], seed: int) -> None:
    trajectory = trajectory_of(plan, seed)
    back = Trajectory.model_validate_json(trajectory.model_dump_json())
    assert back == trajectory
    assert build_datums(back) == build_datums(trajectory)
