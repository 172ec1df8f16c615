"""Row groups of Parquet files that are left to be read, in any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from provenance.errors import ReadError
from provenance.formats._arrow_files import ArrowFile, RowGroups, failing

T = TypeVar("T")
#: Makes something of a record batch, the file's path, and the number of its first row in the file.
Convert = Callable[[Any, str, int], T]

#: Batches that a piece may have: those of one are looked at by one thread, one after the other.
_BATCHES: Final = 2


def converted(batches: Iterable[Any], path: str, convert: Convert[T], *, first_row: int = 0) -> Iterator[T]:
    """Make something of each of the batches that follow each other in a file from a row on."""
    row = first_row
    for batch in batches:
        yield convert(batch, path, row)
        row += len(batch)


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Neighbouring rows of a Parquet file."""

    path: str
    names: tuple[str, ...]
    """The columns to read."""
    part: RowGroups
    footer: Any
    """Of the file, which is not parsed again."""
    convert: Convert[T]

    def read(self) -> Iterator[T]:
        """Read the rows in batches.

        Raises:
            ReadError: The file is damaged, or cannot be opened any more.
        """
        with failing(ReadError, self.path), ArrowFile(self.path, footer=self.footer) as file:
            batches = file.batches_of(self.part, self.names, self.part.stored)
            yield from converted(batches, self.path, self.convert, first_row=self.part.row)


def pieces_of(
    file: ArrowFile,
    path: str,
    names: Sequence[str],
    *,
    counted: Sequence[str],
    batch_positions: int,
    convert: Convert[T],
) -> Iterator[T | Piece[T]]:
    """An open file in pieces; what cannot be read apart from the rest, or is too large, is read here.

    Args:
        file: Of any container; Parquet files alone have pieces.
        path: Of the file.
        names: The columns to read.
        counted: As for `ArrowFile.batches`, like ``batch_positions``.
        batch_positions: About how many elements of these a batch has.
        convert: Makes of each batch what is wanted.
    """
    if not file.is_parquet:
        yield from converted(file.batches(names, counted, batch_positions), path, convert)
        return
    parts = file.parts(counted, batch_positions)
    total = sum(part.stored for part in parts)
    for part in parts:
        if part.rows <= _BATCHES * part.batch_rows:
            yield Piece(path, tuple(names), part, file.footer, convert)
            file.passed(part, total)
            continue
        batches = file.batches_of(part, names, total, threads=True)
        yield from converted(batches, path, convert, first_row=part.row)
    file.finish()
