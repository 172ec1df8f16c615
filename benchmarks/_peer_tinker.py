"""The official SDK, row by row: `Datum(...).with_provenance(...)` of `to_pylist()` rows.

It reads no sequences, and compares nothing.
"""

from __future__ import annotations

from typing import Any

import tinker
from tinker import types

from benchmarks._peer_pydantic import to_rows

KINDS: dict[str, Any] = {"prompt": types.PromptProvenanceSpan, "sampled": types.SampledProvenanceSpan}


def spans(side: list[dict[str, Any]]) -> list[Any]:
    return [KINDS[span["type"]](**{key: span[key] for key in span if key != "type"}) for span in side]


def check(data: str, *_: object) -> None:
    """Raise at the first datum that cannot be built."""
    for row in to_rows(data):
        tinker.Datum(
            model_input=tinker.ModelInput.from_ints(row["model_input_tokens"]),
            loss_fn_inputs={name: row[name] for name in ("target_tokens", "logprobs", "advantages")},
        ).with_provenance(
            model_input=spans(row["model_input_spans"]), loss_fn_inputs=spans(row["loss_fn_input_spans"])
        )
