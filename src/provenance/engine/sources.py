"""What a user hands to a check: paths, Arrow data, models or dicts, as batches of columns; and a ledger."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from logging import DEBUG, INFO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provenance import formats
from provenance._log import event
from provenance._text import without_passwords
from provenance.columns import Columns, Fault
from provenance.engine.threads import cores, in_order
from provenance.errors import ReadError, SchemaError
from provenance.formats import objects
from provenance.formats._folders import parquet_files
from provenance.ledger import Ledger, MemoryLedger
from provenance.ledger.place import is_database, is_url
from provenance.models import Datum, SampledSequence
from provenance.sequences import SequenceTable

if TYPE_CHECKING:
    from provenance.formats._arrow_pieces import Piece

#: Datums of a list that are judged at a time.
_OBJECTS: Final = 1024
#: Rows of an Arrow table that are judged at a time.
_ROWS: Final = 4096
#: Threads at most: each holds a batch, and one thread draws them.
_WORKERS: Final = 8

OnBytes = Callable[[str, int], None]


def paths_of(data: Any) -> list[str] | None:
    """The files that ``data`` names; None when it is no path and no list of paths.

    Patterns are expanded, and a folder stands for the Parquet files in it.

    Raises:
        ReadError: a pattern matches nothing.
    """
    given = _given_paths(data)
    if given is None:
        return None
    paths: list[str] = []
    for path in given:
        if path == "-" or not glob.has_magic(path) or _exists(path) or is_url(path):
            # A folder without such files stays, so that opening it says what is wrong.
            paths += parquet_files(path) or [path]
            continue
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not matches:
            raise ReadError(path, "no file matches this pattern")
        paths += (file for match in matches for file in parquet_files(match) or [match])
    # A file that is named by two patterns is read once.
    return list({_real(path): path for path in reversed(paths)}.values())[::-1]


def _given_paths(data: Any) -> list[str] | None:
    """The paths that ``data`` is, as they were given; None when it is none."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if isinstance(data, list | tuple) and data and all(isinstance(p, str | os.PathLike) for p in data):
        return [os.fspath(path) for path in data]
    return None


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no path at all, which opening it will say
        return path


def size_of(*data: Any) -> int | None:
    """Bytes of all files that a run reads from start to end; None where that is not known."""
    paths = [path for item in data for path in paths_of(item) or () if not is_database(path)]
    try:
        return sum(Path(path).stat().st_size for path in paths) if paths else None
    except (OSError, ValueError):
        return None


def batches(
    data: Any,
    *,
    inputs: frozenset[str] | None = None,
    max_line: int,
    on_bytes: OnBytes | None = None,
) -> Iterator[Columns | Piece[Columns]]:
    """The datums of ``data`` in batches, or in pieces that are to be read.

    Args:
        data: a path, a list of paths (patterns are expanded, "-" is stdin), Columns, Arrow record batches or
            tables, or an iterable of datums: models or JSON-shaped mappings.
        inputs: the loss inputs that are needed, None for all. The others may be there or not.
        max_line: longest line of a JSONL file, in bytes.
        on_bytes: called with a file and the bytes of it that were read since the last call.

    Raises:
        ReadError: a file cannot be read.
        SchemaError: ``data`` is nothing of the above.
    """
    paths = paths_of(data)
    if paths is not None:
        for path in paths:
            if is_database(path):
                raise ReadError(path, "a ledger, expected a file of datums: is it meant for --ledger?")
            count = None if on_bytes is None else _bound(on_bytes, path)
            started = time.monotonic()
            event(DEBUG, "file opened", file=path)
            yield from formats.pieces(path, inputs=inputs, max_line=max_line, on_bytes=count)
            event(DEBUG, "file read", file=path, since=started)
    elif isinstance(data, Datum | Mapping | Columns) or _is_arrow(data):
        yield from _objects([data])
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        yield from _objects(data)
    else:
        raise SchemaError(
            f"cannot check a {type(data).__name__}: give paths, datums, mappings or Arrow record batches"
        )


def workers_for(data: Any) -> int:
    """How many threads are worth it: what is no file is made by Python, and a stream is told as it comes."""
    paths = _given_paths(data)
    return 1 if paths is None or "-" in paths else min(cores(), _WORKERS)


def _bound(on_bytes: OnBytes, path: str) -> Callable[[int], None]:
    return lambda count: on_bytes(path, count)


