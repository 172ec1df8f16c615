"""A language model small enough to come with the package: characters, counted in their contexts.

Real sampling with true log probabilities, so that a record of it can be checked like any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from provenance.columns import Floats

#: Characters of a context, at most.
ORDER: Final = 6


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, as a sampler returns it."""

    sequence_id: str
    tokens: list[int]
    logprobs: list[float]
    """Of each token, in nats, as float32 numbers."""
    stop_reason: str


class NgramModel:
    """Predicts the next character from up to ``ORDER`` characters before it.

    A context's counts are mixed with the prediction of the context that is one character shorter, the more so
    the more different characters followed it (Witten and Bell 1991); below the empty context lies the uniform
    distribution, so that every character has a probability everywhere.
    """

    def __init__(self, text: str, *, seed: int) -> None:
        self.characters = sorted(set(text))
        self._index = {character: i for i, character in enumerate(self.characters)}
        self._random = np.random.default_rng(seed)
        self._requests = 0
        self._following: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        tokens = self.encode(text)
        for end, token in enumerate(tokens):
            for start in range(max(0, end - ORDER), end + 1):
                self._following[tuple(tokens[start:end])][token] += 1

    def encode(self, text: str) -> list[int]:
        """One token a character."""
        return [self._index[character] for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        """The characters of tokens."""
        return "".join(self.characters[token] for token in tokens)

    def probabilities(self, context: Sequence[int]) -> Floats:
        """(number of characters,) float64: the distribution of the next token."""
        size = len(self.characters)
        found = np.full(size, 1 / size)
        last = list(context[-ORDER:])
        for start in range(len(last), -1, -1):
            following = self._following.get(tuple(last[start:]))
            if following is None:
                break
            counts = np.zeros(size)
            counts[list(following)] = list(following.values())
            found = (counts + len(following) * found) / (counts.sum() + len(following))
        return found

    def sample(
        self, prompt: Sequence[int], num_samples: int, stop: str = "\n", *, max_tokens: int = 24
    ) -> list[Sample]:
        """Sample continuations until a character, which is the last token, or a number of tokens."""
        self._requests += 1
        return [
            self._continue(prompt, f"request-{self._requests}:{i}", self._index[stop], max_tokens)
            for i in range(num_samples)
        ]

    def _continue(self, prompt: Sequence[int], sequence_id: str, stop: int, max_tokens: int) -> Sample:
        tokens: list[int] = []
        logprobs: list[float] = []
        while len(tokens) < max_tokens and stop not in tokens[-1:]:
            probabilities = self.probabilities([*prompt[-ORDER:], *tokens])
            token = int(self._random.choice(len(probabilities), p=probabilities))
            tokens.append(token)
            logprobs.append(float(np.float32(np.log(probabilities[token]))))
        return Sample(sequence_id, tokens, logprobs, "stop" if tokens[-1:] == [stop] else "length")
