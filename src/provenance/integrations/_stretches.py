"""The files of a dataset in stretches that follow each other, each the work of one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from provenance.errors import ReadError
from provenance.formats import arrow, is_arrow

#: Bytes of files, as they are stored, that a task has about.
_BYTES: Final = 2**26


class Stretch(NamedTuple):
    """A file, or neighbouring rows of a Parquet file."""

    path: str
    pieces: range | None = None
    """Numbers of the pieces of ``row_groups``; None is the whole file."""

    def read(self) -> Iterator[Any]:
        """What a check takes, in order: columns, or the path of the whole file.

        Raises:
            ReadError: a piece cannot be read.
        """
        if self.pieces is None:
            yield [self.path]
            return
        pieces = arrow.row_groups(self.path)
        for number in self.pieces:
            yield from pieces[number].read()


def stretches(paths: Sequence[str], size: int = _BYTES) -> list[list[Stretch]]:
    """Files in stretches of about so many bytes. Only larger files are opened, to see where to cut them.

    What cannot be opened is left to who reads it, so that errors come in the order of the files.
    """
    found: list[list[Stretch]] = []
    taken = size
    for path in paths:
        for stretch, stored in _cut(path, size):
            if taken + stored > size:
                found.append([])
                taken = 0
            found[-1].append(stretch)
            taken += stored
    return found


def _cut(path: str, size: int) -> Iterator[tuple[Stretch, int]]:
    try:
        stored = Path(path).stat().st_size
        pieces = arrow.row_groups(path) if stored > size and is_arrow(path) else []
    except (OSError, ValueError, ReadError):
        yield Stretch(path), 0
        return
    if not pieces:
        yield Stretch(path), stored
    first = taken = 0
    for number, piece in enumerate(pieces):
        taken += piece.part.stored
        if taken >= size or number == len(pieces) - 1:
            yield Stretch(path, range(first, number + 1)), taken
            first, taken = number + 1, 0