def _objects(data: Iterable[Any]) -> Iterator[Columns]:
    iterator = iter(data)
    row = 0
    while True:
        group = list(islice(iterator, _OBJECTS))
        if not group:
            return
        plain: list[Any] = []
        for item in group:
            if isinstance(item, Columns) or _is_arrow(item):
                yield from _numbered(plain, row)
                row += len(plain)
                plain = []
                for columns in _arrow_or_columns(item, row):
                    row += len(columns)
                    yield columns
            else:
                plain.append(item)
        yield from _numbered(plain, row)
        row += len(plain)


def _numbered(plain: list[Any], row: int) -> Iterator[Columns]:
    if plain:
        columns = objects.columns_of(plain)
        yield columns if row == 0 else replace(columns, row=columns.row + row)


def _is_arrow(item: Any) -> bool:
    # By name, so that pyarrow is not imported for those who do not use it.
    kind = type(item)
    return kind.__module__.partition(".")[0] == "pyarrow" and kind.__name__ in ("RecordBatch", "Table")


def _arrow_or_columns(item: Any, row: int) -> Iterator[Columns]:
    if isinstance(item, Columns):
        yield item
        return
    from provenance.formats import arrow

    for start in range(0, max(item.num_rows, 1), _ROWS):
        columns = arrow.columns_of_batch(item.slice(start, _ROWS), first_row=row)
        row += len(columns)
        yield columns
        if any(fault.row is None for fault in columns.faults):
            return  # about the schema, which is the same for all rows


def ledger_of(
    ledger: Any, *, max_line: int, on_bytes: OnBytes | None = None
) -> tuple[Ledger | None, list[tuple[str | None, int, Fault]]]:
    """A ledger from what a user gives for one, and the faults of its files.

    Args:
        ledger: None, a Ledger, the path or address of a database, a path or list of paths of sequence files,
            a SequenceTable, or an iterable of sequences: models or JSON-shaped mappings.
        max_line: longest line of a JSONL file, in bytes.
        on_bytes: called with a file and the bytes of it that were read since the last call.

    Raises:
        ReadError: a file cannot be read.
        LedgerError: a database cannot be read.
        SchemaError: it is nothing of the above.
    """
    if ledger is None or isinstance(ledger, Ledger):
        # A ledger over files knows which records it could not read.
        return ledger, [(file, 0, fault) for file, fault in getattr(ledger, "faults", ())]
    started = time.monotonic()
    memory = MemoryLedger()
    found: list[tuple[str | None, int, Fault]] = []
    paths = paths_of(ledger)
    if paths is not None:
        database = next(filter(is_database, paths), None)
        if database is not None:
            return _open(database, paths), found
        if all(path.lower().endswith(".parquet") for path in paths):
            from provenance.formats.parquet_ledger import ParquetLedger, is_large

            if is_large(paths):
                indexed = ParquetLedger(paths, on_bytes=on_bytes)
                event(INFO, "ledger indexed", files=len(paths), faults=len(indexed.faults), since=started)
                return ledger_of(indexed, max_line=max_line)
        for path in paths:
            count = None if on_bytes is None else _bound(on_bytes, path)
            pieces = formats.sequence_pieces(path, max_line=max_line, on_bytes=count)
            for tables in in_order(_tables, pieces, workers_for(path)):
                for table, faults in tables:
                    memory.load(table)
                    found += [(path, 0, fault) for fault in faults]
        event(INFO, "ledger read", files=len(paths), sequences=len(memory), faults=len(found), since=started)
        return memory, found
    if isinstance(ledger, SequenceTable):
        memory.load(ledger)
    elif isinstance(ledger, Iterable) and not isinstance(ledger, str | bytes | SampledSequence | Mapping):
        table, faults = objects.table_of(ledger)
        memory.load(table)
        found += [("ledger", 0, fault) for fault in faults]
    else:
        raise SchemaError(
            f"cannot use a {type(ledger).__name__} as a ledger: give a Ledger, paths, or a list of sequences"
        )
    return memory, found


def _tables(found: formats.Result | Piece[formats.Result]) -> list[formats.Result]:
    """Read a piece, in any thread."""
    return [found] if isinstance(found, tuple) else list(found.read())


def _open(database: str, paths: list[str]) -> Ledger:
    """The ledger in a database, which keeps no connection open."""
    if len(paths) > 1:
        raise SchemaError(
            f"{without_passwords(database)!r} is one of {len(paths)} ledgers, expected it alone: put all "
            "into one with provenance ledger import"
        )
    from provenance.ledger.sql import SqlLedger

    return SqlLedger(database, read_only=True)
