"""A game of several turns, played by the demo's model: name a word that has the letter in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Final, TypeAlias

from provenance.demo.ngram import NgramModel
from provenance.models import SampledSequence, Trajectory, Turn

_LETTERS: Final = "aeioutnrslhm"
TURNS: Final = 3
#: Rollouts that start from the same prompt; their mean reward is the baseline.
GROUP: Final = 4

#: Samples a number of times from a prompt, and records it.
Sampler: TypeAlias = Callable[[list[int], int], list[SampledSequence]]


def play(sample: Sampler, model: NgramModel, groups: int) -> list[list[Trajectory]]:
    """Groups of rollouts; the prompt of each turn extends the turns before it."""
    letters = cycle(_LETTERS)
    played = []
    for _ in range(groups):
        asked = list(islice(letters, TURNS))
        prompt = model.encode(_question(asked[0]))
        played.append([_play_on(sample, model, first, asked) for first in sample(prompt, GROUP)])
    return played


def _play_on(sample: Sampler, model: NgramModel, first: SampledSequence, asked: Sequence[str]) -> Trajectory:
    turns, right = [first], 0
    for i, letter in enumerate(asked):
        last = turns[-1]
        answer = model.decode(last.tokens.tolist())
        good = _is_right(answer, letter)
        right += good
        if i + 1 < len(asked):
            added = "" if answer.endswith("\n") else "\n"
            added += ("right. " if good else "no. ") + _question(asked[i + 1])
            prompt = [*last.prompt_tokens.tolist(), *last.tokens.tolist(), *model.encode(added)]
            turns += sample(prompt, 1)
    return Trajectory(turns=[Turn(sequence=turn) for turn in turns], reward=right / len(asked))


def _question(letter: str) -> str:
    return f"word with {letter}: "


def _is_right(answer: str, letter: str) -> bool:
    word = answer.removesuffix("\n")
    return word.isalpha() and len(word) > 2 and letter in word and word != answer
