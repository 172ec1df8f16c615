"""`provenance fuzz` as its users meet it, and programs that are tried by it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from test_cli import call, environment, on_terminal

from provenance.fuzz import fuzz
from provenance.generate import NOW, SESSION, generate
from provenance.json_schema import documents

DATASET = generate(6, seed=1).dataset
CHECK = ["--session", SESSION, "--now", NOW]
#: Refuses a datum without sampled targets, and a ledger of which a record has a temperature.
CHECKER = """
import json, sys
for line in open(sys.argv[1]):
    assert any(span["type"] == "sampled" for span in json.loads(line)["loss_fn_input_spans"])
for line in open(sys.argv[2]) if len(sys.argv) > 2 else []:
    assert "temperature" not in json.loads(line)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("my data")
    for suffix in (".jsonl", ".parquet"):
        DATASET.write(folder / f"d{suffix}", folder / f"s{suffix}")
    (folder / "check.py").write_text(CHECKER)
    return folder


def command(folder: Path, arguments: str = "{}") -> str:
    return f"{shlex.join([sys.executable, '-S', str(folder / 'check.py')])} {arguments}"


def run(folder: Path, *arguments: str, suffix: str = ".jsonl") -> subprocess.CompletedProcess[str]:
    return call("fuzz", folder / f"d{suffix}", "--ledger", folder / f"s{suffix}", *CHECK, *arguments)


def only(*names: str) -> list[str]:
    return [word for name in names for word in ("--mutation", name)]


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, list[str]]]:
    report = json.loads(done.stdout)
    jsonschema.validate(report, documents.schema("fuzz-report"))
    return {trial["mutation"]: (trial["verdict"], trial["by"]) for trial in report["trials"]}


