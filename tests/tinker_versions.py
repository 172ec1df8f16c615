"""Does the guard work with the installed SDK, whatever its version? Prints one line a feature.

pip install --no-deps --target /tmp/old tinker==0.27.0 && PYTHONPATH=/tmp/old python tests/tinker_versions.py
"""

# ruff: noqa: T201 - a script, which talks to whoever runs it
from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tinker
from _server import SESSION, Server, running
from tinker import types

import provenance
from provenance import MemoryLedger, Recorder
from provenance.integrations.tinker import from_tinker, guard, to_tinker, write_request

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def datum_of(sequence: Any) -> Any:
    """A single turn of three prompt tokens."""
    prompt, tokens, name = [101, 102, 103], list(sequence.tokens), sequence.sequence_id
    full = [*prompt, *tokens]
    size = len(tokens) - 1  # before 0.35 a span of length 0 does not come into being
    inner = [types.SampledProvenanceSpan(sequence_id=name, length=size)] if size else []
    return tinker.Datum(
        model_input=types.ModelInput.from_ints(full[:-1]),
        loss_fn_inputs={
            "target_tokens": full[1:],
            "logprobs": [0.0, 0.0, *sequence.logprobs],
            "advantages": [0.0, 0.0] + [0.5] * len(tokens),
        },
    ).with_provenance(
        model_input=[types.PromptProvenanceSpan(sequence_id=name, length=3), *inner],
        loss_fn_inputs=[
            types.PromptProvenanceSpan(sequence_id=name, offset=1, length=2),
            types.SampledProvenanceSpan(sequence_id=name, length=len(tokens)),
        ],
    )


def main(server: Server) -> None:
    """Run one step."""
    service = tinker.ServiceClient(base_url=server.url, api_key="tml-nobody")
    made = service.create_lora_training_client(base_model="m")
    client = made.result() if hasattr(made, "result") else made
    sampler = service.create_sampling_client(base_model="m", record_stability_info=True)
    sampler = sampler.result() if hasattr(sampler, "result") else sampler
    ledger = MemoryLedger()
    recorder = Recorder(sampler, ledger, clock=lambda: NOON)
    response = recorder.sample(
        types.ModelInput.from_ints([101, 102, 103]), 8, types.SamplingParams()
    ).result()
    datums = [datum_of(sequence) for sequence in response.sequences]
    ids = [sequence.sequence_id for sequence in response.sequences]
    print("sampled and recorded", len(ledger))
    training = guard(client, ledger=ledger, clock=lambda: NOON + timedelta(hours=3))
    print("is a TrainingClient", isinstance(training, tinker.TrainingClient))
    for loss in ("importance_sampling", "stable_reinforce"):
        result = training.forward_backward(datums, loss).result()
        print(loss, result.metrics)
    print("renewed", int((ledger.lookup(ids, SESSION).last_used_at > 0).sum()))
    training.optim_step(types.AdamParams()).result()

    async def later() -> Any:
        pending = await training.forward_backward_async(datums, "stable_reinforce")
        return await pending

    print("async", asyncio.run(later()).metrics)
    sent = len(server.trained)
    datums[-1].loss_fn_inputs["logprobs"].to_numpy()[-1] = float("nan")
    try:
        training.forward_backward(datums, "stable_reinforce")
    except provenance.ValidationError as error:
        print("refused", list(error.report.counts), "sent", len(server.trained) - sent)
    print(
        "there and back", all(from_tinker(to_tinker(from_tinker(d))) == from_tinker(d) for d in datums[:-1])
    )
    path = Path(tempfile.mkdtemp()) / "request.pb"
    write_request(datums[:-1], path, model_id="s:train:0", seq_id=1, loss_fn="stable_reinforce")
    print("request", provenance.check(path, ledger=ledger, session=SESSION, now=NOON).valid)
    empty = provenance.SampledProvenanceSpan(sequence_id="s", length=0)
    try:
        to_tinker(empty)
        print("length 0", "taken")
    except provenance.SchemaError as error:
        print("length 0", error)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["TINKER_TELEMETRY"] = "0"
    print("tinker", tinker.__version__)
    with running() as server:
        main(server)
    sys.stdout.flush()
    os._exit(0)  # the SDK's threads would keep old versions for a minute
