"""How long does it take to check one datum of 1,000 tokens, alone and among 1,024, against the SDK's?

A single turn with its ledger in memory, as a `Datum` model and as a JSON-shaped dict. The calls take turns;
the figures are medians of CPU time, which a busy machine disturbs less, with wall time beside them. The peer
is the SDK's `Datum(...).with_provenance(...)` of the same lists, which compares nothing with a ledger. Needs
the extra `tinker`. Exit code 1: a target is missed.

    python benchmarks/check_one.py [REPEATS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from tinker import types

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data
from provenance.engine import check
from provenance.ledger import MemoryLedger
from provenance.models import Datum, SampledSequence

LENGTH, PROMPT, MANY = 1_000, 600, 1_024
#: Targets for one datum and for one of many, as a model and as a dict.
ONE_MS = {"model": 0.8, "dict": 0.8}
EACH_US = {"model": 70.0, "dict": 150.0}


def single_turn(number: int) -> tuple[dict[str, Any], SampledSequence]:
    """A datum and the sequence it was sampled as."""
    rng = np.random.default_rng(number)
    size = LENGTH + 1 - PROMPT
    full = rng.integers(0, 150_000, LENGTH + 1).tolist()
    logprobs = (-rng.standard_exponential(size, np.float32)).tolist()
    name = f"s:{number}"
    inputs = {
        "target_tokens": ("int64", full[1:]),
        "logprobs": ("float32", [0.0] * (PROMPT - 1) + logprobs),
        "advantages": ("float32", [0.0] * (PROMPT - 1) + [float(rng.standard_normal())] * size),
    }
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": full[:-1]}]},
        "loss_fn_inputs": {
            key: {"data": values, "dtype": dtype, "shape": [LENGTH]}
            for key, (dtype, values) in inputs.items()
        },
        "model_input_spans": [
            {"type": "prompt", "sequence_id": name, "offset": 0, "length": PROMPT},
            {"type": "sampled", "sequence_id": name, "offset": 0, "length": size - 1},
        ],
        "loss_fn_input_spans": [
            {"type": "prompt", "sequence_id": name, "offset": 1, "length": PROMPT - 1},
            {"type": "sampled", "sequence_id": name, "offset": 0, "length": size},
        ],
    }
    sequence = SampledSequence.model_validate_json(
        _json(
            {
                "sequence_id": name,
                "session_id": _data.SESSION,
                "prompt_tokens": full[:PROMPT],
                "tokens": full[PROMPT:],
                "logprobs": logprobs,
                "sampled_at": "2026-01-02T10:00:00Z",
                "record_stability_info": True,
            }
        )
    )
    return datum, sequence


def _json(value: object) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def by_sdk(datum: dict[str, Any]) -> object:
    """Build the datum with the SDK."""
    kinds: dict[str, Any] = {"prompt": types.PromptProvenanceSpan, "sampled": types.SampledProvenanceSpan}
    sides = [
        [kinds[span["type"]](**{key: span[key] for key in span if key != "type"}) for span in datum[side]]
        for side in ("model_input_spans", "loss_fn_input_spans")
    ]
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(datum["model_input"]["chunks"][0]["tokens"]),
        loss_fn_inputs={name: tensor["data"] for name, tensor in datum["loss_fn_inputs"].items()},
    ).with_provenance(model_input=sides[0], loss_fn_inputs=sides[1])


Times = dict[str, tuple[float, float]]


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> Times:
    """Median CPU and wall seconds of each call, the calls taking turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if turn:  # the first warms up
                times[name].append((cpu, wall))
    return {
        name: (statistics.median(cpu for cpu, _ in pairs), statistics.median(wall for _, wall in pairs))
        for name, pairs in times.items()
    }


def judged(what: str, times: Times, targets: dict[str, float], unit: str, scale: float) -> bool:
    """Print the figures of models and dicts, and return whether both meet their target."""
    print(f"SDK, {what}: {times['sdk'][0] * scale:.3g}{unit} CPU, {times['sdk'][1] * scale:.3g}{unit} wall")
    good = True
    for name, target in targets.items():
        cpu, wall = times[name]
        good &= _data.met(f"check of {what}, {name}, CPU", cpu * scale, target, unit=unit)
        print(f"    {wall * scale:.3g}{unit} wall; CPU {cpu / times['sdk'][0]:.2f}x of building the SDK's")
    return good


def main(repeats: int) -> int:
    """Print the medians, the targets and the ratios."""
    made = [single_turn(number) for number in range(MANY)]
    dicts = [datum for datum, _ in made]
    models = [Datum.model_validate_json(_json(datum)) for datum in dicts]
    ledger = MemoryLedger(sequence for _, sequence in made)
    lone = MemoryLedger([made[0][1]])

    def checked(data: list[Any], ledger: MemoryLedger) -> None:
        report = check(data, "stable_reinforce", ledger=ledger, session=_data.SESSION, now=_data.NOW)
        _data.assert_clean(report, len(data) * LENGTH)

    one = medians(
        {
            "model": lambda: checked(models[:1], lone),
            "dict": lambda: checked(dicts[:1], lone),
            "sdk": lambda: by_sdk(dicts[0]),
        },
        repeats,
    )
    many = medians(
        {
            "model": lambda: checked(models, ledger),
            "dict": lambda: checked(dicts, ledger),
            "sdk": lambda: [by_sdk(datum) for datum in dicts],
        },
        max(3, repeats // 50),
    )
    alone = judged("one datum", one, ONE_MS, " ms", 1e3)
    among = judged(f"one of {MANY:,}", many, EACH_US, " us", 1e6 / MANY)
    return int(not (alone and among))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
