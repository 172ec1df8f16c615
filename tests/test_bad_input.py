"""What is broken, missing, too large or in the way: one line, exit code 2, and nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_cli import PROVENANCE, call, environment, names, run

import provenance
from provenance.formats import SUFFIXES
from provenance.rules import case

VALID = case()
LINE = json.dumps(VALID.datums[0]).encode() + b"\n"
WITHOUT_LEDGER = ("--loss", "cross_entropy", "--select", "FMT")


def assert_refused(done: subprocess.CompletedProcess[str], message: str = "", code: int = 2) -> None:
    """One line on stderr, and no traceback."""
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert done.stderr.isprintable() or done.stderr[:-1].isprintable()


def datums(folder: Path, suffix: str, copies: int = 1) -> Path:
    path = folder / f"datums{suffix}"
    provenance.write_datums(VALID.datums * copies, path)
    return path


def commands(source: Path | str, folder: Path, target: str = "out.jsonl") -> dict[str, list[str | Path]]:
    """The ways to read a file."""
    return {
        "check": ["check", source, *WITHOUT_LEDGER],
        "ledger": ["check", datums(folder, ".jsonl"), "--ledger", source],
        "convert": ["convert", source, folder / target],
    }


COMMANDS = ("check", "ledger", "convert")


# --- files ------------------------------------------------------------------------------------------------


def _cut(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = datums(folder, suffix, 500)
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * 2 // 3])
        return path

    return make


def _named(name: str, content: bytes = b"") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _directory(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).mkdir()
        return folder / name

    return make


UNREADABLE: dict[str, tuple[Callable[[Path], Path | str], str]] = {
    "missing": (lambda folder: folder / "missing.jsonl", "missing.jsonl: no such file or directory"),
    "missing parquet": (
        lambda folder: folder / "missing.parquet",
        "missing.parquet: no such file or directory",
    ),
    "missing folder": (lambda folder: folder / "no" / "a.jsonl.gz", "a.jsonl.gz: no such file or directory"),
    "no folder": (lambda folder: _named("file")(folder) / "a.jsonl", "a.jsonl: not a directory"),
    "directory": (_directory("folder"), "a directory, expected a file or a pattern such as 'DIR/*.jsonl'"),
    "directory of a name": (_directory("folder.parquet"), "a directory, expected a file"),
    "no suffix": (_named("datums"), "unknown suffix, expected one of .jsonl,"),
    "a table": (_named("datums.csv"), "unknown suffix, expected one of .jsonl,"),
    "half a parquet": (_cut(".parquet"), "datums.parquet: "),
    "half an arrow": (_cut(".arrow"), "datums.arrow: "),
    "half a stream": (_cut(".arrows"), "datums.arrows: "),
    "half a gzip": (_cut(".jsonl.gz"), "datums.jsonl.gz: "),
    "half a zstd": (_cut(".jsonl.zst"), "datums.jsonl.zst: "),
    "empty parquet": (_named("datums.parquet"), "datums.parquet: empty file"),
    "empty arrow": (_named("datums.arrow"), "datums.arrow: empty file"),
    "lines as parquet": (_named("datums.parquet", LINE), "neither Parquet nor Arrow IPC"),
    "lines as gzip": (_named("datums.jsonl.gz", LINE), "datums.jsonl.gz: "),
    "lines as zstd": (_named("datums.jsonl.zst", LINE), "datums.jsonl.zst: "),
    "NUL": (
        lambda folder: f"{folder}/a\0b.jsonl",
        "a\\x00b.jsonl: a NUL in the name, which no file can have",
    ),
    "NUL in a parquet": (lambda folder: f"{folder}/a\0b.parquet", "a\\x00b.parquet: a NUL in the name"),
    "a long name": (lambda folder: folder / ("a" * 300 + ".jsonl"), "file name too long"),
    "not UTF-8": (
        lambda folder: os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl"),
        "no such file or directory",
    ),
    "control characters": (lambda folder: folder / "a\n\x1b]31m.jsonl", "no such file or directory"),
}


# Half a file of datums is no ledger by its columns already.
@pytest.mark.parametrize(
    ("name", "command"),
    [(n, c) for n in UNREADABLE for c in COMMANDS if not (c == "ledger" and n.startswith("half"))],
)
def test_a_file_that_cannot_be_read(name: str, command: str, tmp_path: Path) -> None:
    make, message = UNREADABLE[name]
    folder = tmp_path / "in"
    folder.mkdir()
    source = make(folder)
    other = tmp_path / "out"
    other.mkdir()
    arguments = commands(source, other)[command]
    before = names(other)
    assert_refused(call(*arguments), message)
    assert names(other) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_bytes_under_every_suffix(suffix: str, command: str, tmp_path: Path) -> None:
    for seed in range(3):
        content = random.Random(seed).randbytes(3000)
        source = _named(f"random{suffix}", content)(tmp_path)
        arguments = commands(source, tmp_path)[command]
        before = names(tmp_path)
        done = call(*arguments)
        if suffix in (".jsonl", ".ndjson", ".json") and command != "convert":
            assert (done.returncode, done.stderr) == (1, "")
            assert "FMT002" in done.stdout
        else:
            assert_refused(done, f"random{suffix}: ")
        assert names(tmp_path) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_line_over_the_limit(command: str, tmp_path: Path) -> None:
    source = _named("long.jsonl", b" " * 2000 + b"\n")(tmp_path)
    arguments = commands(source, tmp_path)[command]
    done = call(*arguments, "--max-line", "1000")
    assert_refused(done, "line 1 has more than 1000 bytes, the limit for a line")
    assert "out.jsonl" not in names(tmp_path)


class _Touch:
    """Pickled, it creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("suffix", [".npy", ".jsonl", ".parquet", ".arrow", ".jsonl.zst"])
