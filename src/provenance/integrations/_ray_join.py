"""Sequences beside the datums that name them, joined by Ray: a shuffle by id, and one by datum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray
import ray.data

_ROW: Final = "provenance: row"
_BUCKET: Final = "provenance: bucket"
_RECORD: Final = "provenance: record"
_ID: Final = "sequence_id"
_SPANS: Final = ("model_input_spans", "loss_fn_input_spans")
#: What a row's records are ordered by, so that their order does not depend on the shuffle.
_ORDER: Final = (_ROW, _ID, "session_id", "sampled_at")


def with_sequences(dataset: Any, sequences: Any, column: str, buckets: int) -> Any:
    """The rows of a dataset in their order, each with all records of the ids that it names."""
    kind = pa.struct(list(sequences.schema().base_schema))
    numbered = _numbered(dataset)
    named = _each(numbered, partial(_named, kind=kind, buckets=buckets))
    told = _each(sequences, partial(_told, kind=kind, buckets=buckets))
    handed = (
        named.union(told)
        .groupby(_BUCKET, num_partitions=buckets)
        .map_groups(_handed_out, batch_format="pyarrow")
    )
    pairs = _each(handed, partial(_in_buckets, buckets=buckets))
    rows = _each(numbered, partial(_without_record, kind=kind, buckets=buckets))
    gathered = rows.union(pairs).groupby(_BUCKET, num_partitions=buckets)
    lists = gathered.map_groups(partial(_gathered, kind=kind, column=column), batch_format="pyarrow")
    return lists.sort(_ROW).drop_columns([_ROW])


@contextmanager
def in_order(dataset: Any) -> Iterator[None]:
    """Ray keeps the order of a dataset, and of all that is made of it, while this lasts."""
    options = dataset.context.execution_options  # of all of them: they share it
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


def _numbered(dataset: Any) -> Any:
    with in_order(dataset):
        blocks = dataset.to_arrow_refs()
    length, with_rows = ray.remote(_length), ray.remote(_with_rows)
    firsts = accumulate(ray.get([length.remote(block) for block in blocks]), initial=0)
    return ray.data.from_arrow_refs(
        [with_rows.remote(block, first) for block, first in zip(blocks, firsts, strict=False)]
    )


def _length(block: Any) -> int:
    return len(block)


def _with_rows(block: Any, first: int) -> Any:
    return _with(block, {_ROW: np.arange(first, first + len(block))})


def _each(dataset: Any, function: Callable[[Any], Any]) -> Any:
    return dataset.map_batches(function, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _named(block: Any, kind: Any, buckets: int) -> Any:
    """The ids that each row names, once for each row."""
    rows, ids = [np.zeros(0, np.int64)], [pa.array([], pa.string())]
    numbers = block.column(_ROW).to_numpy()
    for name in set(_SPANS) & set(block.column_names):
        spans = block.column(name).combine_chunks()
        rows.append(numbers[pc.list_parent_indices(spans).to_numpy()])
        ids.append(pc.struct_field(pc.list_flatten(spans), _ID).cast(pa.string()))
    pairs = pa.table({_ROW: np.concatenate(rows), _ID: pa.concat_arrays(ids)}).drop_null()
    pairs = pairs.group_by([_ROW, _ID]).aggregate([])
    return _with(pairs, {_BUCKET: _buckets_of(pairs, buckets), _RECORD: pa.nulls(len(pairs), kind)})


def _told(block: Any, kind: Any, buckets: int) -> Any:
    """The records under their ids."""
    fields = [block.column(field.name).combine_chunks().cast(field.type) for field in kind]
    ids = pa.table({_ROW: pa.nulls(len(block), pa.int64()), _ID: block.column(_ID).cast(pa.string())})
    records = pa.StructArray.from_arrays(fields, fields=list(kind))
    return _with(ids, {_BUCKET: _buckets_of(ids, buckets), _RECORD: records})


def _buckets_of(ids: Any, buckets: int) -> Any:
    # Not `hash`, which is another one in each process.
    numbers = [crc32((text or "").encode()) % buckets for text in ids.column(_ID).to_pylist()]
    return pa.array(numbers, pa.int64())


def _handed_out(group: Any) -> Any:
    """Each record with the number of each row that names its id."""
    named = group.filter(pc.is_valid(group.column(_ROW))).select([_ROW, _ID])
    told = group.filter(pc.is_null(group.column(_ROW)))
    places = told.select([_ID]).append_column("place", pa.array(np.arange(len(told))))
    pairs = named.join(places, _ID, join_type="inner")
    return pa.table({_ROW: pairs.column(_ROW), _RECORD: told.column(_RECORD).take(pairs.column("place"))})


def _in_buckets(block: Any, buckets: int) -> Any:
    return _with(block, {_BUCKET: block.column(_ROW).to_numpy() % buckets})


def _without_record(block: Any, kind: Any, buckets: int) -> Any:
    return _in_buckets(_with(block, {_RECORD: pa.nulls(len(block), kind)}), buckets)


def _gathered(group: Any, kind: Any, column: str) -> Any:
    """Each row with the list of its records."""
    is_pair = pc.is_valid(group.column(_RECORD))
    pairs, rows = group.filter(is_pair), group.filter(pc.invert(is_pair))
    records = pairs.column(_RECORD).combine_chunks()
    keys = {name: records.field(name) for name in _ORDER if name != _ROW and kind.get_field_index(name) >= 0}
    order = pc.sort_indices(
        pa.table({_ROW: pairs.column(_ROW), **keys}),
        [(name, "ascending") for name in (_ROW, *keys)],
    )
    numbers = np.unique(rows.column(_ROW).to_numpy())
    rows = rows.take(pc.sort_indices(rows.column(_ROW)))
    counts = np.searchsorted(np.sort(pairs.column(_ROW).to_numpy()), numbers, "right")
    offsets = pa.array(np.concatenate([[0], counts]), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, records.take(order))
    return _with(rows.drop_columns([_BUCKET, _RECORD, *({column} & set(rows.column_names))]), {column: lists})


def _with(table: Any, columns: dict[str, Any]) -> Any:
    for name, values in columns.items():
        table = table.append_column(name, values if isinstance(values, pa.Array) else pa.array(values))
    return table
