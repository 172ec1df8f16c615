"""Read many hostile files: ``python -m hostile READER|all N FIRST [FOLDER]`` in ``tests/``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hostile.readers import READERS
from hostile.runner import run


def main(reader: str, count: int, first: int, folder: Path) -> int:
    found = 0
    for name in READERS if reader == "all" else (reader,):
        result = run([name], count, first, folder)
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()
        found += len(result.faults)
    return int(found > 0)


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("all", *READERS):
        sys.exit(f"usage: python -m hostile READER|all N FIRST [FOLDER]; readers are {', '.join(READERS)}")
    kept = Path(sys.argv[4]) if len(sys.argv) > 4 else Path(tempfile.mkdtemp(prefix="hostile-"))
    kept.mkdir(exist_ok=True)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), kept))
