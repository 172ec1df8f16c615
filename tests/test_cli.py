"""The command line as its users meet it: real processes, files, pipes and terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import provenance
from provenance.cli import commands, main
from provenance.loss_spec import LOSSES
from provenance.rules import Case, case, registry
from provenance.rules._examples import NOW, SESSION

PROVENANCE = [sys.executable, "-m", "provenance"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def environment(**changes: str) -> dict[str, str]:
    ignored = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "PYTHONUNBUFFERED")
    return {k: v for k, v in os.environ.items() if k not in ignored} | {"TERM": "xterm-256color"} | changes


def run(*arguments: str | Path, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*PROVENANCE, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=environment(**env),
        timeout=120,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Like `run`, in this process: for tests about content, because it takes a tenth of the time."""
    with (
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as end,
    ):
        main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return subprocess.CompletedProcess(arguments, end.value.code, out.getvalue(), err.getvalue())


def on_terminal(
    arguments: Sequence[str | Path], *, stream: str, columns: int = 80, **env: str
) -> tuple[int, str]:
    """Exit code, and what reached a terminal that is the process's stdout or stderr."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    ends = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ends[stream] = slave
    process = subprocess.Popen([*PROVENANCE, *map(str, arguments)], env=environment(**env), **ends)
    os.close(slave)
    seen = b""
    try:
        while piece := os.read(master, 65536):
            seen += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(master)
    return process.wait(timeout=120), seen.decode().replace("\r\n", "\n")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_lines(path: Path, values: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def write(folder: Path, dataset: Case) -> list[str]:
    """Files of a dataset, and the arguments that check them."""
    folder.mkdir(parents=True, exist_ok=True)
    data = write_lines(folder / "datums.jsonl", dataset.datums)
    ledger = write_lines(folder / "sequences.jsonl", dataset.sequences)
    return [str(data), "--ledger", str(ledger), "--session", SESSION, "--now", NOW]


def positive(copies: int) -> Case:
    """Every datum has two runs of positive logprobs, of one and two positions, and one large advantage."""
    changes = {}
    for i in range(copies):
        changes[f"datums.{i}.loss_fn_inputs.logprobs.data"] = [0.5, 0.0, -0.125, 0.5, 0.5]
        changes[f"datums.{i}.loss_fn_inputs.advantages.data"] = [0.0, 0.0, 1.0, 1000.0, 1.0]
    return case(changes, copies=copies)


@pytest.fixture
def valid(tmp_path: Path) -> list[str]:
    return write(tmp_path / "valid", case(copies=3))


@pytest.fixture
def invalid(tmp_path: Path) -> list[str]:
    return write(tmp_path / "invalid", positive(30))


@pytest.fixture
def warned(tmp_path: Path) -> list[str]:
    return write(tmp_path / "warned", case({"loss_fn_inputs.advantages.data": [0.0, 0.0, 1.0, 1000.0, 1.0]}))


# --- the whole command ----------------------------------------------------------------------------------


def test_help_answers_without_heavy_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "provenance", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert not loaded & {"numpy", "pydantic", "pyarrow", "rich", "torch", "msgspec"}
    assert all(name in done.stdout for name in commands.list_commands(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", commands.list_commands(None))  # type: ignore[arg-type]
def test_every_command_has_help(name: str) -> None:
    done = run(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: provenance {name} ")


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"provenance \d+\S*\n", done.stdout)


def test_click_runner_finds_the_commands(valid: list[str]) -> None:
    result = CliRunner().invoke(commands, ["check", *valid], standalone_mode=False)
    assert result.return_value == 0
    assert "valid: 3 datums, 15 positions, " in result.output


# --- exit codes and streams -----------------------------------------------------------------------------


def test_valid_data(valid: list[str]) -> None:
    done = run("check", *valid)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^valid: 3 datums, 15 positions, \d+ rules checked", done.stdout, re.MULTILINE)


def test_invalid_data(invalid: list[str]) -> None:
    done = run("check", *invalid)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert "error VAL002 positive-logprob: 60 violations in 30 datums, 90 positions" in lines
    assert "  ... and 40 more" in lines
    at = lines.index("warning ADV004 large-advantage: 30 violations in 30 datums, 30 positions")
    assert lines[at + 1].startswith(f"  {invalid[0]}: line 1: advantages[3]: ADV004 large-advantage: ")
    assert lines[-1].startswith("invalid: 30 of 30 datums have errors, ")


def test_warnings_fail_on_request_only(warned: list[str]) -> None:
    assert call("check", *warned).returncode == 0
    done = call("check", *warned, "--fail-on", "warning")
    assert done.returncode == 1
    assert done.stderr == "note: 1 warning and --fail-on warning make the exit code 1\n"
    assert call("check", *warned, "--fail-on", "warning", "--ignore", "ADV").returncode == 0


def test_no_report_calls_valid_what_fails(
    warned: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    words = "1 warning, which fail_on='warning' does not let pass; valid: 1 datum, "
    for format_ in ("github", "html"):
        done = call("check", *warned, "--fail-on", "warning", "--format", format_)
        assert done.returncode == 1
        assert words in done.stdout.replace("&#39;", "'")
        assert words not in call("check", *warned, "--format", format_).stdout.replace("&#39;", "'")
    failed, passed = (tmp_path / "summary.md").read_text().replace("&#x27;", "'").split("</h3>")[1:]
    assert f"<p>{words}" in failed
    assert "<p>valid: 1 datum, " in passed


USAGE = {
    "no command": ([], "command"),
    "unknown command": (["chekc", "x"], "check"),
    "unknown option": (["check", "DATA", "--ledgr", "x"], "--ledger"),
    "no data": (["check"], "DATA"),
    "missing file": (["check", "nowhere.jsonl"], "nowhere.jsonl"),
    "missing ledger": (["check", "DATA", "--ledger", "nowhere.jsonl"], "nowhere.jsonl"),
    "missing contract": (["check", "DATA", "--config", "nowhere.toml"], "nowhere.toml"),
    "naive time": (["check", "DATA", "--now", "2026-01-02T12:00:00"], "offset"),
    "no time": (["check", "DATA", "--now", "yesterday"], "yesterday"),
    "impossible time": (["check", "DATA", "--now", "2026-02-30T12:00:00Z"], "2026-02-30"),
    "unknown loss": (["check", "DATA", "--loss", "stable_reinforced"], "stable_reinforce'"),
    "unknown rule": (["check", "DATA", "--select", "VAL01"], "VAL01"),
    "no rule left": (["check", "DATA", "--select", "ADV001", "--ignore", "ADV"], "--ignore"),
    "no rule named": (["check", "DATA", "--select", ""], "'' names no rule"),
    "commas alone": (["check", "DATA", "--ignore", ", ,"], "', ,' names no rule"),
    "bad JSON": (["check", "DATA", "--loss-config", "kl_coeff=0.1.2"], "kl_coeff"),
    "no JSON": (["check", "DATA", "--loss-config", "kl_coeff"], "KEY=JSON"),
    "endless JSON": (["check", "DATA", "--loss-config", "kl_coeff=" + "[" * 99_999], "kl_coeff"),
    "two values": (["check", "DATA", "--loss-config", "a=1", "--loss-config", "a=2"], "twice"),
    "bad format": (["check", "DATA", "--format", "yaml"], "yaml"),
    "no vocabulary": (["check", "DATA", "--vocab-size", "0"], "--vocab-size"),
    "no number of examples": (["check", "DATA", "--max-examples", "x"], "'x' is not a valid integer (see"),
    "no time limit": (["fuzz", "DATA", "--timeout", "x"], "'x' is not a valid number (see"),
    "no place for the report": (["check", "DATA", "--output", "nowhere/report.json"], "nowhere"),
    "unknown code": (["explain", "VAL0O2"], "VAL002"),
    "unknown name": (["explain", "positiv-logprob"], "VAL002"),
    "rules of no loss": (["rules", "--loss", "pppo"], "ppo"),
    "a long name": (["check", "x" * 5_000], "xxx"),
    "control characters": (["check", "a\x1b[2J\nb"], r"\x1b[2J"),
}


@pytest.mark.parametrize("name", USAGE)
def test_unusable_input_gets_one_line(name: str, tmp_path: Path, valid: list[str]) -> None:
    arguments, named = USAGE[name]
    done = call(*(valid[0] if a == "DATA" else a for a in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr)
    assert done.stderr.rstrip("\n").isprintable()
    assert named in done.stderr
    assert len(done.stderr) < 1_000


@pytest.mark.parametrize("name", ["missing file", "naive time", "unknown loss", "unknown code"])
def test_a_process_with_unusable_input(name: str, valid: list[str]) -> None:
    arguments, named = USAGE[name]
    done = run(*(valid[0] if a == "DATA" else a for a in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr)
    assert named in done.stderr


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"\x00" * 100, b"PAR1" + b"\xff" * 50 + b"PAR1"],
    ids=["empty", "cut", "zeros", "footer"],
)
def test_a_broken_container_is_unusable_input(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    done = call("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]*x\.parquet[^\n]*\n", done.stderr)


def test_a_faulty_line_is_a_violation(valid: list[str]) -> None:
    with Path(valid[0]).open("a") as file:
        file.write('{"model_input": \n')
    done = call("check", *valid)
    assert done.returncode == 1
    assert f"{valid[0]}: line 4: FMT001 invalid-json: " in done.stdout


def test_a_line_over_the_limit_is_unusable_input(valid: list[str]) -> None:
    done = call("check", *valid, "--max-line", "100")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr)


def test_an_empty_dataset_fails_unless_allowed(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.jsonl", [])
    done = call("check", empty)
    assert done.returncode == 1
    assert "FMT005 empty-dataset" in done.stdout
    assert call("check", empty, "--allow-empty").returncode == 0


BUG = """
from provenance.rules import case, rule

