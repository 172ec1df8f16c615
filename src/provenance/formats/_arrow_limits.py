"""What Arrow and Parquet files may ask for, looked at before pyarrow does as it is told.

A few bytes of such a file can stand for any amount of memory: a compressed buffer or page that says how large
it becomes, a run of one value that is as long as it says, rows without bytes, lists that share elements. So
what a file grows to is bounded by what is stored of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

#: Bytes that what is compressed may become, for each byte that is stored, and in any case.
_GROWTH: Final = 100
_BYTES: Final = 2**28
#: The same of one page of a Parquet file, of which there is one at a time for each column.
_PAGE_GROWTH: Final = 256
_PAGE_BYTES: Final = 2**25
#: Elements of lists, values and rows, for each byte that is stored, and in any case.
_DENSITY: Final = 64
_ELEMENTS: Final = 2**24


def bound_bytes(size: int, stored: int, what: str) -> None:
    """Raise `pyarrow.ArrowInvalid` for more bytes than what is stored may become."""
    _bound(size, max(_BYTES, _GROWTH * stored), "bytes", stored, what)


def bound_page(size: int, stored: int, what: str) -> None:
    """Raise `pyarrow.ArrowInvalid` for a page of more bytes than what is stored of it may become."""
    _bound(size, max(_PAGE_BYTES, _PAGE_GROWTH * stored), "bytes", stored, what)


def bound_elements(count: int, stored: int, what: str) -> None:
    """Raise `pyarrow.ArrowInvalid` for more elements, values or rows than what is stored may hold."""
    _bound(count, max(_ELEMENTS, _DENSITY * stored), "elements", stored, what)


def _bound(size: int, most: int, unit: str, stored: int, what: str) -> None:
    if size > most:
        raise pa.ArrowInvalid(
            f"{what} would have {size} {unit}, made of {stored} bytes, where the limit is {most}"
        )


def refuse_unions(schema: pa.Schema) -> None:
    """Raise `pyarrow.ArrowInvalid` for a union in a column: to copy one may end the process in Arrow."""
    for name, kind in _types_of(schema):
        if pa.types.is_union(kind):
            raise pa.ArrowInvalid(f"column {name!r} holds a union, which cannot be copied")


def refuse_no_width(schema: pa.Schema) -> None:
    """Raise `pyarrow.ArrowInvalid` for lists of 0 elements each: to write them may end the process."""
    for name, kind in _types_of(schema):
        if pa.types.is_fixed_size_list(kind) and not kind.list_size:
            raise pa.ArrowInvalid(f"column {name!r} holds {kind}, which cannot be written to Parquet")


def _types_of(schema: pa.Schema) -> Iterator[tuple[str, Any]]:
    """The names of columns with their types and all types in these."""
    for field in schema:
        kinds = [field.type]
        while kinds:
            kind = kinds.pop()
            yield field.name, kind
            if pa.types.is_dictionary(kind):
                kinds.append(kind.value_type)
            kinds += [kind.field(i).type for i in range(kind.num_fields)]