def test_nothing_is_unpickled(suffix: str, command: str, tmp_path: Path) -> None:
    array = np.array([_Touch(str(tmp_path / "unpickled"))], dtype=object)
    np.save(tmp_path / "array.npy", array, allow_pickle=True)
    source = (tmp_path / "array.npy").rename(tmp_path / f"array{suffix}")
    done = call(*commands(source, tmp_path)[command])
    assert done.returncode == (1 if suffix == ".jsonl" and command != "convert" else 2)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "unpickled").exists()
    assert "out.jsonl" not in names(tmp_path)
    pickle.loads(pickle.dumps(_Touch(str(tmp_path / "unpickled"))))
    assert (tmp_path / "unpickled").exists()  # had anybody unpickled it


def test_names_that_are_not_utf8_are_names(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    source, target = (os.fsdecode(folder + name) for name in (b"/\xff.jsonl", b"/\xfe.parquet"))
    Path(source).write_bytes(LINE)
    for arguments in (["check", source, *WITHOUT_LEDGER], ["convert", source, target]):
        done = call(*arguments)
        assert done.returncode == 0, done.stderr
    assert Path(target).stat().st_size


# --- memory -----------------------------------------------------------------------------------------------


# Not what `wait4` says: that counts the tests' own process, from which this one was forked.
PEAK = """
import sys
from provenance.cli import main
try:
    main(sys.argv[2:])
finally:
    with open("/proc/self/status") as status, open(sys.argv[1], "w") as file:
        file.write(next(line for line in status if line.startswith("VmHWM:")).split()[1])
"""


def peak_of(arguments: Sequence[str | Path], folder: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """The command, and the most memory that it had, in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(folder / "peak"), *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        check=False,
    )
    peak = int((folder / "peak").read_text()) // 1024
    (folder / "peak").unlink()
    return done, peak


def _packed(suffix: str, block: bytes, count: int, path: Path) -> None:
    if suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=9) as file:
            for _ in range(count):
                file.write(block)
    else:
        with pa.output_stream(str(path), compression="zstd") as file:
            for _ in range(count):
                file.write(block)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "convert"])
@pytest.mark.parametrize("what", ["one line", "blank lines", "blanks after a record"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_bomb_takes_no_memory(suffix: str, what: str, command: str, tmp_path: Path) -> None:
    path = tmp_path / f"bomb.jsonl{suffix}"
    block = (b" " if what == "one line" else b"\n") * (1 << 20)
    if what == "blanks after a record":
        block = LINE + block
    _packed(suffix, block, 1024 if what == "one line" else 128, path)
    assert path.stat().st_size < 4 << 20
    target = "out.jsonl" if what == "one line" else "out.parquet"
    done, peak = peak_of(commands(path, tmp_path, target)[command], tmp_path)
    if what == "blanks after a record":
        assert done.returncode == 0, done.stderr
    elif what == "one line" or command == "convert":
        assert_refused(done, "the limit for a line" if what == "one line" else "no record in it")
    else:
        assert done.returncode == 1
    # The line's limit is 64 MiB; what it gathers is held twice, beside 100 MiB of libraries.
    assert peak < 400, peak


# --- places that cannot be written ------------------------------------------------------------------------

TARGETS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow", ".arrows")


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """A file may have so many bytes, which fails as a full disk does."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
        signal.signal(signal.SIGXFSZ, handler)


def varied(folder: Path) -> Path:
    """Datums that no compression makes small."""
    numbers = np.random.default_rng(0).integers(0, 2**31, (40, 2000)).tolist()
    path = folder / "datums.jsonl"
    with path.open("w") as file:
        for tokens in numbers:
            inputs = {"target_tokens": {"data": tokens, "dtype": "int64"}}
            chunks = [{"type": "encoded_text", "tokens": tokens}]
            file.write(json.dumps({"model_input": {"chunks": chunks}, "loss_fn_inputs": inputs}) + "\n")
    return path


@pytest.mark.parametrize("suffix", TARGETS)
def test_a_full_disk_under_a_conversion(suffix: str, tmp_path: Path) -> None:
    source, target = varied(tmp_path), tmp_path / f"out{suffix}"
    target.write_bytes(b"an earlier file")
    with full_disk(100_000):
        done = call("convert", source, target)
    assert_refused(done, f"{target}: file too large")
    assert names(tmp_path) == ["datums.jsonl", target.name]
    assert target.read_bytes() == b"an earlier file"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".arrow"])
