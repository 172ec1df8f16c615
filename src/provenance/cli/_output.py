"""Where a report goes: stdout, or a file that appears when it is complete."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from provenance.errors import WriteError
from provenance.formats._io import replacing

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
    if Path(path).exists() and not Path(path).is_file():
        with Path(path).open("w", encoding="utf-8", errors="backslashreplace") as stream:
            yield stream
        return
    with (
        replacing(path) as temporary,
        Path(temporary).open("w", encoding="utf-8", errors="backslashreplace") as stream,
    ):
        yield stream
