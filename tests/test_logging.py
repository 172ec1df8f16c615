"""What the logger ``provenance`` tells of a long job, to whom, and what it does not tell."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from _ledgers import HOUR, NOON, sequence
from test_cli import PROVENANCE, call, on_terminal, positive, run, write
from test_public_api import imported_by

import provenance
from provenance._log import LOGGER, event
from provenance.generate import generate
from provenance.pipeline import CheckedStream, Checker
from provenance.rules import case
from provenance.rules._examples import NOW, SESSION

OWN = set(vars(logging.makeLogRecord({}))) | {"message"}
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info): ([a-z ]+): (\w+=\S+ ?)+")


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The events, as their fields; times are numbers that nobody knows beforehand."""
    events = []
    for record in caplog.records:
        fields = _own({name: value for name, value in vars(record).items() if name not in OWN})
        assert record.name == "provenance"
        assert record.getMessage().startswith(f"{fields['action']}: ")
        assert record.funcName != "event"  # the place is that of the caller
        assert fields.pop("seconds", 0.0) >= 0
        events.append({"level": record.levelname, **fields})
    return events


def _own(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what a library adds to every record of a process in which it was imported, as Ray does."""
    return {name: value for name, value in fields.items() if not name.startswith("_")}


def check(folder: Path, **options: Any) -> provenance.Report:
    datums, sequences = folder / "datums.jsonl", folder / "sequences.jsonl"
    return provenance.check(datums, ledger=sequences, session=SESSION, now=NOW, **options)


def test_a_check_of_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, positive(3))
    caplog.set_level("DEBUG", "provenance")
    report = check(tmp_path)
    path = tmp_path / "datums.jsonl"
    start, ledger, opened, read, end = told(caplog)
    assert start == {
        "level": "INFO",
        "action": "check started",
        "loss": "stable_reinforce",
        "rules": len(provenance.Contract.for_loss("stable_reinforce").severities),
    }
    assert ledger == {"level": "INFO", "action": "ledger read", "files": 1, "sequences": 3, "faults": 0}
    assert opened == {"level": "DEBUG", "action": "file opened", "file": str(path)}
    assert read == {"level": "DEBUG", "action": "file read", "file": str(path)}
    assert end == {
        "level": "INFO",
        "action": "check finished",
        "valid": False,
        "datums": 3,
        "bad_datums": 3,
        "positions": report.positions,
        "errors": report.errors,
        "warnings": report.warnings,
        "bytes": path.stat().st_size,
    }


def test_a_stream_of_violations_is_told_of_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, positive(1))
    caplog.set_level("INFO", "provenance")
    found = list(provenance.iter_violations([], allow_empty=True))
    assert [record["action"] for record in told(caplog)] == ["check started", "check finished"]
    assert not found


def test_there_are_no_more_events_where_there_are_more_batches(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "provenance")
    provenance.check([{}] * 5_000)  # five batches
    assert len(caplog.records) == 2


def test_a_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "provenance")
    place = str(tmp_path / "ledger.db")
    with provenance.SqlLedger(place) as ledger:
        ledger.record([sequence("a"), sequence("b")])
        ledger.prune(NOON + HOUR)
    with provenance.SqlLedger(place, read_only=True):
        pass
    where = {"level": "INFO", "ledger": place}
    assert told(caplog) == [
        {**where, "action": "ledger created", "version": 2},
        {**where, "action": "ledger opened", "read_only": False},
        {**where, "action": "sequences pruned", "sequences": 2},
        {**where, "action": "ledger opened", "read_only": True},
    ]


def test_datums_that_a_stream_skips_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    checker = Checker(ledger=list(case(copies=2).sequences), session=SESSION, now=NOW)
    datums = [*case(copies=2).datums, *positive(1).datums]
    assert len(list(CheckedStream(datums, checker, on_error="skip"))) == 2
    assert told(caplog) == [{"level": "WARNING", "action": "datums skipped", "datums": 1, "of": 3}]


def test_nothing_of_the_data_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "s3cret"
    made = case({"datums.0.loss_fn_inputs.advantages.data": [31337.0] * 5, "datums.0.note": secret})
    text = json.dumps([made.datums, made.sequences]).replace('"s:', f'"{secret}')
    datums, sequences = json.loads(text)
    caplog.set_level("DEBUG", "provenance")
    provenance.check(datums, ledger=sequences, session=secret, now=NOW)
    shown = " ".join(str(vars(record)) for record in caplog.records)
    assert "check finished" in shown
    assert secret not in shown
    assert "31337" not in shown


def test_a_path_makes_no_second_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "provenance")
    path = tmp_path / "a\nERROR: all is lost\x1b[2J.jsonl"
    path.write_text("{}\n")
    provenance.check(path)
    assert any("a\\nERROR: all is lost\\x1b[2J.jsonl" in record.getMessage() for record in caplog.records)
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert str(getattr(record, "file", "")).isprintable()


def test_nobody_hears_of_it_who_does_not_listen() -> None:
    script = (
        "import logging; from provenance._log import event; event(logging.WARNING, 'x'); "
        "assert not logging.root.handlers"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert "logging" not in imported_by("import provenance") - imported_by("import subprocess")


def written_by(formatter: logging.Formatter) -> dict[str, Any]:
    """What a handler with this formatter writes of one event."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    LOGGER.addHandler(handler)
    try:
        event(logging.WARNING, "ledger read", files=2, seconds=0.5, missing=None)
    finally:
        LOGGER.removeHandler(handler)
    return _own(json.loads(stream.getvalue()))


def test_json_loggers_get_the_fields() -> None:
    pytest.importorskip("pythonjsonlogger")
    structlog = pytest.importorskip("structlog")
    from pythonjsonlogger.json import JsonFormatter

    fields = {"action": "ledger read", "files": 2, "seconds": 0.5}
    message = "ledger read: files=2 seconds=0.5"
    assert written_by(JsonFormatter()) == {"message": message, **fields}
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ExtraAdder(),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ]
    )
    assert written_by(formatter) == {"event": message, **fields}


