"""Asking a program: the mutated file in place of {}, and its exit status for an answer."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from provenance.errors import SchemaError, ValidationError, WriteError
from provenance.formats import is_request
from provenance.fuzz._judge import Answer, Judge, Judgement
from provenance.fuzz._load import Unbroken
from provenance.mutations import Dataset, Mutation

_DATA: Final = "{}"
_LEDGER: Final = "{ledger}"
#: What a shell says where a command is not executable, or not there.
_NOT_STARTED: Final = (126, 127)
#: And where a signal ended one: this, and the signal's number.
_SIGNALLED: Final = 128
#: Bytes of a command's output that are looked at, from its end.
_TAIL: Final = 4096


class _Ran(NamedTuple):
    """How a command ended."""

    answer: Answer
    by: str
    said: str
    """The last line that it wrote."""
    shown: bytes
    """Digest of the files that it was given."""


def by_command(command: str, unbroken: Unbroken, timeout: float) -> Judge:
    """Ask a command of the shell: exit status 0 accepts a dataset, any other refuses it.

    Raises:
        SchemaError: it takes no data, or a ledger that is not there, or cannot be started.
        ValidationError: it refuses the unbroken data, or comes to no end with them.
        WriteError: the data cannot be written in their format.
    """
    _refuse(command, unbroken)
    first = _run(command, unbroken, unbroken.dataset, timeout)
    said = f": {first.said}" if first.said else ""
    if first.by in [f"exit {status}" for status in _NOT_STARTED]:
        raise SchemaError(f"{command!r} cannot be started ({first.by}){said}")
    if first.answer != Answer.ACCEPTED:
        raise ValidationError(
            f"{command!r} does not accept the unbroken data ({first.by}), expected exit 0{said}"
        )

    def judge(dataset: Dataset, mutation: Mutation) -> Judgement:  # noqa: ARG001 - Judge's signature
        try:
            ran = _run(command, unbroken, dataset, timeout, known=first.shown)
        except WriteError as error:
            return Judgement(Answer.UNASKED, note=f"{Path(error.file).suffix} cannot hold it")
        if ran.answer == Answer.UNASKED:
            return Judgement(Answer.UNASKED, note=_hidden(command, unbroken.dataset, dataset))
        return Judgement(ran.answer, (ran.by,) if ran.by else ())

    return judge


def _refuse(command: str, unbroken: Unbroken) -> None:
    if _DATA not in command:
        raise SchemaError(f"{command!r} takes no data: put {_DATA} where the name of the file belongs")
    if _LEDGER in command and unbroken.dataset.sequences is None:
        raise SchemaError(f"{command!r} takes a ledger, and none was given")
    if is_request(unbroken.name):
        raise SchemaError(
            f"{unbroken.name!r} is a training request, which cannot be written for a command: provenance "
            "convert makes a file of datums of it"
        )


def _hidden(command: str, before: Dataset, after: Dataset) -> str:
    """Why the files are those of the unbroken data."""
    if after.sequences != before.sequences and _LEDGER not in command:
        return f"in the ledger, and the command takes no {_LEDGER}"
    if (after.datums, after.sequences) == (before.datums, before.sequences):
        return "in the options, the session or the parameters, which are in no file"
    return "the format of the files does not show it"


def _run(
    command: str, unbroken: Unbroken, dataset: Dataset, timeout: float, *, known: bytes | None = None
) -> _Ran:
    """Write a dataset and run the command, unless the files are those of a known digest."""
    with tempfile.TemporaryDirectory(prefix="provenance-fuzz-") as folder:
        data, ledger = Path(folder, "data", unbroken.name), Path(folder, "ledger", unbroken.ledger_name)
        data.parent.mkdir()
        ledger.parent.mkdir()
        taken = _LEDGER in command
        dataset.write(data, ledger if taken else None)
        shown = _digest(data, *([ledger] if taken else []))
        if shown == known:
            return _Ran(Answer.UNASKED, "", "", shown)
        places = {_DATA: shlex.quote(str(data)), _LEDGER: shlex.quote(str(ledger))}
        filled = re.sub(r"\{(ledger)?\}", lambda found: places[found.group()], command)
        output = Path(folder, "output")
        status = _status(filled, output, timeout)
        answer, by = _meaning(status, timeout)
        return _Ran(answer, by, _last_line(output, folder), shown)


def _digest(*files: Path) -> bytes:
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()


def _status(command: str, output: Path, timeout: float) -> int | None:
    """The exit status, negative for a signal; None where it took too long."""
    with output.open("wb") as stream:
        # A session of its own, so that what the command started ends with it.
        process = subprocess.Popen(  # noqa: S602 - the command is the user's own, given to be run
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _kill(process)
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command, and where the system has groups of processes also what it started and left running."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _meaning(status: int | None, timeout: float) -> tuple[Answer, str]:
    if status is None:
        return Answer.NONE, f"no end in {timeout:g} s"
    if status in _NOT_STARTED:
        return Answer.NONE, f"exit {status}"
    number = -status if status < 0 else status - _SIGNALLED
    if number in {each.value for each in signal.Signals}:
        return Answer.NONE, f"killed by {signal.Signals(number).name}"
    return (Answer.REFUSED, f"exit {status}") if status else (Answer.ACCEPTED, "")


def _last_line(output: Path, folder: str) -> str:
    """The last line of an output, without the names of folders that are gone when it is read."""
    text = output.read_bytes()[-_TAIL:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace(f"{folder}/data/", "").replace(f"{folder}/ledger/", "") if lines else ""
