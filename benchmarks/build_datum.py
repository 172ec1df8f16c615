"""How fast is a 2,000-token datum with spans built, against the official SDK's `Datum`?

Both get the same data in one run, turn by turn, from numpy arrays and from lists; the SDK's `from_ints` takes
no numpy array, so its user writes `tokens.tolist()`, which is timed with it. Needs the extra `tinker`.

    python benchmarks/build_datum.py [REPEATS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tinker
from tinker import types as sdk

from provenance.models import Datum, ModelInput, PromptProvenanceSpan, SampledProvenanceSpan

LENGTH = 2_000
PROMPT = 1_200


def spans(prompt: Callable[..., Any], sampled: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    """Return the spans of a single turn: those of the input, those of the targets."""
    size = LENGTH + 1 - PROMPT
    return (
        [prompt(sequence_id="s:0", length=PROMPT), sampled(sequence_id="s:0", length=size - 1)],
        [prompt(sequence_id="s:0", offset=1, length=PROMPT - 1), sampled(sequence_id="s:0", length=size)],
    )


def build_ours(tokens: Any, inputs: Mapping[str, Any]) -> object:
    """Build with this package."""
    model_input, targets = spans(PromptProvenanceSpan, SampledProvenanceSpan)
    datum = Datum(model_input=ModelInput.from_ints(tokens), loss_fn_inputs=inputs)
    return datum.with_provenance(model_input=model_input, loss_fn_inputs=targets)


def build_theirs(tokens: Any, inputs: Mapping[str, Any]) -> object:
    """Build with the SDK."""
    model_input, targets = spans(sdk.PromptProvenanceSpan, sdk.SampledProvenanceSpan)
    if isinstance(tokens, np.ndarray):
        tokens = tokens.tolist()
    datum = tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens), loss_fn_inputs=dict(inputs))
    return datum.with_provenance(model_input=model_input, loss_fn_inputs=targets)


def main(repeats: int) -> None:
    """Print the medians and the ratio of both ways."""
    rng = np.random.default_rng(0)
    full = rng.integers(0, 150_000, LENGTH + 1).astype(np.int32)
    logprobs = -rng.random(LENGTH, np.float32)
    advantages = np.where(np.arange(LENGTH) < PROMPT, 0, rng.normal(size=LENGTH)).astype(np.float32)
    targets = full[1:].astype(np.int64)
    arrays: dict[str, Any] = {"target_tokens": targets, "logprobs": logprobs, "advantages": advantages}
    builders = {"ours": build_ours, "sdk": build_theirs}
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "numpy": (full[:-1], arrays),
        "lists": (full[:-1].tolist(), {name: array.tolist() for name, array in arrays.items()}),
    }
    for way, (tokens, inputs) in ways.items():
        times: dict[str, list[int]] = {"ours": [], "sdk": []}
        for _ in range(repeats):
            for name, build in builders.items():
                start = time.perf_counter_ns()
                build(tokens, inputs)
                times[name].append(time.perf_counter_ns() - start)
        ours, theirs = (statistics.median(times[name]) / 1000 for name in ("ours", "sdk"))
        print(f"{way}: ours {ours:.0f} us, sdk {theirs:.0f} us, ratio {ours / theirs:.2f} (target <= 1)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