def test_the_page_lists_every_event() -> None:
    root = Path(__file__).parent.parent
    source = "".join(path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py"))
    actions = set(re.findall(r'event\(\s*\w+,\s*"([a-z ]+)"', source)) | {"ledger created", "ledger upgraded"}
    page = (root / "docs" / "logging.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`[a-z]+ [^|]*) \| (?:INFO|DEBUG|WARNING) ", page, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`([a-z ]+)`", cell)} == actions
    assert len(actions) > 10


# --- the command line --------------------------------------------------------------------------------------


def test_the_command_line_logs_to_stderr(tmp_path: Path) -> None:
    data = write(tmp_path, case())
    plain = call("check", *data)
    done = run("--log-level", "debug", "check", *data)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    lines = done.stderr.splitlines()
    assert [LINE.fullmatch(line)[2] for line in lines] == [
        "check started",
        "ledger read",
        "file opened",
        "file read",
        "check finished",
    ]
    assert plain.stderr == ""
    assert len(call("--log-level", "info", "check", *data).stderr.splitlines()) == 3


def test_the_command_line_logs_as_json(tmp_path: Path) -> None:
    done = call("--log-level", "info", "--log-format", "json", "check", *write(tmp_path, positive(2)))
    assert done.returncode == 1
    first, *_, last = map(json.loads, done.stderr.splitlines())
    assert list(first)[:4] == ["time", "level", "message", "action"]
    assert first["loss"] == "stable_reinforce"
    assert (last["level"], last["action"], last["bad_datums"]) == ("info", "check finished", 2)
    assert LOGGER.level == logging.NOTSET  # and nothing is left of it in this process
    assert [type(handler) for handler in LOGGER.handlers] == [logging.NullHandler]


def test_a_log_whose_reader_has_gone_ends_no_check(tmp_path: Path) -> None:
    read, write_end = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*PROVENANCE, "--log-level", "info", "check", *write(tmp_path, case())],
            stdout=subprocess.PIPE,
            stderr=write_end,
            check=False,
        )
    finally:
        os.close(write_end)
    assert done.returncode == 0
    assert b"valid: 1 datum" in done.stdout


@pytest.mark.slow
def test_lines_go_above_the_bar(tmp_path: Path) -> None:
    generate(2_000).dataset.write(tmp_path / "0.jsonl", None)
    for number in range(1, 8):
        shutil.copy(tmp_path / "0.jsonl", tmp_path / f"{number}.jsonl")
    data = str(tmp_path / "*.jsonl")
    _, seen = on_terminal(["--log-level", "debug", "check", data], stream="stderr", columns=140)
    assert "\u2501" in seen  # the bar
    events = re.findall(r"(.{0,4})\d{4}-\d\d-\d\dT[\d:.]+Z (?:debug|info): ", seen, re.DOTALL)
    assert len(events) == 2 + 2 * 8
    assert all(before == "" or before.endswith(("\n", "\x1b[2K")) for before in events)


def test_the_form_of_no_log_is_refused() -> None:
    done = call("--log-format", "json", "rules")
    assert done.returncode == 2
    assert "--log-format is the form of a log: give --log-level too" in done.stderr
    done = call("--log-level", "loud", "rules")
    assert done.returncode == 2
    assert "'loud' is not one of 'debug', 'info', 'warning'" in done.stderr
