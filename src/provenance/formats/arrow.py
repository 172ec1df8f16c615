"""Arrow and Parquet as columns, and back.

Datums are read as views of Arrow's buffers wherever types, nulls and slices allow. What the columns may look
like is said in ``_arrow_schema``; sequences and writing have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import Chunks, Columns, Fault, Spans, Tensor
from provenance.errors import ReadError
from provenance.formats._arrow_arrays import joined
from provenance.formats._arrow_chunks import positions_of_chunks, positions_of_tokens
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_pieces import Piece, converted, pieces_of
from provenance.formats._arrow_schema import (
    INPUT,
    INPUT_SPANS,
    INPUT_TOKENS,
    STRUCTURE,
    TARGET_SPANS,
    datum_faults,
)
from provenance.formats._arrow_spans import spans_of
from provenance.formats._arrow_tensors import tensor_of
from provenance.formats._datums import LABELS
from provenance.formats.arrow_sequences import read_sequences, sequence_pieces, table_of_batch
from provenance.formats.arrow_write import write_datums, write_sequences

__all__ = [
    "BATCH_POSITIONS",
    "columns_of_batch",
    "pieces",
    "read_datums",
    "read_sequences",
    "row_groups",
    "sequence_pieces",
    "table_of_batch",
    "write_datums",
    "write_sequences",
]

#: Positions that a batch has by default, about: enough to make Python's share small, and little memory.
BATCH_POSITIONS: Final = 2**19


def read_datums(
    path: str,
    *,
    batch_positions: int = BATCH_POSITIONS,
    on_bytes: Callable[[int], object] | None = None,
) -> Iterator[Columns]:
    """Read a Parquet file, an Arrow IPC file or an Arrow IPC stream, told apart by their first bytes.

    Args:
        path: The file.
        batch_positions: About how many positions a batch has; memory grows with it.
        on_bytes: Called with about the number of bytes read since the last call; all sum to the file's size.

    Yields:
        Batches in file order. A file with a column of the wrong type gives one, empty and with the faults.

    Raises:
        ReadError: The file cannot be opened, or is damaged.
    """
    with failing(ReadError, path), ArrowFile(path, on_bytes) as file:
        if faults := _faults_of(file):
            yield _empty(path, faults)
            return
        names = _read_names(file)
        yield from converted(file.batches(names, _counted(names), batch_positions), path, _columns)


def _faults_of(file: ArrowFile) -> tuple[Fault, ...]:
    """Why the columns of a file are none of a datum; then nothing more of it is read."""
    faults = datum_faults(file.schema)
    if faults:
        file.finish()
    return faults


def _read_names(file: ArrowFile) -> tuple[str, ...]:
    return tuple(name for name in file.schema.names if name not in LABELS)


def _counted(names: Sequence[str]) -> list[str]:
    return [INPUT_TOKENS if INPUT_TOKENS in names else INPUT]


def pieces(
    path: str,
    *,
    inputs: frozenset[str] | None = None,
    on_bytes: Callable[[int], object] | None = None,
) -> Iterator[Columns | Piece[Columns]]:
    """As `read_datums`, but what can be read apart from the rest is left to be read.

    These are the row groups of a Parquet file, unless they are too large to be read at once. ``inputs`` are
    the loss inputs that are needed; None for all.
    """
    with failing(ReadError, path), ArrowFile(path, on_bytes) as file:
        if faults := _faults_of(file):
            yield _empty(path, faults)
            return
        names = _read_names(file)
        if inputs is not None and INPUT_TOKENS in names:  # the length of an image may follow from any input
            names = tuple(name for name in names if name in STRUCTURE or name in inputs)
        yield from pieces_of(
            file, path, names, counted=_counted(names), batch_positions=BATCH_POSITIONS, convert=_columns
        )


def row_groups(path: str) -> list[Piece[Columns]]:
    """All of a Parquet file as pieces, whatever their size; none for another file, or one without datums.

    Raises:
        ReadError: The file cannot be opened.
    """
    with failing(ReadError, path), ArrowFile(path) as file:
        if not file.is_parquet or datum_faults(file.schema):
            return []
        names = _read_names(file)
        parts = file.parts(_counted(names), BATCH_POSITIONS)
        return [Piece(path, names, part, file.footer, _columns) for part in parts]


def columns_of_batch(
    batch: pa.RecordBatch | pa.Table, *, file: str | None = None, first_row: int = 0
) -> Columns:
    """Return datums that are in memory as columns, which share its buffers where they can.

    Args:
        batch: A record batch or table in the shape of the Arrow files.
        file: Name to report them under.
        first_row: Number of the first datum in that file.
    """
    faults = datum_faults(batch.schema)
    if faults:
        return _empty(file, faults)
    with failing(ReadError, file or "record batch"):
        return _columns(batch, file, first_row)


def _columns(batch: Any, file: str | None, first_row: int) -> Columns:
    names = batch.schema.names
    if INPUT_TOKENS in names:
        positions = positions_of_tokens(joined(batch.column(INPUT_TOKENS)))
    else:
        positions = positions_of_chunks(joined(batch.column(INPUT)))
    readable = positions.readable
    span_columns = [
        joined(batch.column(name)) if name in names else pa.nulls(len(batch))
        for name in (INPUT_SPANS, TARGET_SPANS)
    ]
    (input_spans, target_spans), ids = spans_of((span_columns[0], span_columns[1]), readable)
    return Columns(
        offsets=positions.offsets,
        tokens=positions.tokens,
        text=positions.text,
        null_tokens=positions.null_tokens,
        chunks=positions.chunks,
        inputs={
            name: tensor_of(name, joined(batch.column(name)), readable)
            for name in names
            if name not in STRUCTURE
        },
        input_spans=input_spans,
        target_spans=target_spans,
        ids=ids,
        readable=readable,
        row=np.arange(first_row, first_row + len(batch), dtype=np.int64),
        file=file,
        faults=positions.faults,
    )


def _empty(file: str | None, faults: tuple[Fault, ...]) -> Columns:
    none, no_mask, no_kind = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.uint8)
    no_spans = Spans(no_mask, np.zeros(1, np.int64), no_kind, none, none, none)
    no_inputs: dict[str, Tensor] = {}
    return Columns(
        offsets=np.zeros(1, np.int64),
        tokens=np.zeros(0, np.int32),
        text=None,
        null_tokens=None,
        chunks=Chunks(np.zeros(1, np.int64), no_kind, none),
        inputs=no_inputs,
        input_spans=no_spans,
        target_spans=no_spans,
        ids=(),
        readable=no_mask,
        row=none,
        file=file,
        faults=faults,
    )