@rule("XYZ001", at="datum", over=("model_input",), message="", evidence="ours", good=[case()], bad=[case()])
def broken_rule(batch, field):
    '''A rule with a bug.

    It divides by zero.
    '''
    return 1 / 0

from provenance.cli import main
main()
"""


def test_a_bug_is_no_finding(valid: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUG, "check", *valid],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "ZeroDivisionError" in done.stderr
    assert "please report it" in done.stderr.splitlines()[-1]


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    pipe = tmp_path / "datums.jsonl"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*PROVENANCE, "check", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    with pipe.open("wb"):  # waits until the command has opened it too
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    arguments = write(tmp_path, positive(1))
    data = Path(arguments[0])
    data.write_bytes(data.read_bytes() * 5_000)
    process = subprocess.Popen(
        [*PROVENANCE, "check", *arguments, "--format", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    assert json.loads(first)["code"] in registry()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=120) == 141


@pytest.mark.parametrize("arguments", [["--version"], ["rules"]])
def test_a_full_disk_gets_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROVENANCE, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "error: no space left on device\n")


def test_closed_streams_change_no_exit_code(valid: list[str], invalid: list[str]) -> None:
    for arguments, code in ((valid, 0), (invalid, 1), (["nowhere.jsonl"], 2)):
        command = shlex.join([*PROVENANCE, "check", *arguments])
        done = subprocess.run(f"{command} >&- 2>&-", shell=True, env=environment(), check=False)
        assert done.returncode == code


# --- what is checked ------------------------------------------------------------------------------------


def test_stdin(valid: list[str], invalid: list[str]) -> None:
    assert run("check", "-", *valid[1:], stdin=Path(valid[0]).read_bytes()).returncode == 0
    done = run("check", "-", *invalid[1:], stdin=Path(invalid[0]).read_bytes())
    assert done.returncode == 1
    assert "VAL002" in done.stdout


def test_patterns_and_several_files(tmp_path: Path, valid: list[str]) -> None:
    lines = Path(valid[0]).read_text().splitlines(keepends=True)
    for i, line in enumerate(lines):
        (tmp_path / f"part-{i}.jsonl").write_text(line)
    assert (
        call("check", tmp_path / "part-*.jsonl", *valid[1:])
        .stdout.splitlines()[-1]
        .startswith("valid: 3 datums")
    )
    both = call("check", tmp_path / "part-0.jsonl", tmp_path / "part-2.jsonl", *valid[1:])
    assert both.stdout.splitlines()[-1].startswith("valid: 2 datums")


def test_without_ledger_and_session_the_report_says_so(valid: list[str]) -> None:
    done = call("check", valid[0])
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "not checked"
    assert any("ledger" in line and "SEQ001, " in line for line in lines)
    assert any("SES001" in line for line in lines)
    assert " not checked" in lines[-1]


def test_select_and_ignore(invalid: list[str]) -> None:
    def broken(*options: str) -> set[str]:
        return set(json.loads(call("check", *invalid, "--format", "json", *options).stdout)["counts"])

    assert broken() >= {"VAL002", "ADV004"}
    assert broken("--select", "ADV") == {"ADV004"}
    assert broken("--select", "ADV,val002") == {"ADV004", "VAL002"}
    assert broken("--ignore", "VAL002", "--ignore", "ADV004").isdisjoint({"VAL002", "ADV004"})


def test_parameters(valid: list[str]) -> None:
    for option, code in (("--vocab-size", "TOK001"), ("--max-tokens", "INP009")):
        assert call("check", *valid, option, "1000").returncode == 0
        done = call("check", *valid, option, "4")
        assert done.returncode == 1
        assert code in done.stdout


@pytest.mark.parametrize(
    ("value", "code"),
    [("0.02", None), ("-1", "CFG001"), ("NaN", "CFG001"), ("true", "CFG001"), ('"0.1"', "CFG001")],
)
def test_loss_config(value: str, code: str | None, valid: list[str]) -> None:
    done = call("check", *valid, "--loss-config", f"kl_coeff={value}")
    assert done.returncode == (0 if code is None else 1)
    assert code is None or code in done.stdout


def test_a_contract_file(valid: list[str], tmp_path: Path) -> None:
    config = tmp_path / "contract.toml"
    config.write_text('extends = "stable_reinforce"\n[parameters]\nmax_tokens = 4\n')
    done = call("check", *valid, "--config", config)
    assert done.returncode == 1
    assert "INP009" in done.stdout
    refused = call("check", *valid, "--config", config, "--loss", "ppo")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "loss 'ppo' contradicts" in refused.stderr


# --- JSON -----------------------------------------------------------------------------------------------


def test_json_counts_exactly_and_shows_the_first(invalid: list[str]) -> None:
    done = call("check", *invalid, "--format", "json", "--max-examples", "5")
    assert (done.returncode, done.stderr) == (1, "")
    report = json.loads(done.stdout)
    assert report["valid"] is False
    assert (report["datums"], report["positions"], report["bad_datums"]) == (30, 150, 30)
    assert report["counts"]["VAL002"] == {"datums": 30, "violations": 60, "elements": 90}
    shown = Counter(violation["code"] for violation in report["violations"])
    assert shown == {code: min(5, count["violations"]) for code, count in report["counts"].items()}
    assert report["session"] == SESSION


def test_jsonl_holds_every_violation(invalid: list[str]) -> None:
    done = call("check", *invalid, "--format", "jsonl", "-q")
    assert (done.returncode, done.stderr) == (1, "")
    streamed = [json.loads(line) for line in done.stdout.splitlines()]
    whole = json.loads(call("check", *invalid, "--format", "json", "--max-examples", "1000").stdout)
    assert Counter(v["code"] for v in streamed) == {c: n["violations"] for c, n in whole["counts"].items()}
    key = [json.dumps(v, sort_keys=True) for v in streamed]
    assert sorted(key) == sorted(json.dumps(v, sort_keys=True) for v in whole["violations"])


def test_jsonl_reports_what_is_found_before_the_end(tmp_path: Path) -> None:
    ledger = write_lines(tmp_path / "sequences.jsonl", [{"sequence_id": 1}])
    process = subprocess.Popen(
        [*PROVENANCE, "check", "-", "--ledger", str(ledger), "--format", "jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["code"] == "FMT004"  # in the ledger; stdin is still open
    process.stdin.close()
    assert json.loads(process.stdout.readline())["code"] == "FMT005"
    process.stdout.close()
    assert process.wait(timeout=60) == 1


def test_jsonl_exit_codes(valid: list[str], warned: list[str]) -> None:
    done = call("check", *valid, "--format", "jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    assert call("check", *warned, "--format", "jsonl").returncode == 0
    assert call("check", *warned, "--format", "jsonl", "--fail-on", "warning").returncode == 1


def test_jsonl_says_on_stderr_what_a_report_would(valid: list[str], tmp_path: Path) -> None:
    with Path(valid[0]).open("a") as file:
        file.write("no JSON\n")
    options = ["--select", "SEQ003,SES001", "--format", "jsonl", "--write-good", tmp_path / "good.jsonl"]
    done = call("check", valid[0], *options)
    assert (done.returncode, done.stdout) == (0, "")
    reasons = [
        "no ledger of sampled sequences given: SEQ003, SES001",
        "no error in this contract; 1 datum without a shape that other rules could look at: FMT001",
    ]
    expected = [f"note: not checked: {reason}" for reason in reasons]
    assert done.stderr.splitlines() == [*expected, f"note: 4 datums written to {options[-1]}"]
    assert call("check", valid[0], *options, "-q").stderr == ""


def test_a_long_id_leaves_room_for_the_message(tmp_path: Path) -> None:
    made, long = positive(1), "s" * 300_000
    datums, sequences = json.loads(json.dumps([made.datums, []]).replace('"s:', f'"{long}'))
    data = write_lines(tmp_path / "d.jsonl", datums)
    ledger = write_lines(tmp_path / "s.jsonl", sequences)
    arguments = ["check", data, "--ledger", ledger, "--session", SESSION, "--now", NOW, "--format"]
    for line in call(*arguments, "jsonl").stdout.splitlines():
        violation = json.loads(line)
        assert len(violation["message"]) < 600
        assert violation["sequence_id"] is None or len(violation["sequence_id"]) > 300_000
    shown = call(*arguments, "text").stdout
    assert re.search(r"s{199}\.\.\. \(300,003 characters\) is not in the ledger$", shown, re.MULTILINE)
    for format_ in ("text", "sarif", "junit", "github"):
        assert len(call(*arguments, format_).stdout) < 300_000


# --- --statistics and hints -----------------------------------------------------------------------------


def test_statistics(invalid: list[str]) -> None:
    done = call("check", *invalid, "--statistics")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "violations  datums  severity  rule",
        "        60      30  error     VAL002 positive-logprob",
        "        30      30  warning   ADV004 large-advantage",
    ]
    assert lines[-1].startswith("invalid: 30 of 30 datums have errors, ")
    counts = json.loads(call("check", *invalid, "--statistics", "--format", "json").stdout)
    assert [(c["code"], c["violations"]) for c in counts[:2]] == [("VAL002", 60), ("ADV004", 30)]
    refused = call("check", *invalid, "--statistics", "--format", "jsonl")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--statistics is for --format text and json, not jsonl" in refused.stderr


def hints(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("the first of these: ")]


def test_the_hint_is_a_command_that_shows_the_first_violation(invalid: list[str], tmp_path: Path) -> None:
    data = tmp_path / "it's here.jsonl"
    data.write_bytes(Path(invalid[0]).read_bytes())
    done = call("check", data, *invalid[1:], "--loss", "stable_reinforce")
    (hint,) = hints(done)
    program, *arguments = shlex.split(hint.partition(": ")[2])
    assert (program, arguments[:4]) == ("provenance", ["inspect", str(data), "--line", "1"])
    shown = call(*arguments)
    assert shown.returncode == 0
    assert "error VAL002 positive-logprob: 2 violations in 1 datum, 3 positions" in shown.stdout
    # Without an option for the ledger, SEQ rules would be listed as not checked.
    assert "no ledger" not in shown.stdout
    assert "no training session" not in shown.stdout


def test_the_hint_about_good_datums(tmp_path: Path) -> None:
    some = write(tmp_path, case({"datums.1.loss_fn_inputs.logprobs.data.2": 0.5}, copies=3))
    hint = "the 2 good datums alone: --write-good PATH\n"
    assert hint in call("check", *some).stdout
    assert hint not in call("check", *some, "--write-good", tmp_path / "good.jsonl").stdout
    targets = ["--write-good", tmp_path / "good.jsonl", "--write-bad", tmp_path / "bad.jsonl"]
    written = call("check", *some, *targets).stderr
    assert f"note: 2 datums written to {targets[1]}\nnote: 1 datum written to {targets[3]}\n" == written
    assert call("check", *some, *targets, "--no-progress").stderr == ""
    provenance.write_datums(case(copies=2).datums, tmp_path / "others.parquet")
    for refused in (
        call("check", *write(tmp_path, positive(2))),  # there is none
        run("check", "-", *some[1:], stdin=Path(some[0]).read_bytes()),
        call("check", *some, tmp_path / "others.parquet"),
    ):
        assert refused.returncode == 1
        assert "--write-good" not in refused.stdout


HINTED = {
    "a project": (["--isolated"], "VAL002"),
    "a vocabulary": (["--vocab-size", "4"], "TOK001"),
    "a length": (["--max-tokens", "4"], "INP009"),
    "a long line": (["--max-line", "99999999"], "VAL002"),
}


@pytest.mark.parametrize("name", HINTED)
def test_the_hint_has_the_options_that_change_what_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.provenance]\nseverity.VAL = "off"\n')
    options, code = HINTED[name]
    if "--isolated" not in options:
        (tmp_path / "c.toml").write_text('extends = "stable_reinforce"\n')
        options = [*options, "--config", "c.toml"]
    data = write(tmp_path, positive(1))
    Path(data[0]).rename("-dash.jsonl")
    (hint,) = hints(call("check", *data[1:], *options, "--select", code, "--", "-dash.jsonl"))
    assert all(option in hint for option in options)
    shown = call(*shlex.split(hint.partition(": provenance ")[2]))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"error {code} " in shown.stdout


def test_no_hint_where_none_helps(valid: list[str], invalid: list[str]) -> None:
    assert hints(call("check", *valid)) == []
    assert hints(call("check", *invalid, "--max-examples", "0")) == []
    done = run("check", "-", *invalid[1:], stdin=Path(invalid[0]).read_bytes())
    assert "VAL002" in done.stdout
    assert hints(done) == []
    again = write_lines(Path(valid[0]).with_name("again.jsonl"), case().datums)
    done = call("check", valid[0], again, *valid[1:], "--select", "SEQ010")
    assert f"{again}: line 1: " in done.stdout  # which it is no more without the file before it
    assert hints(done) == []
    write_lines(Path(valid[2]), [{"sequence_id": 1}])  # a fault of the ledger's file
    done = call("check", *valid, "--select", "FMT")
    assert "FMT004" in done.stdout
    assert hints(done) == []


# --- --output -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["text", "json", "jsonl"])
def test_output_to_a_file(format_: str, invalid: list[str], tmp_path: Path) -> None:
    path = tmp_path / "report"
    done = call("check", *invalid, "--format", format_, "--output", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"(note: not checked: [^\n]+\n)*note: invalid: [^\n]+\n", done.stderr)
    assert path.read_text() == call("check", *invalid, "--format", format_, "--output", "-").stdout
    assert call("check", *invalid, "--output", path, "-q").stderr == ""
    assert names(tmp_path) == ["invalid", "report"]


def test_a_failed_run_leaves_the_report_before_it(valid: list[str], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("before")
    assert call("check", valid[0], "nowhere.jsonl", "--format", "jsonl", "--output", path).returncode == 2
    assert path.read_text() == "before"
    assert names(tmp_path) == ["report.json", "valid"]


def test_output_keeps_links_modes_and_pipes(valid: list[str], tmp_path: Path) -> None:
    path, link = tmp_path / "report.txt", tmp_path / "link"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    assert call("check", *valid, "--output", link).returncode == 0
    assert link.is_symlink()
    assert path.read_text().splitlines()[-1].startswith("valid: ")
    assert path.stat().st_mode & 0o777 == 0o640
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert call("check", *valid, "--output", pipe).returncode == 0
    assert os.read(reader, 65536) == path.read_bytes()
    os.close(reader)
    assert pipe.is_fifo()


# --- terminals ------------------------------------------------------------------------------------------


def test_a_terminal_gets_colour(invalid: list[str]) -> None:
    code, seen = on_terminal(["check", *invalid], stream="stdout", columns=500)
    assert code == 1
    assert COLOUR.search(seen)
    assert COLOUR.sub("", seen) == run("check", *invalid).stdout


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour(env: dict[str, str], invalid: list[str]) -> None:
    assert "\x1b" not in on_terminal(["check", *invalid], stream="stdout", **env)[1]


@pytest.mark.parametrize("arguments", [["check"], ["rules"], ["explain", "SPN003", "SEQ003"]])
def test_a_narrow_terminal_breaks_no_word(arguments: list[str], invalid: list[str]) -> None:
    files = invalid if arguments == ["check"] else []
    _, seen = on_terminal([*arguments, *files], stream="stdout", columns=40)
    lines = COLOUR.sub("", seen).splitlines()
    wide = [line for line in lines if len(line) > 40 and " " in line.strip()]
    assert all(line.startswith("  provenance ") for line in wide)  # a command, to be copied as it stands
    assert any(re.search(r"\b[A-Z]{3}\d{3}\b", line) for line in lines)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Takes more than a second to check."""
    arguments = write(tmp_path_factory.mktemp("large"), case())
    data = Path(arguments[0])
    data.write_bytes(data.read_bytes() * 40_000)
    return [data.as_posix(), "--ignore", "SEQ010", *arguments[1:]]


