"""A game of several turns, played by the demo's model: name a word that has the letter in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from provenance.demo.ngram import NgramModel, Sample
from provenance.ledger.recorder import Recorder
from provenance.models import Datum, ModelInput, PromptProvenanceSpan, SampledProvenanceSpan
from provenance.models.spans import ProvenanceSpan

_LETTERS: Final = "aeioutnrslhm"
TURNS: Final = 3
#: Rollouts that start from the same prompt; their mean reward is the baseline.
GROUP: Final = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """A request's prompt and the sample that came back."""

    prompt: list[int]
    sample: Sample


@dataclass(frozen=True, slots=True)
class Rollout:
    """A game of some turns; each turn's prompt extends the turns before it."""

    turns: list[Turn]
    reward: float


def play(recorder: Recorder, model: NgramModel, groups: int) -> list[list[Rollout]]:
    """Groups of rollouts; every sequence is recorded by the recorder, which samples from the model."""
    letters = cycle(_LETTERS)
    played = []
    for _ in range(groups):
        asked = list(islice(letters, TURNS))
        prompt = model.encode(_question(asked[0]))
        first: list[Sample] = recorder.sample(prompt, GROUP)
        played.append([_play_on(recorder, model, Turn(prompt, sample), asked) for sample in first])
    return played


def _play_on(recorder: Recorder, model: NgramModel, first: Turn, asked: Sequence[str]) -> Rollout:
    turns, right = [first], 0
    for i, letter in enumerate(asked):
        last = turns[-1]
        answer = model.decode(last.sample.tokens)
        good = _is_right(answer, letter)
        right += good
        if i + 1 < len(asked):
            added = "" if answer.endswith("\n") else "\n"
            added += ("right. " if good else "no. ") + _question(asked[i + 1])
            prompt = last.prompt + last.sample.tokens + model.encode(added)
            turns.append(Turn(prompt, recorder.sample(prompt, 1)[0]))
    return Rollout(turns, right / len(asked))


def _question(letter: str) -> str:
    return f"word with {letter}: "


def _is_right(answer: str, letter: str) -> bool:
    word = answer.removesuffix("\n")
    return word.isalpha() and len(word) > 2 and letter in word and word != answer


def datums_of(group: Sequence[Rollout]) -> list[Datum]:
    """One datum a rollout; its advantage is the reward minus the mean reward of the group."""
    mean = sum(rollout.reward for rollout in group) / len(group)
    return [datum_of(rollout.turns, rollout.reward - mean) for rollout in group]


def datum_of(turns: Sequence[Turn], advantage: float) -> Datum:
    """One datum for turns whose prompts extend each other.

    Written for the full sequence F of last prompt and last sample, whose positions 0..N-1 are the input and
    1..N the targets: so the input's spans lose the last position, and the targets' spans the first.
    """
    tokens: list[int] = []
    logprobs: list[float] = []
    advantages: list[float] = []
    spans: list[ProvenanceSpan] = []
    for turn in turns:
        seen, sample = len(tokens), turn.sample
        added, drawn = len(turn.prompt) - seen, len(sample.tokens)
        tokens = turn.prompt + sample.tokens
        logprobs += [0.0] * added + sample.logprobs
        advantages += [0.0] * added + [advantage] * drawn
        spans += [
            PromptProvenanceSpan(sequence_id=sample.sequence_id, offset=seen, length=added),
            SampledProvenanceSpan(sequence_id=sample.sequence_id, length=drawn),
        ]
    first, last = spans[0], spans[-1]
    return Datum(
        model_input=ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": tokens[1:],
            "logprobs": logprobs[1:],
            "advantages": advantages[1:],
        },
    ).with_provenance(
        model_input=[*spans[:-1], last.model_copy(update={"length": last.length - 1})],
        loss_fn_inputs=[first.model_copy(update={"offset": 1, "length": first.length - 1}), *spans[1:]],
    )
