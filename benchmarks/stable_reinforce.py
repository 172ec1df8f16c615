"""What does the loss of 1,000,000 tokens cost, and what do validation and loss cost beside a training step?

First, forward and backward on one thread: the loss without and with its diagnostics, over the bare formula
-(exp(p - q) * A).sum(), which neither masks nor caps, has no KL term and checks nothing. Then, for a tiny GPT
(2 layers, d = 48, 4 heads, vocabulary 12) on 128 datums of 16 positions: how much of a step, from datums to
Adam, is `provenance.validate`, and how much the loss. The candidates take turns; the figures are medians of
CPU time. Exit code 1: a target is missed.

    python benchmarks/stable_reinforce.py [REPEATS]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data
from losses import stable_reinforce, token_logprobs_from_logits
from losses.diagnostics import step as diagnostics
from provenance import MemoryLedger, SampledSequence, ValidatedBatch, validate

DATUMS, LENGTH, PROMPT = 1_000, 1_000, 400
WITHOUT, WITH = 2.5, 6.0


def datum_of(number: int, length: int, prompt: int, vocabulary: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A datum of one turn and its sequence."""
    rng = np.random.default_rng(number)
    size, name = length + 1 - prompt, f"s:{number}"
    full = rng.integers(0, vocabulary, length + 1)
    zeros = np.zeros(prompt - 1, np.float32)
    logprobs = -rng.standard_exponential(size, np.float32)
    inputs = {
        "target_tokens": full[1:],
        "logprobs": np.concatenate([zeros, logprobs]),
        "advantages": np.concatenate([zeros, np.full(size, rng.standard_normal(), np.float32)]),
    }
    datum = {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": full[:-1]}]},
        "loss_fn_inputs": {
            key: {"data": values, "dtype": "int64" if key == "target_tokens" else "float32"}
            for key, values in inputs.items()
        },
        "model_input_spans": [
            {"type": "prompt", "sequence_id": name, "offset": 0, "length": prompt},
            {"type": "sampled", "sequence_id": name, "offset": 0, "length": size - 1},
        ],
        "loss_fn_input_spans": [
            {"type": "prompt", "sequence_id": name, "offset": 1, "length": prompt - 1},
            {"type": "sampled", "sequence_id": name, "offset": 0, "length": size},
        ],
    }
    sequence = {
        "sequence_id": name,
        "session_id": _data.SESSION,
        "prompt_tokens": full[:prompt],
        "tokens": full[prompt:],
        "logprobs": logprobs,
        "sampled_at": "2026-01-02T10:00:00Z",
        "record_stability_info": True,
    }
    return datum, sequence


def dataset(datums: int, length: int, prompt: int, vocabulary: int) -> tuple[list[Any], MemoryLedger]:
    made = [datum_of(number, length, prompt, vocabulary) for number in range(datums)]
    return [datum for datum, _ in made], MemoryLedger(SampledSequence(**sequence) for _, sequence in made)


def validated(datums: list[Any], ledger: MemoryLedger) -> ValidatedBatch:
    return validate(datums, ledger=ledger, session=_data.SESSION, now=_data.NOW)


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU milliseconds of each call, the calls taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if turn:  # the first warms up
                times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(taken) for name, taken in times.items()}


# --- the loss of a million tokens ----------------------------------------------------------------


def of_a_million(repeats: int) -> bool:
    batch = validated(*dataset(DATUMS, LENGTH, PROMPT, 150_000)).to("cpu")
    q, advantages = (torch.tensor(batch.inputs[name]) for name in ("logprobs", "advantages"))
    p = (q + 0.05 * torch.randn(len(q), generator=torch.manual_seed(0))).requires_grad_()

    def bare() -> None:
        p.grad = None
        torch.autograd.backward(-(torch.exp(p - q) * advantages).sum())

    def loss() -> None:
        p.grad = None
        torch.autograd.backward(stable_reinforce(batch, p).loss)

    def lagged() -> None:
        p.grad = None
        torch.autograd.backward(stable_reinforce(batch, p, lag_logprobs=q).loss)

    finite = {"logprob_abs_diff:max": 0.0, "loss_policy:sum": 0.0, "loss:sum": 0.0}

    def alone() -> None:
        with mock.patch.multiple(diagnostics, sums_of=lambda *_: {}, metrics_of=lambda *_: finite):
            loss()

    found = medians({"bare": bare, "alone": alone, "loss": loss, "lagged": lagged}, repeats)
    base = found["bare"]
    print(f"{len(q):,} tokens: bare formula {base:.2f} ms CPU, forward and backward; medians of {repeats}")
    good = _data.met("loss alone over the bare formula", found["alone"] / base, WITHOUT)
    good &= _data.met("loss with diagnostics over it", found["loss"] / base, WITH)
    return _data.met("the same with lag_logprobs", found["lagged"] / base, WITH) and good


# --- a training step -----------------------------------------------------------------------------


class TinyGPT(nn.Module):
    """Two pre-norm layers of width 48."""

    def __init__(self, vocabulary: int, length: int, width: int = 48, heads: int = 4) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, L, V) of tokens (B, L)."""
        hidden = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        logits: Tensor = self.head(self.layers(hidden, mask=self.mask, is_causal=True))
        return logits


def of_a_step(repeats: int) -> None:
    datums, length, vocabulary = 128, 16, 12
    data, ledger = dataset(datums, length, 8, vocabulary)
    torch.manual_seed(0)
    model = TinyGPT(vocabulary, length)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
    spent: dict[str, list[float]] = {"validate": [], "model": [], "loss": [], "backward and Adam": []}
    for turn in range(repeats + 1):
        marks = [time.process_time()]
        batch = validated(data, ledger)
        marks.append(time.process_time())
        tokens, targets = (
            torch.tensor(each).view(datums, length) for each in (batch.tokens, batch.inputs["target_tokens"])
        )
        logprobs = token_logprobs_from_logits(model(tokens.long()), targets)
        marks.append(time.process_time())
        loss = stable_reinforce(batch, logprobs).loss
        marks.append(time.process_time())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        marks.append(time.process_time())
        if turn:
            for taken, start, end in zip(spent.values(), marks[:-1], marks[1:], strict=True):
                taken.append(1e3 * (end - start))
    found = {name: statistics.median(taken) for name, taken in spent.items()}
    whole = sum(found.values())
    print(
        f"a step of a tiny GPT on {datums} datums of {length} positions: {whole:.1f} ms CPU, sampling apart"
    )
    for name, cost in found.items():
        print(f"    {name:<17} {cost:6.2f} ms {cost / whole:7.1%}")


def main(repeats: int) -> int:
    torch.set_num_threads(1)
    good = of_a_million(repeats)
    of_a_step(repeats)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
