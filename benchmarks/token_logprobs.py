"""What do logprobs of 4,096 tokens over a vocabulary of 32,000 cost, forward and backward, on one thread?

The fused head against log_softmax and gather, torch's linear_cross_entropy (by its default, and in chunks)
and Liger's chunked loss, where these are installed. All compute -(A * logprob).mean() of float32 inputs, with
a gradient for the hidden states and the head. Each run has a process of its own, and the candidates take
turns; the figures are medians. "Extra" is the peak above what the inputs take, gradients included. "Error" is
the largest difference to float64, of the gradient of 64 hidden states, over its largest element. Exit code 1:
a target is missed.

    python benchmarks/token_logprobs.py [REPEATS]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data
from losses import token_logprobs

ROWS, WIDTH, VOCABULARY, SEQUENCE = 4_096, 256, 32_000, 256
CHECKED = 64
PLAIN = "log_softmax + gather"
OURS = "losses.token_logprobs"
MEMORY = 1 / 8

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, advantages: Tensor) -> Tensor:
    logprobs = torch.log_softmax(hidden @ weight.T, -1).gather(1, targets[:, None])[:, 0]
    return -(advantages * logprobs).mean()


def ours(hidden: Tensor, weight: Tensor, targets: Tensor, advantages: Tensor) -> Tensor:
    return -(advantages * token_logprobs(hidden, weight, targets)).mean()


def torchs(options: Any) -> Loss:
    # Not in every torch that the package runs with.
    cross_entropy: Any = torch.nn.functional.linear_cross_entropy

    def loss(hidden: Tensor, weight: Tensor, targets: Tensor, advantages: Tensor) -> Tensor:
        each: Tensor = cross_entropy(hidden, weight, targets, reduction="none", options=options)
        return (advantages * each).mean()

    return loss


def ligers() -> Loss:
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss  # type: ignore[import-not-found]  # optional

    # On policy, without clipping or a reference model: the same loss. Uncompiled, like the others.
    module = LigerFusedLinearGRPOLoss(beta=0.0, compiled=False, use_ref_model=False, loss_type="bnpo")

    def loss(hidden: Tensor, weight: Tensor, targets: Tensor, advantages: Tensor) -> Tensor:
        rows = targets.reshape(-1, SEQUENCE)
        of_sequence = advantages[::SEQUENCE].contiguous()
        result: Tensor = module(
            hidden.reshape(*rows.shape, -1),
            weight,
            rows,
            torch.ones_like(rows, dtype=torch.float32),
            of_sequence,
        )[0]
        return result

    return loss


def candidates() -> dict[str, Callable[[], Loss]]:
    """Name -> what makes the loss; it raises where the library is missing."""
    return {
        PLAIN: lambda: plain,
        OURS: lambda: ours,
        "torch linear_cross_entropy": lambda: torchs(None),
        "torch linear_cross_entropy, chunked": lambda: torchs(torch.nn.LinearCrossEntropyOptions()),
        "Liger chunked GRPO loss": ligers,
    }


def example(rows: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.manual_seed(0)
    hidden = torch.randn(rows, WIDTH, generator=generator).requires_grad_()
    weight = (torch.randn(vocabulary, WIDTH, generator=generator) / 16).requires_grad_()
    targets = torch.randint(0, vocabulary, (rows,), generator=generator)
    advantages = torch.randn(rows // SEQUENCE, generator=generator).repeat_interleave(SEQUENCE)
    return hidden, weight, targets, advantages


def megabytes(line: str) -> float:
    return int(Path("/proc/self/status").read_text().partition(line)[2].split()[0]) / 1024


def measure(name: str) -> None:
    """Print the cost of one candidate in this process."""
    torch.set_num_threads(1)
    try:
        loss = candidates()[name]()
    except (ImportError, AttributeError) as missing:
        print(json.dumps({"missing": str(missing)}))
        return
    # What libraries load on their first use is not the candidate's cost.
    torch.autograd.backward(loss(*example(SEQUENCE, 64)))
    hidden, weight, targets, advantages = example(ROWS, VOCABULARY)
    before = megabytes("VmRSS:")
    torch.autograd.backward(loss(hidden, weight, targets, advantages))
    extra = megabytes("VmHWM:") - before
    found = hidden.grad
    assert found is not None
    error = worst(found[:CHECKED], hidden, weight, targets, advantages)
    hidden.grad = weight.grad = None
    wall, cpu = time.perf_counter(), time.process_time()
    torch.autograd.backward(loss(hidden, weight, targets, advantages))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "extra": extra, "error": error}))


def worst(found: Tensor, hidden: Tensor, weight: Tensor, targets: Tensor, advantages: Tensor) -> float:
    rows = hidden[:CHECKED].detach().double().requires_grad_()
    exact = plain(rows, weight.detach().double(), targets[:CHECKED], advantages[:CHECKED].double())
    (gradient,) = torch.autograd.grad(exact * CHECKED / ROWS, rows)
    return ((found - gradient).abs().max() / gradient.abs().max()).item()


def main(repeats: int) -> int:
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in candidates()}
    for _ in range(repeats):
        for name in list(runs):
            command = [sys.executable, __file__, "--measure", name]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            result = json.loads(output.splitlines()[-1])
            if "missing" in result:
                print(f"{name}: not measured, {result['missing']}")
                del runs[name]
            else:
                runs[name].append(result)
    medians = {
        name: {key: statistics.median(run[key] for run in taken) for key in taken[0]}
        for name, taken in runs.items()
    }
    print(f"medians of {repeats:<24}  CPU s  wall s  extra MiB    error  CPU ratio  extra ratio")
    base = medians[PLAIN]
    for name, cost in medians.items():
        print(
            f"{name:<35} {cost['cpu']:6.2f} {cost['wall']:7.2f} {cost['extra']:10.0f} {cost['error']:8.1e} "
            f"{cost['cpu'] / base['cpu']:10.2f} {cost['extra'] / base['extra']:12.3f}"
        )
    faster = _data.met("CPU time over log_softmax's", medians[OURS]["cpu"] / base["cpu"], 1.0)
    leaner = _data.met("extra memory over log_softmax's", medians[OURS]["extra"] / base["extra"], MEMORY)
    return int(not (faster and leaner))


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(sys.argv[-1])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
