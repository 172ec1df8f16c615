"""PostgreSQL servers that are killed meanwhile, and writers that stand in each other's way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from _ledgers import HOUR, NOON, Server, postgresql, sequence
from _writers import assert_whole, start

from provenance import LedgerError, SqlLedger

pytestmark = pytest.mark.slow

# Goes on with one ledger, whatever happens; prints each batch that was acknowledged, and errors.
STUBBORN = """
import time
from provenance import LedgerError
ledger, number = SqlLedger(sys.argv[1]), int(sys.argv[3])
while True:
    try:
        ledger.record(batch("w", number))
    except LedgerError as error:
        print("error", error, flush=True)
        time.sleep(0.05)
    else:
        print(number, flush=True)
        number += 1
"""


@pytest.fixture
def server() -> Iterator[Server]:
    own = Server()
    yield own
    own.stop()


def acknowledged_in(lines: list[str]) -> set[int]:
    return {int(line) for line in lines if line.strip().isdigit()}


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL], ids=["immediate shutdown", "kill -9"])
def test_a_server_that_is_killed_loses_nothing_that_was_acknowledged(
    server: Server, how: signal.Signals
) -> None:
    place = server.database()
    SqlLedger(place).close()
    writers = [start(STUBBORN, place, first) for first in (0, 1_000_000)]
    lines: list[list[str]] = [[], []]

    def collect(kept: list[str], stream: Iterator[str]) -> None:
        kept.extend(stream)

    readers = [
        threading.Thread(target=collect, args=[kept, writer.stdout])
        for kept, writer in zip(lines, writers, strict=True)
    ]
    for reader in readers:
        reader.start()

    def wait_for_more() -> None:
        before = [len(acknowledged_in(kept)) for kept in lines]
        end = time.monotonic() + 60
        while any(len(acknowledged_in(kept)) < n + 5 for kept, n in zip(lines, before, strict=True)):
            assert time.monotonic() < end, lines
            time.sleep(0.05)

    try:
        for _ in range(2):
            wait_for_more()
            server.kill(how)
            server.start()
        wait_for_more()
    finally:
        for writer in writers:
            writer.kill()
        for reader in readers:
            reader.join()
        errors_of = []
        for writer in writers:
            with writer:
                assert writer.stderr is not None
                errors_of.append(writer.stderr.read())
    assert errors_of == ["", ""]
    with SqlLedger(place) as ledger:
        batches = assert_whole(ledger)
    assert set(batches.values()) == {5}
    for kept in lines:
        acknowledged = acknowledged_in(kept)
        assert acknowledged <= set(batches)
        errors = [line for line in kept if line.startswith("error ")]
        assert errors
        assert len(errors) + len(acknowledged) == len(kept)  # each of one line
        assert all(line.startswith(f"error {place.partition('?')[0]}: ") for line in errors)
    assert any("it is safe to record it again" in line for kept in lines for line in kept)


def test_a_ledger_works_again_when_its_server_does(server: Server) -> None:
    place = server.database()
    with SqlLedger(place) as ledger:
        ledger.record([sequence("before")])
        server.kill(signal.SIGQUIT)
        for use in (
            lambda: ledger.record([sequence("while")]),
            lambda: ledger.renew(["before"], "s", NOON),
            lambda: ledger.prune(NOON),
            lambda: ledger.lookup(["before"], "s"),
        ):
            with pytest.raises(LedgerError, match=r"^postgresql://postgres@/ledger_\d+_\d+: ") as raised:
                use()
            assert "\n" not in str(raised.value)
        server.start()
        assert ledger.record([sequence("after")]) == 1
        assert ledger.lookup(["before", "while", "after"], "s").known.tolist() == [True, False, True]


def test_a_write_that_the_server_undoes_for_a_deadlock_is_done_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "provenance")
    place = postgresql()
    lock = "SELECT 1 FROM provenance_sequences WHERE sequence_id = %s FOR UPDATE"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with SqlLedger(place) as ledger, psycopg.connect(place) as other, psycopg.connect(place) as watch:
        ledger.record([sequence("a"), sequence("b")])
        watch.autocommit = True
        other.execute("SET deadlock_timeout = '1min'")  # so that the ledger's transaction is undone
        other.execute(lock, ["b"])
        renewed: list[int] = []
        renewing = threading.Thread(target=lambda: renewed.append(ledger.renew(["b", "a"], "s", NOON + HOUR)))
        renewing.start()
        while watch.execute(waiting).fetchone() == (0,):
            time.sleep(0.01)
        other.execute(lock, ["a"])  # held by the ledger, which waits for b
        other.commit()
        renewing.join()
        assert renewed == [2]
        assert [r.attempts_left for r in caplog.records if r.action == "transaction retried"] == [4]
        assert [ledger.uses(i, "s") for i in "ab"] == [1, 1]
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        end = time.monotonic() + 30
        while not watch.execute(deadlocks).fetchone()[0]:  # type: ignore[index]  # it has one row
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_write_that_others_stand_in_the_way_of_each_time_is_given_up() -> None:
    place = postgresql()
    with SqlLedger(place) as ledger, psycopg.connect(place, autocommit=True) as other:
        ledger.record([sequence("a")])
        other.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '40P01'; END$$"
        )
        other.execute("CREATE TRIGGER refuse BEFORE UPDATE ON provenance_sequences EXECUTE FUNCTION refuse()")
        with pytest.raises(LedgerError, match="in the way"):
            ledger.renew(["a"], "s", NOON)
        other.execute("DROP TRIGGER refuse ON provenance_sequences")
        assert ledger.renew(["a"], "s", NOON) == 1
