"""How fast are trajectories turned into datums, against the official SDK's `Datum` of the finished parts?

1,024 rollouts of 500 positions, of one turn and of three. Ours starts from trajectories: it merges, shifts,
fills in and computes the spans. The SDK is given all of that, as arrays, and only builds its objects; its
`from_ints` takes no numpy array, so its user writes `tokens.tolist()`, which is timed with it. The garbage
collector is off, because what it costs depends on what else is alive. Needs the extra `tinker`.

    python benchmarks/build_trajectories.py [REPEATS]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tinker
from tinker import types as sdk

from provenance.builder import build_datums
from provenance.models import Datum, EncodedTextChunk, SampledSequence, Trajectory, Turn
from provenance.models.spans import ProvenanceSpan

ROLLOUTS, LENGTH = 1_024, 500


def trajectory(name: str, turns: int, rng: np.random.Generator) -> Trajectory:
    """Return a rollout whose prompts and samples are of equal length."""
    full = rng.integers(0, 150_000, LENGTH + 1)
    bounds = np.linspace(0, LENGTH + 1, 2 * turns + 1).astype(int).tolist()
    sequences = [
        SampledSequence(
            sequence_id=f"{name}:{k}",
            session_id="s",
            prompt_tokens=full[:begin],
            tokens=full[begin:end],
            logprobs=-rng.random(end - begin),
            sampled_at="2026-11-29T10:00:00Z",
            record_stability_info=True,
        )
        for k, (begin, end) in enumerate(zip(bounds[1::2], bounds[2::2], strict=True))
    ]
    return Trajectory(turns=[Turn(sequence=sequence) for sequence in sequences], advantage=0.5)


def ours(trajectories: Sequence[Trajectory]) -> list[Datum]:
    """Build with this package."""
    return [datum for trajectory in trajectories for datum in build_datums(trajectory)]


def theirs(datums: Sequence[Datum]) -> list[tinker.Datum]:
    """Build with the SDK what is in our datums."""
    built = []
    for datum in datums:
        (chunk,) = datum.model_input.chunks
        assert isinstance(chunk, EncodedTextChunk)
        inputs: dict[str, Any] = {name: tensor.data for name, tensor in datum.loss_fn_inputs.items()}
        plain = tinker.Datum(
            model_input=tinker.ModelInput.from_ints(chunk.tokens.tolist()), loss_fn_inputs=inputs
        )
        built.append(
            plain.with_provenance(
                model_input=spans(datum.model_input_spans or ()),
                loss_fn_inputs=spans(datum.loss_fn_input_spans or ()),
            )
        )
    return built


def spans(given: Sequence[ProvenanceSpan]) -> list[Any]:
    """Return the SDK's spans."""
    kinds: dict[str, Any] = {"prompt": sdk.PromptProvenanceSpan, "sampled": sdk.SampledProvenanceSpan}
    return [kinds[s.type](sequence_id=s.sequence_id, offset=s.offset, length=s.length) for s in given]


def main(repeats: int) -> None:
    """Print the best time of each and their ratio, in CPU seconds."""
    rng = np.random.default_rng(0)
    gc.disable()
    for turns in (1, 3):
        trajectories = [trajectory(str(i), turns, rng) for i in range(ROLLOUTS)]
        datums = ours(trajectories)
        assert len(datums) == ROLLOUTS
        times: dict[str, list[float]] = {"ours": [], "sdk": []}
        for _ in range(repeats):
            start = time.process_time()
            ours(trajectories)
            times["ours"].append(time.process_time() - start)
            start = time.process_time()
            theirs(datums)
            times["sdk"].append(time.process_time() - start)
        own, peer = (min(times[name]) * 1000 for name in ("ours", "sdk"))
        print(f"{turns} turns: ours {own:.0f} ms, sdk {peer:.0f} ms, ratio {own / peer:.2f} (target <= 3)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