@pytest.mark.parametrize("option", ["--write-good", "--write-bad"])
def test_a_full_disk_under_a_split(option: str, suffix: str, tmp_path: Path) -> None:
    source = varied(tmp_path)
    if suffix != ".jsonl":
        provenance.convert(source, tmp_path / f"datums{suffix}")
        source = tmp_path / f"datums{suffix}"
    before = names(tmp_path)
    codes = "FMT" if option == "--write-good" else "INP"
    targets = ["--write-good", tmp_path / f"good{suffix}", "--write-bad", tmp_path / f"bad{suffix}"]
    with full_disk(100_000):
        done = call("check", source, "--loss", "cross_entropy", "--select", codes, *targets)
    place = tmp_path / f"{option[8:]}{suffix}"
    assert_refused(done, f"{place}: file too large")
    assert names(tmp_path) == before


def test_a_full_disk_under_a_report(tmp_path: Path) -> None:
    source = varied(tmp_path)
    output = ["--format", "jsonl", "--output", tmp_path / "report"]
    with full_disk(10_000):
        done = call("check", source, "--vocab-size", "2", *output)
    assert_refused(done, "ile too large")
    assert names(tmp_path) == ["datums.jsonl"]


@pytest.mark.parametrize("arguments", [["check", *WITHOUT_LEDGER], ["convert"]])
def test_a_full_device_as_standard_output(arguments: list[str], tmp_path: Path) -> None:
    source = varied(tmp_path)
    command = [*arguments, str(source)] + (["-"] if arguments == ["convert"] else [])
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROVENANCE, *command],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert_refused(subprocess.CompletedProcess(command, done.returncode, "", done.stderr), "no space left")


def test_devices_are_no_targets(tmp_path: Path) -> None:
    source = datums(tmp_path, ".jsonl")
    assert_refused(call("convert", source, "/dev/full"), "/dev/full: unknown suffix")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert_refused(call("convert", source, tmp_path / "pipe.jsonl"), "no regular file")
    assert (tmp_path / "pipe.jsonl").is_fifo()


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that everybody may enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user without rights: the tests' own, unless that is root, who has all."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_permission_denied(common: Path) -> None:
    closed = common / "closed"
    closed.mkdir(mode=0o555)
    sources = [datums(common, suffix) for suffix in (".jsonl", ".jsonl.gz", ".parquet")]
    for source in sources:
        source.chmod(0o000)
        for command in (["check", source], ["convert", source, common / "out.jsonl"]):
            call(*command)  # loads what the user without rights may not be able to
            (common / "out.jsonl").unlink(missing_ok=True)
            with without_rights():
                done = call(*command)
            assert_refused(done, f"{source}: permission denied")
    for source in sources:
        source.chmod(0o644)
    for target in ("out.jsonl", "out.parquet"):
        with without_rights():
            done = call("convert", sources[0], closed / target)
        assert_refused(done, f"{closed / target}: permission denied")
    targets = ["--write-good", common / "good.jsonl", "--write-bad", closed / "bad.jsonl"]
    with without_rights():
        done = call("check", sources[0], *WITHOUT_LEDGER, *targets)
    assert_refused(done, f"{closed / 'bad.jsonl'}: permission denied")
    assert names(common) == ["closed", "datums.jsonl", "datums.jsonl.gz", "datums.parquet"]
    assert names(closed) == []
    closed.chmod(0o755)


