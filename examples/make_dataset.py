"""Write a small valid dataset, the record of what was sampled, and the same dataset broken in three ways.

    python examples/make_dataset.py [FOLDER]

Rollouts of a toy environment that asks for a sum and, in a second turn, for the proof. Tokens and logprobs
stand for what a sampler returned; what matters is how datums and spans are built from them.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import provenance
from provenance import Datum, ModelInput, PromptProvenanceSpan, SampledProvenanceSpan, SampledSequence

SESSION = "demo-session"


def sampled(name: str, prompt: list[int], tokens: list[int], logprobs: list[float]) -> SampledSequence:
    """The record to keep at the moment of sampling: no later response says these things again."""
    return SampledSequence(
        sequence_id=name,
        session_id=SESSION,
        prompt_tokens=prompt,
        tokens=tokens,
        logprobs=logprobs,
        sampled_at=datetime.now(UTC),
        record_stability_info=True,
    )


def single_turn(answer: SampledSequence, advantage: float) -> Datum:
    """Prompt and completion; targets are the sequence shifted by one."""
    prompt, tokens = answer.prompt_tokens.tolist(), answer.tokens.tolist()
    full = prompt + tokens
    p, s = len(prompt), len(tokens)
    return Datum(
        model_input=ModelInput.from_ints(full[:-1]),
        loss_fn_inputs={
            "target_tokens": full[1:],
            "logprobs": [0.0] * (p - 1) + answer.logprobs.tolist(),
            "advantages": [0.0] * (p - 1) + [advantage] * s,
        },
    ).with_provenance(
        model_input=[
            PromptProvenanceSpan(sequence_id=answer.sequence_id, length=p),
            SampledProvenanceSpan(sequence_id=answer.sequence_id, length=s - 1),
        ],
        loss_fn_inputs=[
            PromptProvenanceSpan(sequence_id=answer.sequence_id, offset=1, length=p - 1),
            SampledProvenanceSpan(sequence_id=answer.sequence_id, length=s),
        ],
    )


def two_turns(first: SampledSequence, second: SampledSequence, advantage: float) -> Datum:
    """The second prompt extends the first turn; what the environment added is prompt of that request."""
    p, s1, s2 = len(first.prompt_tokens), len(first.tokens), len(second.tokens)
    full = second.prompt_tokens.tolist() + second.tokens.tolist()
    added = len(second.prompt_tokens) - p - s1
    return Datum(
        model_input=ModelInput.from_ints(full[:-1]),
        loss_fn_inputs={
            "target_tokens": full[1:],
            "logprobs": [0.0] * (p - 1) + first.logprobs.tolist() + [0.0] * added + second.logprobs.tolist(),
            "advantages": [0.0] * (p - 1) + [advantage] * s1 + [0.0] * added + [advantage] * s2,
        },
    ).with_provenance(
        model_input=[
            PromptProvenanceSpan(sequence_id=first.sequence_id, length=p),
            SampledProvenanceSpan(sequence_id=first.sequence_id, length=s1),
            PromptProvenanceSpan(sequence_id=second.sequence_id, offset=p + s1, length=added),
            SampledProvenanceSpan(sequence_id=second.sequence_id, length=s2 - 1),
        ],
        loss_fn_inputs=[
            PromptProvenanceSpan(sequence_id=first.sequence_id, offset=1, length=p - 1),
            SampledProvenanceSpan(sequence_id=first.sequence_id, length=s1),
            PromptProvenanceSpan(sequence_id=second.sequence_id, offset=p + s1, length=added),
            SampledProvenanceSpan(sequence_id=second.sequence_id, length=s2),
        ],
    )


def break_datums(datums: list[Datum]) -> list[dict[str, Any]]:
    """Three faults as pipelines make them, in the JSON shape: the models would refuse none of them."""
    mask, retokenized, shifted = (json.loads(datum.model_dump_json()) for datum in (*datums, datums[1]))
    mask["loss_fn_inputs"]["advantages"]["data"] = [0.0, 0.0] + [
        0.5
    ] * 8  # the mask covers the environment's tokens
    retokenized["model_input"]["chunks"][0]["tokens"][3] = 99  # the text was encoded again
    retokenized["loss_fn_inputs"]["target_tokens"]["data"][2] = 99
    shifted["loss_fn_inputs"]["logprobs"]["data"] = [0.0, -3.1, -0.02, 0.0]  # logprobs are off by one
    return [mask, retokenized, shifted]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    right = sampled("sum:0", [5, 17, 9], [26, 2], [-0.05, -0.01])
    wrong = sampled("sum:1", [5, 17, 9], [27, 2], [-3.1, -0.02])
    proof = sampled("sum:2", [5, 17, 9, 26, 2, 40, 41], [17, 9, 26, 2], [-0.2, -0.1, -0.3, -0.01])
    datums = [two_turns(right, proof, 0.5), single_turn(wrong, -0.5)]
    provenance.write_datums(datums, folder / "datums.jsonl")
    provenance.write_sequences([right, wrong, proof], folder / "sequences.jsonl")
    provenance.write_datums(break_datums(datums), folder / "broken.jsonl")
    print(f"wrote datums.jsonl, broken.jsonl and sequences.jsonl in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
