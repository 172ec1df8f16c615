"""Random batches for the tests of losses, and what a test knows of them without the code under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from provenance import ValidatedBatch, validate

SESSION = "session-1"
NOW = "2026-01-02T12:00:00Z"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Made:
    """A datum with the sequences it was sampled as, and its columns as numpy arrays."""

    datum: Mapping[str, Any]
    sequences: Sequence[Mapping[str, Any]]
    sampled: npt.NDArray[np.bool_]
    q: Floats
    """(N,), exactly representable as float32."""
    advantages: Floats

    def __len__(self) -> int:
        return len(self.q)


def make(
    rng: np.random.Generator,
    name: str,
    *,
    turns: Sequence[tuple[int, int]] = ((3, 4),),
    advantages: Sequence[float] | None = None,
    logprobs: Sequence[float] | None = None,
    version: str | None = None,
) -> Made:
    """Turns are (prompt or tool tokens, sampled tokens); the given numbers are for the sampled tokens."""
    pieces = [(kind, size) for turn in turns for kind, size in zip(("prompt", "sampled"), turn, strict=True)]
    of = np.concatenate([np.full(size, kind == "sampled") for kind, size in pieces])
    full = rng.integers(5, 90, len(of))
    sampled = of[1:]
    q, a = np.zeros(len(sampled)), np.zeros(len(sampled))
    q[sampled] = -rng.exponential(0.7, sampled.sum()) if logprobs is None else logprobs
    a[sampled] = rng.normal(size=sampled.sum()) if advantages is None else advantages
    q, a = (x.astype(np.float32).astype(np.float64) for x in (q, a))
    sequences, spans, at = [], [], 0
    for turn, (kind, size) in enumerate(pieces):
        sequence = f"{name}/{turn // 2}"
        # Of the first prompt no position predicts the first token.
        offset = 0 if kind == "sampled" else max(at, 1)
        length = size - (turn == 0)
        if length:
            spans.append({"type": kind, "sequence_id": sequence, "offset": offset, "length": length})
        if kind == "sampled":
            sequences.append(
                {
                    "sequence_id": sequence,
                    "session_id": SESSION,
                    "prompt_tokens": full[:at].tolist(),
                    "tokens": full[at : at + size].tolist(),
                    "logprobs": q[at - 1 : at - 1 + size].tolist(),
                    "sampled_at": "2026-01-02T10:00:00Z",
                    "record_stability_info": True,
                    "policy_version": version,
                }
            )
        at += size
    starts = [dict(span) for span in spans]
    return Made(
        datum={
            "model_input": {"chunks": [{"type": "encoded_text", "tokens": full[:-1].tolist()}]},
            "loss_fn_inputs": {
                "target_tokens": {"data": full[1:].tolist(), "dtype": "int64"},
                "logprobs": {"data": q.tolist(), "dtype": "float32"},
                "advantages": {"data": a.tolist(), "dtype": "float32"},
            },
            "model_input_spans": _input_spans(pieces, name),
            "loss_fn_input_spans": starts,
        },
        sequences=sequences,
        sampled=sampled,
        q=q,
        advantages=a,
    )


def _input_spans(pieces: Sequence[tuple[str, int]], name: str) -> list[dict[str, Any]]:
    spans, at = [], 0
    for turn, (kind, size) in enumerate(pieces):
        length = size - (turn == len(pieces) - 1)
        if length:
            offset = 0 if kind == "sampled" else at
            spans.append(
                {"type": kind, "sequence_id": f"{name}/{turn // 2}", "offset": offset, "length": length}
            )
        at += size
    return spans


def several(seed: int, count: int = 6, **options: Any) -> list[Made]:
    """Datums of one to three turns and of different lengths."""
    rng = np.random.default_rng(seed)
    return [
        make(
            rng,
            f"s{i}",
            turns=[tuple(rng.integers(1, 6, 2).tolist()) for _ in range(rng.integers(1, 4))],
            **options,
        )
        for i in range(count)
    ]


def validated(made: Sequence[Made], contract: Any = "stable_reinforce", **options: Any) -> ValidatedBatch:
    return validate(
        [each.datum for each in made],
        contract,
        ledger=[sequence for each in made for sequence in each.sequences],
        session=SESSION,
        now=NOW,
        **options,
    )
