"""From a ledger back to models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provenance import Ledger, LedgerError, MemoryLedger, SampledSequence, SqlLedger
from provenance.ledger import recorded_sequences
from provenance.sequences import table_of_models


def sequence(name: str, session: str = "s", **changes: Any) -> SampledSequence:
    return SampledSequence(
        **{
            "sequence_id": name,
            "session_id": session,
            "prompt_tokens": [11, -1, 12],
            "tokens": [21, 22],
            "logprobs": [-0.5, -0.1],
            "sampled_at": "2026-11-29T10:00:00.250001Z",
            "record_stability_info": False,
        }
        | changes
    )


FULL = sequence(
    "full",
    last_used_at="2026-11-29T11:00:00Z",
    record_stability_info=True,
    model="m",
    policy_version=12,
    stop_reason="stop",
    temperature=float(np.float32(0.7)),
    top_p=0.5,
    top_k=-1,
    seed=2**62,
)
EMPTY = sequence("empty", prompt_tokens=[], tokens=[], logprobs=[])


@pytest.fixture(params=["memory", "sql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield MemoryLedger()
    else:
        with SqlLedger(tmp_path / "ledger.db") as found:
            yield found


def test_sequences_come_back_as_they_were_recorded(ledger: Ledger) -> None:
    bare, elsewhere = sequence("bare"), sequence("bare", "other", tokens=[1, 2])
    ledger.record([FULL, bare, EMPTY, elsewhere])
    assert recorded_sequences(ledger, ["bare", "full", "empty", "bare"], "s") == [bare, FULL, EMPTY, bare]
    assert recorded_sequences(ledger, ["bare"], "other") == [elsewhere]
    assert recorded_sequences(ledger, [], "s") == []


def test_an_id_of_another_session_is_not_recorded(ledger: Ledger) -> None:
    ledger.record([sequence("a", "other"), sequence("b")])
    for name in ("a", "nobody"):
        with pytest.raises(LedgerError) as caught:
            recorded_sequences(ledger, ["b", name], "s")
        assert str(caught.value) == f"{name!r} is not recorded in session 's'"


def test_a_record_of_several_contents_is_none() -> None:
    ledger = MemoryLedger()
    ledger.load(table_of_models([sequence("a"), sequence("a", tokens=[1, 2])]))
    with pytest.raises(LedgerError) as caught:
        recorded_sequences(ledger, ["a"], "s")
    assert str(caught.value) == "'a' is recorded in session 's' with several contents"
