"""How much longer than a bare interpreter do `import provenance` and `provenance --help` take?

The runs alternate, so that a busy machine slows all of them alike. Exit code 1: the target is missed, or a
heavy library is loaded.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 15
TARGET = 0.150
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import provenance": ["-c", "import provenance"],
    "provenance --help": ["-m", "provenance", "--help"],
}
HEAVY = {
    "import provenance": ("hypothesis", "pyarrow", "rich", "sqlalchemy", "tinker", "torch"),
    "provenance --help": (
        "hypothesis",
        "numpy",
        "pyarrow",
        "pydantic",
        "rich",
        "sqlalchemy",
        "tinker",
        "torch",
    ),
}
# An installed package has its bytecode; a checkout under PYTHONDONTWRITEBYTECODE has not.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )


def modules_of(arguments: list[str]) -> set[str]:
    """Top-level modules that a run loads, from the interpreter's own log."""
    lines = run(["-X", "importtime", *arguments]).stderr.splitlines()
    return {
        line.rpartition("|")[2].strip().partition(".")[0] for line in lines if line.startswith("import time:")
    }


def medians() -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            run(arguments)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    with tempfile.TemporaryDirectory() as cache:
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = cache
        for arguments in COMMANDS.values():
            run(arguments)
        return report()


def report() -> int:
    bare, *rest = medians().items()
    print(f"{bare[0]:<20} {bare[1] * 1e3:6.1f} ms   (median of {RUNS})")
    failed = False
    for name, seconds in rest:
        heavy = sorted(modules_of(COMMANDS[name]) & set(HEAVY[name]))
        more = seconds - bare[1]
        late = more > TARGET
        failed |= late or bool(heavy)
        print(
            f"{name:<20} {seconds * 1e3:6.1f} ms   {more * 1e3:+.1f} ms, {seconds / bare[1]:.1f}x"
            f"   target {TARGET * 1e3:+.0f} ms: {'missed' if late else 'met'}"
            f"   heavy modules: {', '.join(heavy) or 'none'}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
