"""What does the guard cost, beside the SDK's own building and encoding of the same request?

1,024 single-turn datums of 500 tokens, one chunk of the SDK's, with their ledger in memory. The peer is what
the SDK does before a byte is sent: `Datum(...).with_provenance(...)` from lists, as its documentation has it,
and the protobuf message of the request. The three take turns; figures are medians of CPU time, which a busy
machine disturbs less, with wall time beside them. Datums of numpy arrays are cheaper to build; shown as well.
Needs the extra `tinker`. Exit code 1: the guard costs more than 30 % of building and encoding.

    python benchmarks/guard.py [REPEATS]
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data, check_one
from provenance.integrations.tinker import request_bytes
from provenance.integrations.tinker._guard import _Guard
from provenance.ledger import MemoryLedger

DATUMS, LENGTH, PROMPT = 1_024, 500, 300
TARGET = 0.30
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def with_arrays(datum: dict[str, Any]) -> dict[str, Any]:
    """The same datum, its loss inputs as arrays."""
    dtypes = {"int64": np.int64, "float32": np.float32}
    inputs = {
        name: {**tensor, "data": np.array(tensor["data"], dtypes[tensor["dtype"]])}
        for name, tensor in datum["loss_fn_inputs"].items()
    }
    return {**datum, "loss_fn_inputs": inputs}


def main(repeats: int) -> int:
    """Measure, print, and judge."""
    check_one.LENGTH, check_one.PROMPT = LENGTH, PROMPT
    made = [check_one.single_turn(number) for number in range(DATUMS)]
    ledger = MemoryLedger()
    ledger.record([sequence for _, sequence in made])
    lists = [datum for datum, _ in made]
    arrays = [with_arrays(datum) for datum in lists]
    datums: Any = [check_one.by_sdk(datum) for datum in lists]
    guard = _Guard(ledger, _data.SESSION, None, None, lambda: NOW)
    times = check_one.medians(
        {
            "build": lambda: [check_one.by_sdk(datum) for datum in lists],
            "build from arrays": lambda: [check_one.by_sdk(datum) for datum in arrays],
            "encode": lambda: request_bytes(
                datums, model_id=f"{_data.SESSION}:train:0", seq_id=1, loss_fn="stable_reinforce"
            ),
            "guard": lambda: guard.admit(datums, "stable_reinforce", None, NOW),
        },
        repeats,
    )
    for name, (cpu, wall) in times.items():
        print(f"{name}: {cpu * 1e3:.1f} ms CPU, {wall * 1e3:.1f} ms wall")
    ratio = times["guard"][0] / (times["build"][0] + times["encode"][0])
    beside_arrays = times["guard"][0] / (times["build from arrays"][0] + times["encode"][0])
    print(f"guard / (build from arrays + encode): {beside_arrays:.0%}")
    print(f"guard / (build + encode): {ratio:.0%}, target {TARGET:.0%}")
    return int(ratio > TARGET)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 15))
