"""Datums in the memory of other programs: as Arrow data, some rows of it, and rows with notes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import Mask
from provenance.errors import ReadError
from provenance.formats._arrow_files import failing
from provenance.formats._split import NOTE

#: Type of the column that says why a datum is bad.
NOTE_TYPE: Final = pa.struct(
    [
        ("codes", pa.list_(pa.string())),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("violations", pa.list_(pa.string())),
    ]
)


def arrow_of(data: Any) -> Any:
    """A record batch or table as it is; as a table what hands itself over by ``__arrow_c_stream__``.

    Raises:
        ReadError: it does not, after all.
    """
    if isinstance(data, pa.RecordBatch | pa.Table):
        return data
    with failing(ReadError, f"a {type(data).__name__}"):
        return pa.table(data)


def rows_where(batch: Any, chosen: Mask) -> Any:
    """The chosen rows of a record batch or table, as one; views where they are one stretch."""
    # Runs of rows, because `filter` has no kernel for some of the types that columns may have.
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2).tolist()
    runs = [batch.slice(start, end - start) for start, end in edges]
    if len(runs) < 2:
        return runs[0] if runs else batch.slice(0, 0)
    if isinstance(batch, pa.Table):
        return pa.concat_tables(runs).combine_chunks()
    return pa.Table.from_batches(runs).combine_chunks().to_batches()[0]


def noted_schema(schema: Any) -> Any:
    """The columns of bad datums: the last one is ``provenance``."""
    index = schema.get_field_index(NOTE)
    return (schema if index < 0 else schema.remove(index)).append(pa.field(NOTE, NOTE_TYPE))


def noted(batch: Any, notes: Sequence[Mapping[str, Any] | None]) -> Any:
    """A record batch or table with the fields of a note for each row, and without those it had before."""
    columns = [batch.column(i) for i, name in enumerate(batch.schema.names) if name != NOTE]
    columns.append(pa.array(notes, NOTE_TYPE))
    return type(batch).from_arrays(columns, schema=noted_schema(batch.schema))