# --- pipes and signals ------------------------------------------------------------------------------------


def fed(pipe: Path, content: bytes) -> threading.Thread:
    """A thread that writes to a named pipe for as long as somebody reads."""

    def write() -> None:
        with suppress(BrokenPipeError):
            pipe.write_bytes(content)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.parametrize("command", ["check", "convert"])
def test_a_named_pipe_is_read_once(command: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    thread = fed(pipe, LINE)
    done = call(*commands(pipe, tmp_path)[command])
    thread.join()
    assert done.returncode == 0, done.stderr
    if command == "convert":
        assert (tmp_path / "out.jsonl").read_bytes() == LINE


@pytest.mark.parametrize("command", ["check", "convert"])
def test_a_named_pipe_is_no_parquet_file(command: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    content = datums(tmp_path, ".parquet").read_bytes()
    thread = fed(pipe, content)
    assert_refused(call(*commands(pipe, tmp_path)[command]), "pipe.parquet: ")
    thread.join()
    assert "out.jsonl" not in names(tmp_path)


@pytest.mark.parametrize("command", ["check", "convert"])
def test_standard_input_that_is_broken(command: str, tmp_path: Path) -> None:
    arguments = {
        "check": ["check", "-", *WITHOUT_LEDGER],
        "convert": ["convert", "-", tmp_path / "out.arrow"],
    }
    done = run(*arguments[command], stdin=LINE + b"\xff\n")
    if command == "check":
        assert done.returncode == 1
        assert "FMT002" in done.stdout
    else:
        assert_refused(done, "<stdin>: line 2: byte 0xff at column 1 is not UTF-8")
    assert names(tmp_path) == []


@pytest.mark.parametrize("source", [".jsonl", ".parquet"])
def test_a_reader_that_leaves(source: str, tmp_path: Path) -> None:
    path = varied(tmp_path)
    if source != ".jsonl":
        provenance.convert(path, tmp_path / f"datums{source}")
    writer = subprocess.Popen(
        [*PROVENANCE, "convert", str(tmp_path / f"datums{source}"), "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    assert json.loads(writer.stdout.readline())
    writer.stdout.close()
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait(timeout=60) == 141


def interrupted(arguments: Sequence[str | Path], folder: Path, stdin: bytes = b"") -> int:
    """Exit code of a command that gets Ctrl-C when it has a temporary file."""
    process = subprocess.Popen(
        [*PROVENANCE, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    deadline = time.monotonic() + 100
    while not any(name.endswith(".tmp") for name in names(folder)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)
    assert process.stderr.read() in (b"", b"\n")
    process.stderr.close()
    process.stdin.close()
    return code


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".parquet"])
def test_ctrl_c_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    target = tmp_path / f"out{suffix}"
    target.write_bytes(b"an earlier file")
    assert interrupted(["convert", "-", target], tmp_path, LINE * 2000) == 130
    assert names(tmp_path) == [target.name]
    assert target.read_bytes() == b"an earlier file"


@pytest.mark.slow
def test_ctrl_c_while_datums_are_sorted(tmp_path: Path) -> None:
    source = tmp_path / "datums.jsonl"
    lines = varied(tmp_path).read_bytes()
    source.write_bytes(lines * 40)
    targets = ["--write-good", tmp_path / "good.jsonl.gz", "--write-bad", tmp_path / "bad.jsonl.gz"]
    assert interrupted(["check", source, *WITHOUT_LEDGER, *targets], tmp_path) == 130
    assert names(tmp_path) == ["datums.jsonl"]
