"""From a ledger back to the models that were recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from provenance.errors import LedgerError
from provenance.ledger._protocol import Ledger
from provenance.models import SampledSequence
from provenance.sequences import ABSENT, SequenceTable, rfc3339


def recorded_sequences(ledger: Ledger, ids: Sequence[str], session: str) -> list[SampledSequence]:
    """Return sampled sequences as they were recorded, in the order of their ids.

    What a sampler returns lacks the prompt, the session and the time that a record has. ``temperature`` and
    ``top_p`` are those of float32.

    Raises:
        LedgerError: an id is not recorded in the session, or with several contents.
        SchemaError: a record that came from a file breaks SEQ007.
    """
    table = ledger.lookup(ids, session)
    for i, name in enumerate(ids):
        if not table.known[i] or table.session_id[i] != session:
            raise LedgerError(f"{name!r} is not recorded in session {session!r}")
        if table.conflicting[i]:
            raise LedgerError(f"{name!r} is recorded in session {session!r} with several contents")
    return [_sequence(table, i) for i in range(len(table))]


def _sequence(table: SequenceTable, i: int) -> SampledSequence:
    used, top_k, seed = (int(column[i]) for column in (table.last_used_at, table.top_k, table.seed))
    temperature, top_p = float(table.temperature[i]), float(table.top_p[i])
    return SampledSequence(
        sequence_id=table.sequence_id[i],
        session_id=table.session_id[i],
        prompt_tokens=table.prompt(i),
        tokens=table.tokens(i),
        logprobs=table.sampled_logprobs(i),
        sampled_at=rfc3339(int(table.sampled_at[i])),
        last_used_at=None if used == ABSENT else rfc3339(used),
        record_stability_info=bool(table.record_stability_info[i]),
        model=table.model[i],
        policy_version=table.policy_version[i],
        stop_reason=table.stop_reason[i],
        temperature=None if temperature != temperature else temperature,
        top_p=None if top_p != top_p else top_p,
        top_k=None if top_k == ABSENT else top_k,
        seed=None if seed == ABSENT else seed,
    )


def record_object(table: SequenceTable, i: int) -> dict[str, Any]:
    """A row of a table in the shape of a JSON object, with arrays for lists."""
    record = {
        "sequence_id": table.sequence_id[i],
        "session_id": table.session_id[i],
        "prompt_tokens": table.prompt(i),
        "tokens": table.tokens(i),
        "logprobs": table.sampled_logprobs(i),
        "sampled_at": rfc3339(int(table.sampled_at[i])),
        "record_stability_info": bool(table.record_stability_info[i]),
    }
    if table.last_used_at[i] != ABSENT:
        record["last_used_at"] = rfc3339(int(table.last_used_at[i]))
    record |= {
        name: getattr(table, name)[i]
        for name in ("model", "policy_version", "stop_reason")
        if getattr(table, name)[i] is not None
    }
    record |= {
        name: float(getattr(table, name)[i])
        for name in ("temperature", "top_p")
        if not np.isnan(getattr(table, name)[i])
    }
    return record | {
        name: int(getattr(table, name)[i]) for name in ("top_k", "seed") if getattr(table, name)[i] != ABSENT
    }
