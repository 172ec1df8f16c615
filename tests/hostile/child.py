"""One process that reads hostile files one after the other, and says so before and after each.

``python -m hostile.child MODULE READERS FIRST LAST FOLDER`` writes ``number`` before a file and ``number peak
outcome`` after it: what is without an outcome when the process ends has ended it. The readers, parted by
commas, take turns; MODULE holds the table of them.
"""

from __future__ import annotations

import faulthandler
import importlib
import resource
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from random import Random

from hostile.corpus import CASES
from hostile.readers import Reader

#: Address space beyond what the libraries take, and memory that one file may cost.
_SPACE = 3 << 30
_PEAK = 400 << 20
_NOTED = 64 << 20
#: Of computing that a file may take.
_SECONDS = 20.0


def main(module: str, names: list[str], first: int, last: int, folder: Path) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)  # and then it ends the process
    warnings.simplefilter("error")
    sys.set_int_max_str_digits(0)
    table: dict[str, Reader] = importlib.import_module(module).READERS
    turns = [(name, table[name]) for name in names]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _SPACE, size + _SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, min(first + len(turns), last)):
        _say(number)
        with suppress(Exception):
            _read(*turns[number % len(turns)], number, folder)  # loads what is loaded on use
    _forget_peak()
    base = _peak()
    for number in range(first, last):
        name, reader = turns[number % len(turns)]
        _say(number)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        try:
            outcome = _read(name, reader, number, folder)
        except Exception:  # noqa: BLE001 - whatever it is, it is the fault that is looked for
            outcome = f"fault {name}: {_last_words()}"
        peak = _peak()
        if peak - base > _PEAK and not outcome.startswith("fault"):
            outcome = f"fault {name}: took {peak - base >> 20} MiB"
        if outcome.startswith("fault"):
            with suppress(FileNotFoundError):  # it could not even be made
                (folder / f"hostile{reader.suffix}").rename(folder / f"{name}-{number}{reader.suffix}")
        if peak > base + _NOTED:
            _forget_peak()  # so that the next one is that of one file
        _say(number, peak >> 20, outcome)


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def _read(name: str, reader: Reader, number: int, folder: Path) -> str:
    rng = Random(f"{name} {number}")
    case = rng.randrange(len(CASES))
    path = folder / f"hostile{reader.suffix}"
    path.unlink(missing_ok=True)
    path.write_bytes(reader.make(case, rng))
    return reader.read(path, case, rng)


def _last_words() -> str:
    """The exception that is handled and where it was raised, the innermost place first."""
    kind, error, trace = sys.exc_info()
    told = f"{kind.__name__ if kind else ''}: {error}"[:500].replace("\n", " ")
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(trace)[:-6:-1]]
    return " < ".join([told, *places])


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
