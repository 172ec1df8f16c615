"""Files into a ledger and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import click
import numpy as np

from provenance import formats
from provenance.cli._common import say
from provenance.columns import SAMPLED, Fault
from provenance.engine.sources import paths_of
from provenance.errors import WriteError
from provenance.formats._new_ledger import open_whole
from provenance.ledger.place import is_database
from provenance.ledger.recorded import record_object
from provenance.ledger.sql import SqlLedger
from provenance.sequences import SequenceTable

__all__ = ["export_file", "import_files", "trained_on"]

#: Faults of a file that are shown.
_SHOWN: Final = 20


def import_files(place: str, files: list[str], *, max_line: int) -> tuple[int, int]:
    """Record the sequences of files and of other ledgers, all or none.

    Returns:
        How many were new, and how many were repeats.

    Raises:
        ClickException: records cannot be read; they are named on stderr.
    """
    total = 0

    def tables() -> Iterator[SequenceTable]:
        nonlocal total
        for table in _readable(paths_of(files) or [], max_line):
            total += len(table)
            yield table

    with open_whole(place) as target:
        new = target.record_tables(tables())
    return new, total - new


def _readable(paths: list[str], max_line: int) -> Iterator[SequenceTable]:
    """The tables of all files; once a record cannot be read, the rest is read for its faults alone."""
    faults = records = 0
    for path in paths:
        if is_database(path):
            with SqlLedger(path, read_only=True) as source:
                yield from source.tables()
            continue
        for table, found in formats.read_sequences(path, max_line=max_line):
            for fault in found[: max(_SHOWN - faults, 0)]:
                say("error", _described(path, fault))
            faults += len(found)
            records += len(table) + len(found)
            if not faults:
                yield table
    if faults:
        raise click.ClickException(f"{faults:,} of {records:,} records cannot be read; nothing was recorded")


def _described(path: str, fault: Fault) -> str:
    place = f"line {fault.line}" if fault.line is not None else f"row {fault.row}"
    parts = [path, *([place] if fault.row is not None else []), *([fault.field] if fault.field else [])]
    return ": ".join([*parts, fault.message])


def export_file(ledger: SqlLedger, path: str, session: str | None) -> int:
    """Write the sequences of a ledger, or those of a session; returns how many."""
    if path == "-":
        raise WriteError(path, "is no file; name one, and provenance convert FILE - writes it to stdout")
    written = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal written
        for table in ledger.tables(session):
            for i in range(len(table)):
                yield record_object(table, i)
            written += len(table)

    formats.write_sequences(records(), path)
    return written


def trained_on(path: str) -> list[str]:
    """The sequences that the datums of a file have as sampled targets, by id.

    Raises:
        ClickException: a datum cannot be read.
    """
    ids: dict[str, None] = {}
    for columns in formats.read_datums(path):
        for fault in columns.faults:
            first = int(columns.row[0]) if len(columns) else 0
            at = replace(fault, row=None if fault.row is None else first + fault.row)
            raise click.ClickException(f"{_described(path, at)}; nothing was renewed")
        spans = columns.target_spans
        sampled = (spans.kind == SAMPLED) & (spans.sequence >= 0)
        ids |= dict.fromkeys(columns.ids[k] for k in np.unique(spans.sequence[sampled]).tolist())
    if not ids:
        raise click.ClickException(f"{path}: no datum has a sampled target; nothing was renewed")
    return list(ids)
