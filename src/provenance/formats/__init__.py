"""Files of datums and sequences: read as batches of columns, written from models or JSON-shaped dicts.

The suffix says what a file is: ``.jsonl``, ``.ndjson`` and ``.json`` hold one object a line and may be
compressed (``.gz``, ``.zst``, ``.zstd``); ``.parquet``; ``.arrow``, ``.feather`` and ``.ipc`` are Arrow IPC
files, ``.arrows`` streams; ``.pb`` is a training request of the official SDK (also compressed). ``-`` is
standard input, in lines of JSON.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from provenance.columns import Columns, Fault
from provenance.formats import jsonl
from provenance.formats._convert import convert
from provenance.formats._io import MAX_LINE, OnBytes, replacing
from provenance.formats._split import FileNotes, Note, split
from provenance.formats._suffix import SUFFIXES, is_arrow, is_request
from provenance.formats._write import writer_of
from provenance.formats.objects import columns_of, table_of
from provenance.models import Datum, SampledSequence
from provenance.sequences import SequenceTable

Result = tuple[SequenceTable, tuple[Fault, ...]]
if TYPE_CHECKING:
    from provenance.formats._arrow_pieces import Piece

__all__ = [
    "MAX_LINE",
    "SUFFIXES",
    "FileNotes",
    "Note",
    "columns_of",
    "convert",
    "is_arrow",
    "is_request",
    "pieces",
    "read_datums",
    "read_sequences",
    "sequence_pieces",
    "split",
    "table_of",
    "write_datums",
    "write_sequences",
    "writer_of",
]


def read_datums(
    path: str | os.PathLike[str],
    *,
    batch_positions: int | None = None,
    max_line: int = MAX_LINE,
    on_bytes: OnBytes | None = None,
) -> Iterator[Columns]:
    """Read a file of datums in batches; what cannot be read in it is a fault of a batch.

    Args:
        path: The file, or ``-`` for standard input.
        batch_positions: About how many positions a batch has; each format has a default of its own. A file
            without datums has one batch or none.
        max_line: How many bytes a line may have, in files of lines, and a datum in a training request.
        on_bytes: Called with the number of bytes that were read since the last call, compressed as they are.

    Raises:
        ReadError: for an unknown suffix at once; while reading, for a file that cannot be opened or
            understood at all, or a line of more than ``max_line`` bytes.
    """
    name = os.fspath(path)
    if is_request(name):
        from provenance.formats import tinker_request

        return tinker_request.read_datums(
            name,
            batch_positions=batch_positions or tinker_request.BATCH_POSITIONS,
            max_record=max_line,
            on_bytes=on_bytes,
        )
    if is_arrow(name):
        from provenance.formats import arrow

        return arrow.read_datums(
            name, batch_positions=batch_positions or arrow.BATCH_POSITIONS, on_bytes=on_bytes
        )
    return jsonl.read_datums(
        name,
        batch_positions=batch_positions or jsonl.BATCH_POSITIONS,
        max_line=max_line,
        on_bytes=on_bytes,
    )


def pieces(
    path: str | os.PathLike[str],
    *,
    inputs: frozenset[str] | None = None,
    max_line: int = MAX_LINE,
    on_bytes: OnBytes | None = None,
) -> Iterator[Columns | Piece[Columns]]:
    """As `read_datums`, but what can be read apart from the rest, in any thread, is left to be read.

    ``inputs`` are the loss inputs that are needed, None for all; what can be passed over without them is.
    """
    if is_request(path) or not is_arrow(path):
        return read_datums(path, max_line=max_line, on_bytes=on_bytes)
    from provenance.formats import arrow

    return arrow.pieces(os.fspath(path), inputs=inputs, on_bytes=on_bytes)


def read_sequences(
    path: str | os.PathLike[str], *, max_line: int = MAX_LINE, on_bytes: OnBytes | None = None
) -> Iterator[Result]:
    """Read a file of sampled sequences as tables, and the faults of records that are missing in them.

    Arguments and errors are those of `read_datums`. The ``row`` of a fault counts the records of the file.
    """
    name = os.fspath(path)
    if is_arrow(name):
        from provenance.formats import arrow

        return arrow.read_sequences(name, on_bytes=on_bytes)
    return jsonl.read_sequences(name, max_line=max_line, on_bytes=on_bytes)


def sequence_pieces(
    path: str | os.PathLike[str], *, max_line: int = MAX_LINE, on_bytes: OnBytes | None = None
) -> Iterator[Result | Piece[Result]]:
    """As `read_sequences`, but what can be read apart from the rest, in any thread, is left to be read."""
    if not is_arrow(os.fspath(path)):
        return read_sequences(path, max_line=max_line, on_bytes=on_bytes)
    from provenance.formats import arrow

    return arrow.sequence_pieces(os.fspath(path), on_bytes=on_bytes)


def write_datums(datums: Iterable[Datum | Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write datums to a file, which takes its name when it is complete; on failure nothing is left of it.

    Raises:
        WriteError: for an unknown suffix, or a place that cannot be written.
        SchemaError: for a datum that the format cannot hold.
    """
    name = os.fspath(path)
    write = writer_of(name)
    with replacing(name) as temporary:
        write(datums, temporary)


def write_sequences(
    sequences: Iterable[SampledSequence | Mapping[str, Any]], path: str | os.PathLike[str]
) -> None:
    """Write sampled sequences to a file, as `write_datums` does."""
    name = os.fspath(path)
    write = writer_of(name, sequences=True)
    with replacing(name) as temporary:
        write(sequences, temporary)