def test_the_contract_catches_all(folder: Path) -> None:
    done = run(folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(
        r"^caught (\d+) of \1 faults \(\d+ by warnings only\); cried wolf on 0 of 7",
        done.stdout,
        re.MULTILINE,
    )


def test_the_same_seed_prints_the_same(folder: Path) -> None:
    names = only("tokenised-again", "record-lost", "half-precision-overflow")
    assert (
        run(folder, *names).stdout == run(folder, *names).stdout != run(folder, *names, "--seed", "1").stdout
    )


def test_options_are_those_of_check(folder: Path) -> None:
    names = only("stop-token-dropped", "vocabulary-of-another-model", "context-too-short", "option-is-true")
    done = run(folder, *names, "--format", "json", "--ignore", "SPN008", "--vocab-size", "40000")
    assert done.returncode == 1
    found = {name: verdict for name, (verdict, _) in verdicts(done).items()}
    assert found.pop("stop-token-dropped") == "let through"
    assert set(found.values()) == {"caught"}
    warned = run(folder, *only("no-signal"), "--fail-on", "error")
    assert warned.returncode == 1
    assert "ADV003: a warning" in warned.stdout


# Programs


def test_a_program_is_judged_by_its_exit_code(folder: Path) -> None:
    names = only(
        "completion-called-prompt", "tokenised-again", "zeros-negative", "sampled-with-a-temperature"
    )
    done = run(folder, *names, "--against", command(folder), "--format", "json")
    assert done.returncode == 1
    assert verdicts(done) == {
        "completion-called-prompt": ("caught", ["exit 1"]),
        "tokenised-again": ("let through", []),
        "zeros-negative": ("passed", []),
        "sampled-with-a-temperature": ("not applicable", []),
    }
    assert "in the ledger, and the command takes no {ledger}" in done.stdout
    both = run(folder, *names, "--against", command(folder, "{} {ledger}"), "--format", "json")
    assert verdicts(both)["sampled-with-a-temperature"] == ("caught", ["exit 1"])


@pytest.mark.slow
def test_a_program_gets_the_format_of_the_data(folder: Path) -> None:
    check = f"{shlex.join([sys.executable, '-m', 'provenance'])} check {{}} --ledger {{ledger}} " + " ".join(
        CHECK
    )
    names = ["tokenised-again", "targets-as-floats", "key-twice", "option-misspelt", "zeros-negative"]
    done = run(folder, *only(*names), "--against", check, "--format", "json", suffix=".parquet")
    assert done.returncode == 0
    found = {
        trial["mutation"]: (trial["verdict"], trial["note"]) for trial in json.loads(done.stdout)["trials"]
    }
    assert found == {
        "key-twice": ("not applicable", "single lines can be broken in files of lines only"),
        "option-misspelt": (
            "not applicable",
            "in the options, the session or the parameters, which are in no file",
        ),
        "targets-as-floats": ("not applicable", ".parquet cannot hold it"),
        "tokenised-again": ("caught", None),
        "zeros-negative": ("passed", None),
    }


def test_a_program_that_cries_wolf(folder: Path) -> None:
    check = f"cmp -s {shlex.quote(str(folder / 'd.jsonl'))} {{}}"
    done = run(folder, *only("datums-reordered", "spans-lost"), "--against", check)
    assert done.returncode == 1
    assert "cried wolf  datums-reordered  valid" in done.stdout
    assert done.stdout.endswith(
        "caught 1 of 1 fault; cried wolf on 1 of 1 harmless change: datums-reordered\n"
    )


ENDS = {
    "kill -9 $$": "killed by SIGKILL",
    "sh -c 'kill -TERM $$'": "killed by SIGTERM",
    "sleep 60": "no end in 0.5 s",
    "no-such-program-here": "exit 127",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_comes_to_no_end_has_no_verdict(end: str, folder: Path) -> None:
    unbroken = shlex.quote(str(folder / "d.jsonl"))
    check = f"cmp -s {unbroken} {{}} || {end}"
    done = run(folder, *only("spans-lost"), "--against", check, "--timeout", "0.5", "--format", "json")
    assert done.returncode == 1
    assert verdicts(done) == {"spans-lost": ("no verdict", [ENDS[end]])}


REFUSED = {
    "nowhere-to-be-found {}": "'nowhere-to-be-found {}' cannot be started (exit 127): ",
    "true": "'true' takes no data: put {} where the name of the file belongs",
    "false {}": "'false {}' does not accept the unbroken data (exit 1), expected exit 0",
    "echo one; echo two >&2; exit 3 # {}": "(exit 3), expected exit 0: two",
}


@pytest.mark.parametrize("check", REFUSED)
def test_a_program_that_is_no_check_is_refused(check: str, folder: Path) -> None:
    done = run(folder, "--against", check)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert REFUSED[check] in line


def test_a_ledger_that_is_not_there_is_not_taken(folder: Path) -> None:
    done = call("fuzz", folder / "d.jsonl", "--against", "true {} {ledger}")
    assert (done.returncode, done.stderr) == (
        2,
        "error: 'true {} {ledger}' takes a ledger, and none was given\n",
    )


def test_what_a_program_started_ends_with_it(folder: Path) -> None:
    marker = folder / "pid"
    unbroken, place = (shlex.quote(str(path)) for path in (folder / "d.jsonl", marker))
    check = f"cmp -s {unbroken} {{}} || (sleep 60 & echo $! > {place}; wait)"
    run(folder, *only("spans-lost"), "--against", check, "--timeout", "0.5")
    assert not runs_on(int(marker.read_text()))


def runs_on(pid: int) -> bool:
    """Whether a process is there after 2 s, which is ended then."""
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return False
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return True


def test_what_a_program_leaves_running_ends_with_it(folder: Path) -> None:
    marker = folder / "left"
    run(folder, *only("spans-lost"), "--against", f"sleep 60 & echo $! >> {shlex.quote(str(marker))}; : {{}}")
    pids = marker.read_text().split()
    assert len(pids) == 2
    assert not [pid for pid in pids if runs_on(int(pid))]


# Misuse

MISUSE: dict[str, tuple[list[str], str]] = {
    "missing": (["missing.jsonl"], "missing.jsonl: no such file or directory"),
    "empty": (["empty.jsonl"], "there is no datum to break"),
    "pattern": (["x*.jsonl"], "x*.jsonl: no file matches this pattern"),
    "no-json": (["check.py"], "check.py: unknown suffix"),
    "sequences": (["s.jsonl"], "the data break FMT004 before they are fuzzed"),
    "truncated": (["half.jsonl"], "half.jsonl: line 1: "),
    "mutation": (["d.jsonl", "--mutation", "spans-lots"], "did you mean 'spans-lost'?"),
    "timeout": (["d.jsonl", "--timeout", "3"], "--timeout is for a command"),
    "output": (["d.jsonl", "--output", "d.jsonl"], "'d.jsonl' is read or written as something else too"),
    "folder": (["d.jsonl", "--output", "missing/x"], "missing/x: no such file or directory"),
    "ledger": (["d.jsonl", "--ledger", "missing.jsonl"], "missing.jsonl: no such file or directory"),
    "loss": (["d.jsonl", "--loss", "pp"], "no loss is called 'pp'"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_one_line(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty.jsonl").write_text("")
    (folder / "half.jsonl").write_bytes((folder / "d.jsonl").read_bytes()[:100])
    before = (folder / "d.jsonl").read_bytes()
    arguments, message = MISUSE[name]
    done = call("fuzz", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert message in line
    assert (folder / "d.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_request_is_fuzzed_and_not_written(tmp_path: Path) -> None:
    pytest.importorskip("tinker")
    from _paths import as_request

    path = as_request(DATASET.datums, tmp_path)
    arguments = [
        "fuzz",
        path,
        "--loss",
        "stable_reinforce",
        "--now",
        NOW,
        *only("tokenised-again", "spans-lost"),
    ]
    done = call(*arguments, "--format", "json")
    assert {name: verdict for name, (verdict, _) in verdicts(done).items()} == {
        "spans-lost": "caught",
        "tokenised-again": "let through",
    }
    refused = call(*arguments, "--against", "true {}")
    assert refused.returncode == 2
    assert "'request.pb' is a training request, which cannot be written for a command" in refused.stderr


def test_the_report_goes_to_a_file(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    done = run(folder, *only("spans-lost"), "--output", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "note: caught 1 of 1 fault\n"
    assert path.read_text() == run(folder, *only("spans-lost")).stdout


# Terminals


def test_a_bar_is_shown_to_who_watches(folder: Path) -> None:
    check = f"cmp -s {shlex.quote(str(folder / 'd.jsonl'))} {{}} || sleep 0.3"
    names = only("spans-lost", "tokenised-again", "no-signal", "logprob-nan")
    arguments: list[Any] = ["fuzz", folder / "d.jsonl", *names, "--against", check]
    status, seen = on_terminal(arguments, stream="stderr", columns=100)
    assert status == 1
    assert "logprob-nan" in seen
    assert "3/4" in seen


def test_colours_are_for_terminals_that_want_them(folder: Path) -> None:
    arguments = ["fuzz", folder / "d.jsonl", *only("spans-lost")]
    _, coloured = on_terminal(arguments, stream="stdout")
    assert "\x1b[32m\x1b[1mcaught\x1b[0m  spans-lost" in coloured
    assert "\x1b" not in call(*arguments).stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_behind(
    folder: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    started = tmp_path / "started"
    check = f"touch {shlex.quote(str(started))}; sleep 60; true {{}}"
    process = subprocess.Popen(
        [sys.executable, "-m", "provenance", "fuzz", str(folder / "d.jsonl"), "--against", check],
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for _ in range(1500):
        if started.exists():
            break
        time.sleep(0.02)
    assert len(list(tmp_path.iterdir())) == 2
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (code, b"", b"")
    assert list(tmp_path.iterdir()) == [started]


def test_the_library_takes_a_command_too(folder: Path) -> None:
    report = fuzz(folder / "d.jsonl", against=command(folder), only=["completion-called-prompt"])
    assert report.caught == 1
    assert report.judge == command(folder)
