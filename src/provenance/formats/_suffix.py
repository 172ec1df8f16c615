"""What a file's name says about what is in it."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Final

from provenance.errors import ReadError, WriteError
from provenance.formats._io import GZIP, STDIN, ZSTD
from provenance.ledger.place import is_database

_LINES: Final = (".jsonl", ".ndjson", ".json")
_ARROW: Final = (".parquet", ".arrow", ".feather", ".ipc", ".arrows")
_PACKED: Final = (*GZIP, *ZSTD)
_REQUESTS: Final = (".pb", *(f".pb{end}" for end in _PACKED))
#: What a file's name may end in.
SUFFIXES: Final = (*_LINES, *(line + end for line in _LINES for end in _PACKED), *_ARROW, *_REQUESTS)


def is_request(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file is a training request of the SDK by its name."""
    return os.fspath(path).lower().endswith(_REQUESTS)


def is_arrow(path: str | os.PathLike[str], kind: type[ReadError | WriteError] = ReadError) -> bool:
    """Tell whether the file is Parquet or Arrow IPC by its name, and not lines of JSON.

    Raises:
        ReadError: for a suffix that is neither, and for a directory; or the ``kind`` that is asked for.
    """
    name = os.fspath(path)
    if name == STDIN:
        return False
    if "\0" in name:
        raise kind(name, "a NUL in the name, which no file can have")
    if os.path.isdir(name):  # noqa: PTH112 - says no of what is no path, where Path raises
        pattern = " or a pattern such as 'DIR/*.jsonl'" if kind is ReadError else ""
        raise kind(name, f"a directory, expected a file{pattern}")
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] in _ARROW:
        return True
    if is_request(name):
        raise kind(name, "a training request, whose datums can be checked, inspected and converted only")
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    if suffixes and suffixes[-1] in _LINES:
        return False
    if is_database(name):
        raise kind(name, "a ledger, and not of rows: provenance ledger export writes it to a file")
    known = f"{', '.join(_LINES)} (also with {', '.join(_PACKED)}), {', '.join(_ARROW)}, .pb"
    raise kind(name, f"unknown suffix, expected one of {known}")
