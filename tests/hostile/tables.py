"""Arrow files with types, buffers, messages and footers that lie."""

from __future__ import annotations

import io
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hostile import thrift
from hostile.damage import EDGES, WIDE, damaged, spliced
from provenance.formats._arrow_limits import refuse_no_width

_CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
_MARK = b"\xff\xff\xff\xff"
_WORDS = (None, "", "prompt", "sampled", "encoded_text", "s:1", "é", "long")
_TIMES = (pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.duration("ns"))
_OTHERS = (
    pa.decimal128(10, 2),
    pa.decimal256(50, 2),
    pa.date64(),
    pa.time32("s"),
    pa.month_day_nano_interval(),
)


def table_of(data: bytes) -> Any:
    """The table of a file of ours."""
    return pq.read_table(io.BytesIO(data), use_threads=False)


# --- types and values


def _scalars(rng: Random, count: int) -> Any:
    ints = [rng.choice((0, 1, 11, 12, *EDGES)) for _ in range(count)]
    with_null = [None if rng.random() < 0.2 else i for i in ints]
    reals = [rng.choice((0.5, -0.5, 1e300, float("nan"), float("inf"), None)) for _ in ints]
    words = [rng.choice(_WORDS) for _ in ints]
    blobs = [rng.choice((b"", b"\xff", b"\x01\x01\x04" + bytes(16), None)) for _ in ints]
    small = [i % 100 for i in ints]
    makers = (
        lambda: pa.array(small, rng.choice((pa.int8(), pa.uint8(), pa.int16(), pa.uint16()))),
        lambda: pa.array(with_null, pa.int32()),
        lambda: pa.array([rng.choice(WIDE) for _ in ints], pa.int64()),
        lambda: pa.array([abs(rng.choice(WIDE)) for _ in ints], pa.uint64()),
        lambda: pa.array(np.array(small, np.float16), pa.float16()),
        lambda: pa.array(reals, pa.float64()),
        lambda: pa.array([-0.5] * count, pa.float32()),
        lambda: pa.array(words, rng.choice((pa.string(), pa.large_string(), pa.string_view()))),
        lambda: pa.array(blobs, rng.choice((pa.binary(), pa.large_binary(), pa.binary_view()))),
        lambda: pa.array([b"abcd"] * count, pa.binary(4)),
        lambda: pa.array([rng.choice((True, False, None)) for _ in ints], pa.bool_()),
        lambda: pa.nulls(count),
        lambda: pa.array(with_null, pa.int64()).cast(rng.choice(_TIMES)),
        lambda: pa.array([None] * count, rng.choice(_OTHERS)),
    )
    return rng.choice(makers)()


def _texts(rng: Random, count: int) -> Any:
    words = pa.array([rng.choice(_WORDS) for _ in range(count)], pa.string())
    kind = rng.randrange(4)
    if kind == 0:
        return words.dictionary_encode()
    if kind == 1:
        indices = pa.array(
            [rng.choice((0, 1, None)) for _ in range(count)], rng.choice((pa.int8(), pa.uint64()))
        )
        return pa.DictionaryArray.from_arrays(indices, pa.array(["s:1", None, "s:1"]))
    return words.cast(rng.choice((pa.string(), pa.large_string(), pa.string_view())))