def test_progress_is_for_terminals(large: list[str]) -> None:
    code, seen = on_terminal(["check", *large], stream="stderr", columns=120)
    assert code == 0
    assert "datums, 0 violations" in seen
    assert run("check", *large).stderr == ""


@pytest.mark.parametrize("option", ["--no-progress", "-q"])
def test_no_progress_on_request(option: str, large: list[str]) -> None:
    assert on_terminal(["check", *large, option], stream="stderr") == (0, "")


def test_a_short_check_shows_no_progress(valid: list[str]) -> None:
    assert on_terminal(["check", *valid], stream="stderr") == (0, "")


# --- rules and explain ----------------------------------------------------------------------------------


def test_rules_lists_every_rule() -> None:
    lines = call("rules").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[r.code, r.name] for _, r in sorted(registry().items())]


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_rules_of_a_loss(loss: str) -> None:
    done = call("rules", "--loss", loss, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = {rule["code"]: rule["severity"] for rule in json.loads(done.stdout)}
    declared = {code: rule.severity_for(LOSSES[loss]).value for code, rule in registry().items()}
    assert listed == {code: severity for code, severity in declared.items() if severity != "off"}


@pytest.mark.parametrize("name", ["VAL002", "val002", "positive-logprob", "Positive_Logprob"])
def test_explain_finds_a_rule_by_code_or_name(name: str) -> None:
    done = call("explain", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("VAL002 positive-logprob\n")


def test_explain_as_json() -> None:
    one = json.loads(call("explain", "VAL001", "--format", "json").stdout)
    assert one["code"] == "VAL001"
    assert one["severity"]["stable_reinforce"] == "error"
    two = json.loads(call("explain", "VAL001", "SPN003", "--format", "json").stdout)
    assert [rule["code"] for rule in two] == ["VAL001", "SPN003"]
    assert two[0] == one


@pytest.mark.parametrize("code", sorted(registry()))
def test_every_page_shows_what_the_rule_says(code: str) -> None:
    from provenance.explain import explain, rule_to_dict

    rule = registry()[code]
    page = rule_to_dict(rule)
    assert all(example["violations"] == [] for example in page["good"])
    assert all(example["violations"] for example in page["bad"])
    text = explain(rule)
    for example in page["bad"]:
        assert f"{code} {rule.name}: {example['violations'][0]['message']}" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert all(len(line) <= 60 or " " not in line.strip() for line in explain(rule, width=60).split("\n"))


@pytest.mark.parametrize("read", ["data", "ledger", "config"])
def test_a_report_does_not_take_the_place_of_what_is_read(read: str, tmp_path: Path) -> None:
    files = {"data": tmp_path / "d.jsonl", "ledger": tmp_path / "s.jsonl", "config": tmp_path / "c.toml"}
    provenance.write_datums(list(case().datums), files["data"])
    provenance.write_sequences(list(case().sequences), files["ledger"])
    files["config"].write_text('extends = "stable_reinforce"\n', encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    options = ["--ledger", files["ledger"], "--config", files["config"]]
    done = run("check", files["data"], *options, "--output", files[read])
    assert done.returncode == 2
    assert "is read or written as something else too: name another --output" in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
