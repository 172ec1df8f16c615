"""Arrow and Parquet files of sampled sequences as tables that a ledger can answer from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from provenance.columns import Array, Fault, Floats, Ints, Mask, any_in_rows
from provenance.errors import ReadError
from provenance.formats._arrow_arrays import (
    Lists,
    as_float32,
    flags,
    integers,
    joined,
    lists_of,
    numbers,
    objects,
    texts,
    validity,
)
from provenance.formats._arrow_files import ArrowFile, failing
from provenance.formats._arrow_pieces import Piece, pieces_of
from provenance.formats._arrow_schema import sequence_faults
from provenance.models.sequence import MAX_REAL
from provenance.pool import SEGMENT, Pool
from provenance.sequences import ABSENT, EARLIEST, LATEST, SequenceTable

_BATCH_POSITIONS: Final = 2**20
#: The columns whose elements say how large a batch is.
COUNTED: Final = ("prompt_tokens", "tokens")
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
#: Microseconds in one unit of a timestamp.
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
Result = tuple[SequenceTable, tuple[Fault, ...]]


def read_sequences(path: str, *, on_bytes: Callable[[int], object] | None = None) -> Iterator[Result]:
    """Read sampled sequences from Parquet, an Arrow IPC file or an Arrow IPC stream.

    Args:
        path: The file.
        on_bytes: Called with about the number of bytes read since the last call; all sum to the file's size.

    Yields:
        Tables in file order, without the rows that cannot be read, and the faults of those; a fault's ``row``
        counts within the file. A file with a column of the wrong type gives an empty table and its faults.

    Raises:
        ReadError: The file cannot be opened, or is damaged.
    """
    for found in sequence_pieces(path, on_bytes=on_bytes):
        yield from found.read() if isinstance(found, Piece) else [found]


def sequence_pieces(
    path: str, *, on_bytes: Callable[[int], object] | None = None
) -> Iterator[Result | Piece[Result]]:
    """As `read_sequences`, but the row groups of a Parquet file are left to be read, in any thread."""
    with failing(ReadError, path), ArrowFile(path, on_bytes) as file:
        faults = sequence_faults(file.schema)
        if faults:
            file.finish()
            yield _empty(), faults
            return
        yield from pieces_of(
            file,
            path,
            file.schema.names,
            counted=COUNTED,
            batch_positions=_BATCH_POSITIONS,
            convert=_table,
        )


def table_of_batch(
    batch: pa.RecordBatch | pa.Table, *, file: str | None = None, first_row: int = 0
) -> Result:
    """Return sequences that are in memory as a table, and the faults of the rows that were left out."""
    faults = sequence_faults(batch.schema)
    if faults:
        return _empty(), faults
    with failing(ReadError, file or "record batch"):
        return _table(batch, file, first_row)


def _empty() -> SequenceTable:
    fields = {"sequence_id": pa.string(), "session_id": pa.string(), "sampled_at": pa.timestamp("us", "UTC")}
    columns = {name: pa.array([], kind) for name, kind in fields.items()}
    return _table(pa.table(columns), None, 0)[0]


class _Rows:
    """The columns of a batch, and what is wrong with its rows."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch
        self.n = len(batch)
        self.faults: dict[int, tuple[str, str]] = {}
        """Row -> field and problem; the first that was found."""

    def refuse(self, row: int, field: str, problem: str) -> None:
        self.faults.setdefault(row, (field, problem))

    def refuse_nulls(self, *names: str) -> None:
        for name in names:
            valid = validity(self.column(name))
            if valid is not None:
                for row in np.flatnonzero(~valid).tolist():
                    self.refuse(row, name, "null")

    def column(self, name: str) -> Any:
        if name in self.batch.schema.names:
            return joined(self.batch.column(name))
        return pa.nulls(self.n)

    def texts(self, name: str) -> Array:
        column = self.column(name)
        if pa.types.is_integer(column.type):  # policy_version: a step
            column = column.cast(pa.string())
        return objects(texts(column))

    def ids(self, name: str) -> Array:
        ids = self.texts(name)
        for row in np.flatnonzero(np.equal(ids, "").astype(np.bool_)).tolist():
            self.refuse(row, name, "'' is empty, expected an id")
        return ids

    def integers(self, name: str, low: int, high: int) -> Ints:
        """Integers, ABSENT for a null."""
        values, valid = integers(self.column(name))
        for row in np.flatnonzero((values < low) | (values > high)).tolist():
            self.refuse(row, name, f"{values[row]} is not an integer in [{low}, {high}]")
        return values if valid is None else np.where(valid, values, ABSENT)

    def floats(self, name: str) -> Floats:
        """Numbers, NaN for a null."""
        values, valid = numbers(self.column(name))
        floats = as_float32(values)
        wrong = ~(np.abs(floats) <= np.float32(MAX_REAL))
        for row in np.flatnonzero(wrong if valid is None else wrong & valid).tolist():
            self.refuse(row, name, f"{values[row]} is not a finite number")
        return floats if valid is None else np.where(valid, floats, np.float32("nan"))

    def flags(self, name: str) -> Mask:
        return flags(self.column(name))

    def times(self, name: str) -> Ints:
        """Microseconds since 1970 UTC, ABSENT for a null."""
        column = self.column(name)
        if pa.types.is_null(column.type):
            return np.full(self.n, ABSENT)
        unit = column.type.unit
        values, valid = integers(column.cast(pa.int64()))
        if unit == "ns":  # which reaches from the year 1677 to 2262
            values = values // 1000
        else:
            factor = _MICROSECONDS[unit]
            outside = (values > LATEST // factor) | (values < EARLIEST // factor)
            for row in np.flatnonzero(outside if valid is None else outside & valid).tolist():
                self.refuse(row, name, f"{values[row]} {unit} is out of range")
            values = np.where(outside, 0, values) * factor
        return values if valid is None else np.where(valid, values, ABSENT)

    def tokens(self, name: str, lowest: int) -> tuple[Lists, npt.NDArray[np.int32]]:
        """The lists and their values; a null and what is no token id is a fault of the row."""
        lists = lists_of(self.column(name))
        values, valid = numbers(lists.elements)
        wide = values if values.dtype == np.int32 else integers(lists.elements)[0]
        if valid is None and (not len(wide) or (wide.min() >= lowest and wide.max() <= _INT32_MAX)):
            return lists, wide.astype(np.int32, copy=False)
        wrong = (wide < lowest) | (wide > _INT32_MAX)
        if valid is not None:
            wrong |= ~valid
        for row in np.flatnonzero(any_in_rows(wrong, lists.offsets)).tolist():
            start = int(lists.offsets[row])
            i = start + int(wrong[start : int(lists.offsets[row + 1])].argmax())
            null = valid is not None and not valid[i]
            self.refuse(row, f"{name}[{i - start}]", _wrong_token(None if null else int(wide[i]), lowest))
        return lists, np.where(wrong, 0, wide).astype(np.int32)


def _wrong_token(value: int | None, lowest: int) -> str:
    shown = "null" if value is None else value
    return f"{shown} is not a token id in [0, 2^31)" + (", or -1 for no text" if lowest < 0 else "")


def _floats(column: Any) -> Floats:
    values, valid = numbers(column)
    floats = as_float32(values)
    return floats if valid is None else np.where(valid, floats, np.float32("nan"))


def _table(batch: Any, file: str | None, first_row: int) -> Result:
    rows = _Rows(batch)
    n = rows.n
    # Of a row with several faults the first is reported, in the order in which a line of JSON is looked at.
    rows.refuse_nulls("record_stability_info", "prompt_tokens")
    prompts, prompt_values = rows.tokens("prompt_tokens", -1)
    rows.refuse_nulls("tokens")
    sampled, sampled_values = rows.tokens("tokens", 0)
    logprobs = lists_of(rows.column("logprobs"))
    logprob_values = _floats(logprobs.elements)
    rows.refuse_nulls("sampled_at")
    sampled_at, last_used_at = rows.times("sampled_at"), rows.times("last_used_at")
    top_k, seed = rows.integers("top_k", -(2**31), _INT32_MAX), rows.integers("seed", -(2**63), _INT64_MAX)
    temperature, top_p = rows.floats("temperature"), rows.floats("top_p")
    rows.refuse_nulls("sequence_id", "session_id")
    table = SequenceTable(
        sequence_id=rows.ids("sequence_id"),
        session_id=rows.ids("session_id"),
        prompt_start=prompts.offsets[:-1],
        prompt_length=prompts.lengths,
        token_start=sampled.offsets[:-1] + SEGMENT,
        token_length=sampled.lengths,
        logprob_start=logprobs.offsets[:-1],
        logprob_length=logprobs.lengths,
        sampled_at=sampled_at,
        last_used_at=last_used_at,
        record_stability_info=rows.flags("record_stability_info"),
        model=rows.texts("model"),
        policy_version=rows.texts("policy_version"),
        stop_reason=rows.texts("stop_reason"),
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        row=np.arange(first_row, first_row + n, dtype=np.int64),
        line=np.zeros(n, np.int64),
        file=np.full(n, file, np.object_),
        pool=Pool(prompt_values, sampled_values),
        logprobs=Pool(logprob_values),
        known=np.ones(n, np.bool_),
        ambiguous=np.zeros(n, np.bool_),
        conflicting=np.zeros(n, np.bool_),
    )
    if not rows.faults:
        return table, ()
    faults = tuple(Fault("FMT004", first_row + row, *rows.faults[row]) for row in sorted(rows.faults))
    readable = np.ones(n, np.bool_)
    readable[list(rows.faults)] = False
    return table.take(np.flatnonzero(readable)), faults
