"""Where a report goes: stdout, or a file that appears when it is complete."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from provenance.errors import WriteError

__all__ = ["open_output"]


@contextmanager
def open_output(path: str | None) -> Iterator[TextIO]:
    """Stdout for None and "-"; else a temporary file beside the path that replaces it at the end.

    A run that fails leaves an earlier report as it was. Devices and pipes are written to directly: they
    must not be replaced by a file.
    """
    if path is None or path == "-":
        yield sys.stdout
        return
    try:
        with _open_file(path) as stream:
            yield stream
    except OSError as error:
        # What the system says about a full disk names no file.
        raise WriteError(path, (error.strerror or str(error)).lower()) from error


@contextmanager
def _open_file(path: str) -> Iterator[TextIO]:
    target = Path(path)
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        return
    # The file that a link names is replaced, not the link.
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(target.parent))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
