"""Ledgers that older programs made, brought up to date in place."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _ledgers import HOUR, NOON, postgresql, sequence

from provenance import LedgerError, SampledSequence, SqlLedger
from provenance.ledger import recorded_sequences
from provenance.sequences import microseconds

# As version 1 made them, with the words of both databases for bytes and for real numbers.
VERSION_1 = """
CREATE TABLE provenance_ledger (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE provenance_sequences (
    sequence_id TEXT NOT NULL, session_id TEXT NOT NULL, prompt {bytes}, prompt_length BIGINT NOT NULL,
    sampled_at BIGINT NOT NULL, last_used_at BIGINT, last_use BIGINT NOT NULL, uses BIGINT NOT NULL,
    record_stability_info BOOLEAN NOT NULL, model TEXT, policy_version TEXT, stop_reason TEXT,
    temperature {real}, top_p {real}, top_k INTEGER, seed BIGINT,
    tokens {bytes} NOT NULL, logprobs {bytes} NOT NULL, PRIMARY KEY (sequence_id, session_id));
CREATE INDEX provenance_sequences_last_use ON provenance_sequences (last_use);
CREATE TABLE provenance_prompt_blocks (
    key {bytes} NOT NULL, parent {bytes}, tokens {bytes} NOT NULL, PRIMARY KEY (key));
INSERT INTO provenance_ledger VALUES (1)
"""
ROW = "INSERT INTO provenance_sequences VALUES (" + ", ".join(["{mark}"] * 18) + ")"
BLOCK = "INSERT INTO provenance_prompt_blocks VALUES ({mark}, {mark}, {mark}) ON CONFLICT DO NOTHING"

Run = Callable[..., Any]


def recorded_in_version_1() -> list[SampledSequence]:
    text = np.random.default_rng(0).integers(-1, 150_000, 700)
    return [
        sequence(
            f"turn {end}", prompt_tokens=text[:end], tokens=text[:end], logprobs=-text[:end] / 1e9, top_k=3
        )
        for end in (0, 1, 127, 128, 129, 300, 700)
    ] + [sequence("other", "t", seed=-5, temperature=0.5, last_used_at=NOON + HOUR, stop_reason="stop")]


def make_version_1(run: Run, words: dict[str, str]) -> None:
    """Write a ledger as version 1 did; 1,100 sequences more than ``recorded_in_version_1``."""
    for statement in VERSION_1.format(**words).split(";"):
        run(statement)
    more = [sequence(f"more {i}") for i in range(1100)]
    for uses, s in enumerate(recorded_in_version_1() + more):
        used = None if s.last_used_at is None else microseconds(s.last_used_at)
        sampled = microseconds(s.sampled_at)
        prompt = s.prompt_tokens.astype("<i4").tobytes()
        key = None
        for start in range(0, len(prompt), 512):
            parent, key = key, blake2b(prompt[: start + 512], digest_size=16).digest()
            run(BLOCK.format(**words), [key, parent, prompt[start : start + 512]])
        row = [
            s.sequence_id,
            s.session_id,
            key,
            len(prompt) // 4,
            sampled,
            used,
            max(sampled, used or 0),
            uses,
        ]
        row += [True, s.model, s.policy_version, s.stop_reason, s.temperature, s.top_p, s.top_k, s.seed]
        run(ROW.format(**words), [*row, s.tokens.tobytes(), s.logprobs.tobytes()])


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Run]]:
    """A ledger of version 1, and what runs SQL on it."""
    if request.param == "sqlite":
        path = tmp_path / "old.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            make_version_1(connection.execute, {"bytes": "BLOB", "real": "DOUBLE", "mark": "?"})
            connection.execute("COMMIT")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield path, lambda statement: connection.execute(statement).fetchall()
        return
    import psycopg

    place = postgresql()
    with psycopg.connect(place) as connection:
        make_version_1(connection.execute, {"bytes": "BYTEA", "real": "DOUBLE PRECISION", "mark": "%s"})
    with psycopg.connect(place, autocommit=True) as connection:
        yield place, lambda statement: connection.execute(statement).fetchall()


def test_a_ledger_of_version_1_is_brought_up_to_date(
    old: tuple[Any, Run], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "provenance")
    place, run = old
    given = recorded_in_version_1()
    with SqlLedger(place) as ledger:
        assert caplog.messages[0].startswith("ledger upgraded: ")
        for session in ("s", "t"):
            own = [s for s in given if s.session_id == session]
            found = recorded_sequences(ledger, [s.sequence_id for s in own], session)
            assert [s.model_dump_json() for s in found] == [s.model_dump_json() for s in own]
        assert [ledger.uses(s.sequence_id, s.session_id) for s in given] == list(range(len(given)))
        assert ledger.stats().sequences == len(given) + 1100
        # What is recorded now continues it.
        assert ledger.record([*given, sequence("new", prompt_tokens=given[6].prompt_tokens[:256])]) == 1
        assert ledger.stats().prompt_blocks == 6 + 3 + 1 + 1
        assert ledger.prune(NOON + 2 * HOUR) == len(given) + 1101
        assert ledger.stats().prompt_blocks == 0
    assert run("SELECT version FROM provenance_ledger") == [(2,)]
    with SqlLedger(place, read_only=True) as ledger:
        assert ledger.stats().sequences == 0


def test_a_ledger_of_version_1_is_not_changed_by_reading(old: tuple[Any, Run]) -> None:
    place, run = old
    with pytest.raises(
        LedgerError, match=r"a ledger of version 1, .* 2: provenance ledger upgrade brings it up to date"
    ):
        SqlLedger(place, read_only=True)
    assert run("SELECT version FROM provenance_ledger") == [(1,)]


def test_a_command_brings_a_ledger_up_to_date(old: tuple[Any, Run]) -> None:
    place, run = old
    for _ in range(2):  # the second time there is nothing to do
        done = subprocess.run(
            [sys.executable, "-m", "provenance", "ledger", "upgrade", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        count = len(recorded_in_version_1()) + 1100
        assert (done.returncode, done.stdout, done.stderr) == (
            0,
            f"up to date, with {count} sequences\n",
            "",
        )
    assert run("SELECT version FROM provenance_ledger") == [(2,)]


def test_a_migration_that_fails_changes_nothing(
    old: tuple[Any, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, run = old
    before = run("SELECT * FROM provenance_sequences ORDER BY 1, 2")

    def fail(_: Any) -> None:
        raise OSError("no")

    with monkeypatch.context() as patched:
        patched.setattr("provenance.ledger.sql._migrate.pack", fail)
        with pytest.raises(LedgerError, match="no"):
            SqlLedger(place)
    assert run("SELECT version FROM provenance_ledger") == [(1,)]
    assert run("SELECT * FROM provenance_sequences ORDER BY 1, 2") == before
    SqlLedger(place).close()
    assert run("SELECT version FROM provenance_ledger") == [(2,)]