def _nested(rng: Random, count: int, depth: int = 0) -> Any:
    """An array of any type."""
    kind = rng.randrange(12)
    if depth > 3 or kind < 3:
        return _scalars(rng, count)
    if kind == 3:
        return _texts(rng, count)
    if kind == 4:
        width = rng.choice((0, 1, 2, 3))
        inner = _nested(rng, count * width, depth + 1)
        if width:
            return pa.FixedSizeListArray.from_arrays(inner, width)
        return pa.array([[]] * count, pa.list_(inner.type, 0))
    if kind == 5:
        fields = [
            rng.choice(("type", "sequence_id", "offset", "length", "tokens", "data"))
            for _ in range(rng.randint(1, 5))
        ]
        return pa.StructArray.from_arrays([_nested(rng, count, depth + 1) for _ in fields], fields)
    if kind == 6:
        ends = sorted({*rng.sample(range(1, count + 1), min(count, 2)), count} - {0})
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(ends, pa.int64()))
    if kind == 7:
        keys = pa.array(["a"] * count)
        return pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), keys, _scalars(rng, count))
    if kind == 8:
        ids = pa.array([0] * count, pa.int8())
        return pa.UnionArray.from_sparse(ids, [_scalars(rng, count), _scalars(rng, count)])
    if kind == 9:
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * count, pa.binary(16)))
    lengths = [rng.choice((0, 0, 1, 2, 5)) for _ in range(count)]
    inner = _nested(rng, sum(lengths), depth + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if kind == 10:
        made = pa.LargeListArray if rng.random() < 0.5 else pa.ListArray
        return made.from_arrays(
            pa.array(offsets, pa.int64() if made is pa.LargeListArray else pa.int32()), inner
        )
    order = rng.sample(range(count), count)
    starts = pa.array(offsets[:-1][order], pa.int32())
    return pa.ListViewArray.from_arrays(
        starts, pa.array(np.array(lengths, np.int64)[order], pa.int32()), inner
    )


def retyped(table: Any, rng: Random) -> Any:
    """The table with a column of another type, without one, or with one more."""
    i = rng.randrange(table.num_columns)
    name, column = table.schema.names[i], table.column(i)
    kind = rng.randrange(8)
    if kind == 0:
        return table.remove_column(i)
    if kind == 1:
        return table.append_column(
            rng.choice((name, "extra", "model_input", "prompt_tokens", "metadata", "")), column
        )
    if kind == 2:
        names = list(table.schema.names)
        names[i] = rng.choice((*names, "x", "datum_id", "provenance", "\0", "é" * 100))
        return table.rename_columns(names)
    if kind == 3:
        return table.slice(rng.randrange(len(table) + 1), rng.randrange(len(table) + 1))
    if kind == 4:
        return pa.concat_tables([table] * rng.choice((2, 3, 8)))
    if kind == 5:
        try:
            return table.set_column(i, name, column.cast(_wider(column.type, rng)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return table
    if kind == 6 and pa.types.is_list(column.type):
        lists = [None if rng.random() < 0.3 else value for value in column.to_pylist()]
        return table.set_column(i, name, pa.array(lists, column.type))
    return table.set_column(i, name, _nested(rng, len(table)))


def _wider(kind: Any, rng: Random) -> Any:
    """A type that means the same."""
    if pa.types.is_list(kind):
        inner = _wider(kind.value_type, rng)
        return rng.choice(
            (pa.list_(inner), pa.large_list(inner), pa.list_view(inner), pa.large_list_view(inner))
        )
    if pa.types.is_integer(kind):
        return rng.choice((pa.int64(), pa.uint64(), pa.int32(), pa.float64()))
    if pa.types.is_floating(kind):
        return rng.choice((pa.float64(), pa.float16(), pa.float32()))
    if pa.types.is_string(kind):
        return rng.choice((pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())))
    return kind


# --- containers


def parquet(table: Any, rng: Random) -> bytes:
    """The table as a Parquet file in one of many layouts; as it is where Parquet has no such type."""
    refuse_no_width(table.schema)  # pyarrow's writer ends the process
    sink = io.BytesIO()
    options: dict[str, Any] = {
        "compression": rng.choice(_CODECS),
        "row_group_size": rng.choice((1, 2, 1000)),
        "use_dictionary": rng.choice((True, False)),
        "data_page_version": rng.choice(("1.0", "2.0")),
        "data_page_size": rng.choice((16, 64, 2**20)),
        "store_schema": rng.choice((True, True, False)),
        "write_statistics": rng.choice((True, False)),
        "write_page_index": rng.choice((True, False)),
        "write_page_checksum": rng.choice((True, False)),
        "use_content_defined_chunking": False,
    }
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def ipc(table: Any, rng: Random, stream: bool) -> bytes:
    """The table as an Arrow IPC file or stream in one of many layouts."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(
        compression=rng.choice((None, None, "lz4", "zstd")),
        emit_dictionary_deltas=rng.choice((True, False)),
        unify_dictionaries=not stream and rng.random() < 0.5,
        use_threads=False,
    )
    made = pa.ipc.new_stream if stream else pa.ipc.new_file
    with made(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice((1, 2, None)))
    return sink.getvalue()


def hostile_parquet(table: Any, rng: Random) -> bytes:
    """A Parquet file in which something is wrong, and now and then nothing."""
    data = _written(table, rng, parquet)
    kind = rng.randrange(8)
    if kind < 2:
        return data
    size = int.from_bytes(data[-8:-4], "little")
    footer = slice(max(len(data) - 8 - size, 0), len(data) - 8)
    if kind < 4:
        return _with_edited_footer(data, footer, rng)
    if kind == 4:
        return _with_edited_page(data, rng)
    if kind == 5:
        return damaged(data, rng, rng.choice((footer, slice(4, footer.start))))
    return spliced(data, parquet(table, rng), rng) if kind == 6 and rng.random() < 0.2 else damaged(data, rng)


def _with_edited_footer(data: bytes, footer: slice, rng: Random) -> bytes:
    found, _ = thrift.read_struct(data[footer])
    for _ in range(rng.choice((1, 1, 2))):
        thrift.edit(found, rng)
    written = thrift.write_struct(found)
    return data[: footer.start] + written + len(written).to_bytes(4, "little") + data[-4:]


def _with_edited_page(data: bytes, rng: Random) -> bytes:
    """A page whose header lies; of the same size if possible, so that what follows stays where it is."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    if not metadata.num_row_groups:
        return data
    group = metadata.row_group(rng.randrange(metadata.num_row_groups))
    column = group.column(rng.randrange(group.num_columns))
    at = rng.choice((column.data_page_offset, column.dictionary_page_offset or column.data_page_offset))
    try:
        header, end = thrift.read_struct(data, at)
    except IndexError:  # not there, but where pyarrow says it is: nothing but the old field
        return damaged(data, rng)
    thrift.edit(header, rng)
    written = thrift.write_struct(header)
    follows = data[end:] if len(written) <= end - at else data[at + len(written) :]
    return data[:at] + written.ljust(end - at, b"\0") + follows


def hostile_ipc(table: Any, rng: Random, *, stream: bool) -> bytes:
    """An Arrow IPC file or stream in which something is wrong, and now and then nothing."""

    def write(given: Any, rng: Random) -> bytes:
        return ipc(given, rng, stream)

    changed = table if rng.random() < 0.5 else _changed(table, rng)
    try:
        data = write(changed, rng)
    except (pa.ArrowException, TypeError, ValueError):
        changed, data = table, write(table, rng)
    kind = rng.randrange(10)
    if kind < 2:
        return data
    if kind < 5:
        return _with_wrong_buffer(data, changed, rng)
    if kind == 5:
        return _messages(data, rng)
    if kind < 8:
        start = data.find(_MARK, rng.randrange(len(data)))
        length = int.from_bytes(data[start + 4 : start + 8], "little") if start >= 0 else 0
        return damaged(data, rng, slice(max(start, 0), max(start, 0) + 8 + length))
    if kind == 8 and not stream:
        return damaged(
            data, rng, slice(max(len(data) - 10 - int.from_bytes(data[-10:-6], "little"), 0), len(data))
        )
    return spliced(data, write(table, rng), rng) if rng.random() < 0.1 else damaged(data, rng)


def _changed(table: Any, rng: Random) -> Any:
    for _ in range(rng.choice((1, 1, 2))):
        if table.num_columns:
            with suppress(pa.ArrowException):  # pyarrow makes no array of some nested types
                table = retyped(table, rng)
    return table


def _written(table: Any, rng: Random, write: Any) -> bytes:
    changed = table if rng.random() < 0.3 else _changed(table, rng)
    try:
        return bytes(write(changed, rng))
    except (pa.ArrowException, OSError, TypeError, ValueError):  # no such type in the container
        return bytes(write(table, rng))


def _with_wrong_buffer(data: bytes, table: Any, rng: Random) -> bytes:
    """Offsets, sizes, indices or values of an array that are not what its type promises."""
    buffers = [
        buffer.to_pybytes()
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None and buffer.size >= 4
    ]
    if not buffers:
        return damaged(data, rng)
    found = rng.choice(buffers)
    at = data.find(found[:64])
    if at < 0:
        return damaged(data, rng)
    wrong = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        width = rng.choice((4, 4, 8, 1))
        where = at + rng.randrange(max(len(found[:256]) // width, 1)) * width
        new = rng.choice((*EDGES, rng.randrange(20)))
        wrong[where : where + width] = (new % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(wrong)


def _messages(data: bytes, rng: Random) -> bytes:
    """Messages left out, told twice or in another order."""
    starts = [i for i in range(0, len(data), 8) if data[i : i + 4] == _MARK]
    if len(starts) < 2:
        return damaged(data, rng)
    parts = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    kind = rng.randrange(3)
    if kind == 0:
        del parts[i]
    elif kind == 1:
        parts.insert(i, parts[j])
    else:
        parts[i], parts[j] = parts[j], parts[i]
    return data[: starts[0]] + b"".join(parts)
