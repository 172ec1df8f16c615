"""Files as lines of bytes: opening, decompressing and cutting them, and replacing a file as a whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np

from provenance.columns import Array
from provenance.errors import ReadError, WriteError
from provenance.formats._json import FOREIGN_MARKS

#: The name that stands for standard input.
STDIN: Final = "-"
BLOCK: Final = 1 << 20
#: Bytes a line may have.
MAX_LINE: Final = 64 << 20
GZIP: Final = (".gz",)
ZSTD: Final = (".zst", ".zstd")

_BOM: Final = b"\xef\xbb\xbf"

_BEFORE_COLON: Final = np.frombuffer(b'" \t\r', np.uint8)

OnBytes = Callable[[int], None]
# What decompressors raise for broken input; pyarrow's errors are OSError and ValueError.
_BROKEN: Final = (OSError, EOFError, ValueError, zlib.error)


class Line(NamedTuple):
    """A line that is not blank."""

    number: int
    """Physical line, from 1."""
    data: bytes
    """The line without its newline."""
    keys: int
    """Colons that may follow a key: no less than the number of keys of all objects in the line."""


def read_lines(
    path: str, *, max_line: int = MAX_LINE, on_bytes: OnBytes | None = None, block: int = BLOCK
) -> Iterator[Line]:
    """The lines of a file, which is read in blocks; blank lines and a byte order mark are left out.

    A file that starts with the mark of UTF-16 or UTF-32 yields that mark as its only line.

    Raises:
        ReadError: for a file that cannot be opened or decompressed, or a line longer than ``max_line`` bytes.
    """
    number, size = 1, 0
    rest: list[bytes] = []  # the start of a line whose end was not read yet
    for data in read_blocks(path, on_bytes, block):
        if number == 1 and size < 4:
            mark = _foreign_mark(b"".join(rest) + data[:4])
            if mark is not None:
                yield Line(1, mark, 0)
                return
        cut = data.rfind(b"\n") + 1
        if cut:
            whole = b"".join((*rest, memoryview(data)[:cut]))
            lines, number = _cut(whole, number, path, max_line)
            yield from lines
            rest, size = [], 0
        rest.append(data[cut:])
        size += len(data) - cut
        if size > max_line:
            raise _too_long(path, number, max_line)
    lines, number = _cut(b"".join(rest) + b"\n", number, path, max_line)
    yield from lines


def _foreign_mark(start: bytes) -> bytes | None:
    # The longer marks come first: UTF-16's is the start of one of UTF-32's.
    return next((mark for mark in FOREIGN_MARKS if start.startswith(mark)), None)


def _cut(data: bytes, number: int, path: str, max_line: int) -> tuple[list[Line], int]:
    """Cut lines that all have their newline; the second result is the number of the next line."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    if number == 1 and data.startswith(_BOM):
        starts[0] = len(_BOM)
    for i in np.flatnonzero(ends - starts > max_line)[:1].tolist():
        raise _too_long(path, number + i, max_line)
    # Not line by line: a small compressed file may hold a billion empty ones.
    filled = np.flatnonzero(ends > starts)
    starts, stops, colons = starts[filled], ends[filled], _key_colons(data)
    keys = np.searchsorted(colons, stops) - np.searchsorted(colons, starts)
    parts = zip(*(column.tolist() for column in (filled, starts, stops, keys)), strict=True)
    cut = ((number + i, data[start:stop], count) for i, start, stop, count in parts)
    return [Line(*line) for line in cut if not line[1].isspace()], number + len(ends)


def _key_colons(data: bytes) -> Array:
    """Where a colon follows a quote or a blank: after each key, and rarely inside of a string."""
    characters = np.frombuffer(data, np.uint8)
    colons = np.flatnonzero(characters == ord(":"))
    before = characters[np.maximum(colons - 1, 0)]
    chosen: Array = colons[np.isin(before, _BEFORE_COLON)]
    return chosen


def _too_long(path: str, number: int, max_line: int) -> ReadError:
    return ReadError(name_of(path), f"line {number} has more than {max_line} bytes, the limit for a line")


def name_of(path: str) -> str:
    """The file's name as reports show it."""
    return "<stdin>" if path == STDIN else path


def read_blocks(path: str, on_bytes: OnBytes | None, size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a file, decompressed, in pieces of at most ``size``; raises `ReadError`."""
    with contextlib.ExitStack() as stack:
        with failing(ReadError, path):
            if path == STDIN and sys.stdin is None:
                raise ReadError(name_of(path), "standard input is closed")
            raw = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
        counted = _Counted(raw)
        source = _decompressed(counted, path)
        while True:
            with failing(ReadError, path):
                data = source.read(size)
            if on_bytes is not None and counted.fresh:
                on_bytes(counted.fresh)
                counted.fresh = 0
            if not data:
                return
            yield data


@contextlib.contextmanager
def failing(kind: type[ReadError | WriteError], path: str) -> Iterator[None]:
    """Turn what is raised about a file into an error of one line."""
    try:
        yield
    except _BROKEN as error:
        raise kind(name_of(path), _reason(error)) from error


def _reason(error: BaseException) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    # Not CRC or ZSTD.
    return reason if reason[1:2].isupper() else reason[:1].lower() + reason[1:]


class _Counted(io.RawIOBase):
    """Passes reads on and counts their bytes in ``fresh``, which whoever reports them sets back."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self.fresh = 0

    def readable(self) -> bool:
        """Say yes: pyarrow asks."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        data = self._raw.read(size)
        self.fresh += len(data)
        return data


def _decompressed(raw: _Counted, path: str) -> Any:
    if path.lower().endswith(GZIP):
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if path.lower().endswith(ZSTD):
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    return raw


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give out the name of a file beside ``path`` that takes its place at the end, and goes away on failure.

    Raises:
        WriteError: where the folder or the file cannot be written.
    """
    with failing(WriteError, path):
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise WriteError(path, f"{what}, expected the name of a file that may be replaced")
    # Short, because a name of the longest length has no room for more.
    temporary = target.with_name(f".provenance-{secrets.token_hex(6)}.tmp")
    try:
        with failing(WriteError, path):
            temporary.open("xb").close()
            if mode is not None:
                temporary.chmod(stat.S_IMODE(mode))
        yield str(temporary)
        with failing(WriteError, path):
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(path: str, name: str) -> Iterator[Callable[[bytes], object]]:
    """Open ``path``, compressed the way the suffix of ``name`` says; what is given takes bytes.

    Raises:
        WriteError: the file cannot be opened, written or closed. What the caller raises is passed on.
    """
    with contextlib.ExitStack() as stack:
        with failing(WriteError, name):
            file = stack.enter_context(_opened(path, name))

        def put(data: bytes) -> None:
            try:
                file.write(data)
            except _BROKEN as error:
                raise WriteError(name, _reason(error)) from error

        try:
            yield put
        except BaseException:
            with contextlib.suppress(*_BROKEN):  # it may fail once more
                stack.close()
            raise
        with failing(WriteError, name):
            stack.close()


@contextlib.contextmanager
def _opened(path: str, name: str) -> Iterator[Any]:
    with Path(path).open("wb") as raw:
        if name.lower().endswith(GZIP):
            # Without a time and a name the same data give the same file.
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                yield packed
        elif name.lower().endswith(ZSTD):
            import pyarrow as pa

            with pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd") as packed:
                yield packed
        else:
            yield raw
