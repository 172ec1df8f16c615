"""What a Parquet file says of itself, looked at before pyarrow does as it is told.

Page headers say how much memory a page takes, whatever the footer says; and pyarrow 26 ends the process where
the footer's histograms of levels have not the size that the schema tells. Source: apache/parquet-format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import pyarrow as pa

from provenance.formats._arrow_limits import bound_elements, bound_page
from provenance.formats._thrift import read_struct

#: Bytes that a header has mostly, and at most, for statistics may hold long values.
_USUAL: Final = 256
_MOST: Final = 2**20
# Fields of the footer and of what is in it; rows are counted in both of the first two.
_GROUPS, _COLUMNS, _META, _VALUES, _SIZES = 4, 1, 3, 5, 16
_ROWS = 3
# Fields of a page header, and of those in it, whose first field is the number of values.
_UNCOMPRESSED, _COMPRESSED = 2, 3
_DATA, _DICTIONARY, _DATA_V2 = 5, 7, 8
#: Bytes that a value of a dictionary takes at least; of other types one, or more.
_WIDTHS: Final = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}


def check_footer(source: Any, size: int, schema: Any) -> None:
    """Look at what pyarrow takes on trust when it is asked about a column of a row group.

    Args:
        source: An open ``pyarrow.NativeFile``.
        size: Bytes of it.
        schema: Its ``pyarrow.parquet.ParquetSchema``.

    Raises:
        pyarrow.ArrowInvalid: the footer contradicts the schema, or itself.
    """
    length = int.from_bytes(source.read_at(4, size - 8), "little")
    try:
        footer, _ = read_struct(source.read_at(length, size - 8 - length))
        columns = [schema.column(i) for i in range(len(schema.names))]
        expected = [
            (c.physical_type == "BYTE_ARRAY", c.max_repetition_level + 1, c.max_definition_level + 1)
            for c in columns
        ]
        _check_rows(footer)
        for group in footer.get(_GROUPS, ()):
            for column, chunk in zip(expected, group[_COLUMNS], strict=True):
                _check_sizes(chunk[_META].get(_SIZES, {}), *column)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid(
            "a footer that contradicts itself or the schema: is the file damaged?"
        ) from error


def _check_rows(footer: dict[int, Any]) -> None:
    groups = footer.get(_GROUPS, ())
    if sum(group[_ROWS] for group in groups) != footer[_ROWS]:
        raise ValueError("rows that are in no row group")
    # A row has a value in each column, be it a null or an empty list.
    if any(not 0 <= group[_ROWS] <= c[_META][_VALUES] for group in groups for c in group[_COLUMNS]):
        raise ValueError("more rows than values")


def _check_sizes(sizes: dict[int, Any], is_bytes: bool, repetitions: int, definitions: int) -> None:
    if 1 in sizes and not is_bytes:
        raise ValueError("bytes of a column that has none")
    for number, levels in ((2, repetitions), (3, definitions)):
        if sizes.get(number) and len(sizes[number]) != levels:
            raise ValueError("a histogram of another size")


def check_pages(source: Any, metadata: Any, groups: Iterable[int], names: Collection[str] | None) -> None:
    """Look at the header of each page of some row groups.

    Args:
        source: An open ``pyarrow.NativeFile``.
        metadata: The file's ``pyarrow.parquet.FileMetaData``.
        groups: Numbers of the row groups.
        names: The columns that will be read, None for all.

    Raises:
        pyarrow.ArrowInvalid: a page contradicts the footer, or would become too large.
    """
    for number in groups:
        group = metadata.row_group(number)
        columns = (group.column(i) for i in range(group.num_columns))
        chosen = [c for c in columns if names is None or c.path_in_schema.partition(".")[0] in names]
        stored = sum(max(column.total_compressed_size, 0) for column in chosen)
        values = sum(max(column.num_values, 0) for column in chosen)
        bound_elements(values, stored, f"row group {number}")
        for column in chosen:
            _check_column(source, column, f"row group {number}: {column.path_in_schema}")


def _check_column(source: Any, column: Any, place: str) -> None:
    if column.num_values == 0:
        return  # pyarrow writes no page then, and 0 for its place
    first, data = column.dictionary_page_offset, column.data_page_offset
    at = first if first is not None and 0 < first < data else data
    end, size = at + column.total_compressed_size, source.size()
    if not 0 < at <= end <= size:
        raise pa.ArrowInvalid(f"{place} is at bytes {at} to {end} of a file of {size}")
    left = column.num_values
    while at < end and left > 0:
        header, length = _header(source, at, place)
        stored, becomes = header.get(_COMPRESSED, 0), header.get(_UNCOMPRESSED, 0)
        at += length + stored
        if stored < 0 or at > end:
            raise pa.ArrowInvalid(f"{place}: a page of {stored} bytes ends behind its column")
        bound_page(becomes, stored, f"{place}: a page")
        values = header.get(_DICTIONARY, {}).get(1, 0)
        if not 0 <= values <= becomes // _WIDTHS.get(column.physical_type, 1):
            raise pa.ArrowInvalid(f"{place}: a dictionary of {values} values in a page of {becomes} bytes")
        for kind in (_DATA, _DATA_V2):
            values = header.get(kind, {}).get(1, 0)
            if values < 0:
                raise pa.ArrowInvalid(f"{place}: a page of {values} values")
            left -= values
        if left < 0:
            raise pa.ArrowInvalid(f"{place}: {-left} values more than the {column.num_values} of the footer")


def _header(source: Any, at: int, place: str) -> tuple[dict[int, Any], int]:
    """A page header and its size."""
    for length in (_USUAL, _MOST):
        try:
            header, size = read_struct(source.read_at(length, at))
        except IndexError:
            continue
        except ValueError:
            break
        numbers = (header.get(_COMPRESSED, 0), header.get(_UNCOMPRESSED, 0))
        inner = [header.get(kind, {}) for kind in (_DATA, _DICTIONARY, _DATA_V2)]
        if all(isinstance(n, int) for n in numbers) and all(
            isinstance(page, dict) and isinstance(page.get(1, 0), int) for page in inner
        ):
            return header, size
        break
    raise pa.ArrowInvalid(f"{place}: no page header at byte {at}")
