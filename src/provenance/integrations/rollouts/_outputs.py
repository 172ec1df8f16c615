"""A file of datums and a place of sampled sequences, both there when both are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from provenance.errors import LedgerError, WriteError
from provenance.formats import is_arrow, read_sequences
from provenance.formats._io import STDIN, replacing
from provenance.ledger.place import is_database
from provenance.sequences import SequenceTable


class Output(NamedTuple):
    """A file to write now, for one that has its name later."""

    path: str
    name: str
    """Its suffix tells the format."""


def refuse_outputs(datums: str, sequences: str, read: list[str]) -> None:
    """Refuse outputs that cannot be written, before anything is read.

    Raises:
        WriteError: an output is no file, of no known format, or a file that is used for something else.
    """
    taken = {os.path.realpath(path) for path in read}
    for target in (datums, sequences):
        if target == STDIN:
            raise WriteError(target, "is no file, expected the name of one")
        place = os.path.realpath(target)
        if place in taken:
            raise WriteError(target, "is read or written as something else too, expected a file of its own")
        taken.add(place)
    if is_database(datums):
        raise WriteError(datums, "a ledger, which holds no datums; expected a file such as datums.jsonl")
    is_arrow(datums, WriteError)
    if not is_database(sequences):
        is_arrow(sequences, WriteError)


@contextmanager
def open_outputs(datums: str, sequences: str) -> Iterator[tuple[Output, Output]]:
    """Give out what to write datums and sequences to; on failure earlier files stay as they were.

    Raises:
        WriteError: a file cannot be written.
        LedgerError: the database cannot record the sequences.
    """
    with ExitStack() as stack:
        data = Output(stack.enter_context(replacing(datums)), datums)
        # Left last to first: sequences are true without datums, and datums are worth nothing without them.
        if not is_database(sequences):
            yield data, Output(stack.enter_context(replacing(sequences)), sequences)
            return
        beside = Path(os.path.realpath(datums)).parent
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=beside, prefix=".provenance-"))
        spool = os.path.join(folder, "sequences.jsonl")  # noqa: PTH118 - what is opened takes text
        yield data, Output(spool, spool)
        _record(spool, sequences)


def _record(spool: str, place: str) -> None:
    from provenance.formats._new_ledger import open_whole

    def tables() -> Iterator[SequenceTable]:
        for table, faults in read_sequences(spool):
            if faults:
                raise LedgerError(f"{place}: {faults[0].field}: {faults[0].message}; nothing was recorded")
            # A conflict is told by file and line, and nobody but us knows this file.
            yield replace(table, file=np.full(table.file.size, None, np.object_))

    with open_whole(place) as ledger:
        ledger.record_tables(tables())
