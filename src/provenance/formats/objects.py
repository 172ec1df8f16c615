"""Datums and sequences that are Python objects: models, unchecked JSON-shaped dicts, datums of the SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provenance.columns import Columns, Fault
from provenance.formats import _models, _sdk_batch
from provenance.formats._builder import ColumnsBuilder, Row
from provenance.formats._datums import row_of
from provenance.formats._plain import plain_dict
from provenance.formats._plain_arrays import row_of_arrays
from provenance.formats._problem import RecordError
from provenance.formats._sdk import fields_of, is_sdk_datum
from provenance.formats._sequences import record_of
from provenance.models import Datum, SampledSequence
from provenance.sequences import Record, SequenceTable, TableBuilder, record_of_model


def columns_of(datums: Iterable[Datum | Mapping[str, Any]]) -> Columns:
    """Put datums into one batch; what cannot be read is a row that is not ``readable``, and a fault (FMT004).

    Lists in a dict may also be numpy arrays or torch tensors of any width. A whole number written as a float
    is taken as that integer, in token ids too; ids outside of int64 become its nearest limit. A datum may
    also be a `tinker.Datum`.
    """
    given = list(datums)
    columns = _plain_columns(given)
    if columns is not None:
        return columns
    batch = ColumnsBuilder()
    for datum in given:
        row = _row(datum)
        if isinstance(row, Row):
            batch.append(row)
        else:
            batch.append_unreadable(row)
    return batch.finish()


def _plain_columns(datums: list[Any]) -> Columns | None:
    """The datums as columns, where they are plain and of one kind that is read a batch at a time."""
    if datums and all(type(datum) is Datum for datum in datums):
        return _models.plain_columns(datums)
    if datums and all(map(is_sdk_datum, datums)):
        return _sdk_batch.plain_columns(datums)
    return None


def _row(datum: object) -> Row | list[RecordError]:
    if type(datum) is dict:
        return plain_dict(datum) or row_of(datum)
    if type(datum) is Datum:
        return _models.plain_row(datum) or row_of(datum)
    return row_of_arrays(fields_of(datum)) if is_sdk_datum(datum) else row_of(datum)


def table_of(
    sequences: Iterable[SampledSequence | Mapping[str, Any]],
) -> tuple[SequenceTable, tuple[Fault, ...]]:
    """Put sequences into one table; one that cannot be read is left out, and a fault with its number."""
    table = TableBuilder()
    faults: list[Fault] = []
    for number, sequence in enumerate(sequences):
        try:
            table.append(_record(sequence), number)
        except RecordError as error:
            faults.append(Fault(error.code, number, error.field, error.message))
    return table.finish(), tuple(faults)


def _record(sequence: SampledSequence | Mapping[str, Any]) -> Record:
    return record_of_model(sequence) if isinstance(sequence, SampledSequence) else record_of(sequence)
