"""Where a report goes: stdout, or a file that appears when it is complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from provenance.engine.sources import paths_of
from provenance.errors import WriteError
from provenance.formats._io import replacing

__all__ = ["open_output", "refuse_same_file"]


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


def refuse_same_file(output: str | None, *targets: str | None) -> None:
    """Refuse a report that would take the place of what is read, or of the datums that are written."""
    if output in (None, "-"):
        return
    used = paths_of([target for target in targets if target is not None and target != "-"]) or []
    if os.path.realpath(output) in map(os.path.realpath, used):
        raise click.UsageError(f"{output!r} is read or written as something else too: name another --output")
