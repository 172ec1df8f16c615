"""The messages of an Arrow IPC file or stream, as far as they say how much memory they will take.

Source: the columnar format's Message.fbs, File.fbs and Schema.fbs, and the layout of flatbuffers.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from provenance.formats._arrow_limits import bound_bytes, bound_elements

_CONTINUED: Final = b"\xff\xff\xff\xff"
_MAGIC: Final = b"ARROW1"
_DICTIONARY, _BATCH = 2, 3  # types of a message's header
_BLOCK: Final = struct.Struct("<qi4xq")  # offset, bytes of metadata, bytes of body
_BUFFER: Final = struct.Struct("<qq")  # offset and length


def check_stream(source: Any, size: int) -> None:
    """Look at each message of a stream, which is that of its schema first.

    Args:
        source: An open ``pyarrow.NativeFile``.
        size: Bytes of it.

    Raises:
        pyarrow.ArrowInvalid: a message is cut off, contradicts itself, or would become too large.
    """
    at = 0
    while at < size:
        end = _check_message(source, at, size)
        if end is None:
            return
        at = end


def check_file(source: Any, size: int) -> None:
    """Look at each message that the footer of a file names; arguments and errors as for `check_stream`."""
    if size < 20 or source.read_at(6, size - 6) != _MAGIC:
        raise pa.ArrowInvalid("no Arrow IPC file at its end: is it cut off?")
    length = int.from_bytes(source.read_at(4, size - 10), "little")
    if length > size - 18:
        raise pa.ArrowInvalid(f"a footer of {length} bytes, in a file of {size}")
    footer = _Flat(source.read_at(length, size - 10 - length))
    root = footer.pointed(0)
    for number in (2, 3):
        start, count = footer.vector(root, number, _BLOCK.size)
        for i in range(count):
            offset, metadata, body = _BLOCK.unpack_from(footer.data, start + i * _BLOCK.size)
            end = _check_message(source, offset, size) if 0 <= offset < size else None
            if end != offset + metadata + body:
                raise pa.ArrowInvalid(
                    f"the footer has a message at byte {offset}, which is not that of the footer"
                )


def _check_message(source: Any, at: int, size: int) -> int | None:
    """Where a message ends; None where the stream does."""
    head = source.read_at(8, at)
    start = at + 8 if head[:4] == _CONTINUED else at + 4  # without the mark before Arrow 0.15
    length = int.from_bytes(head[start - at - 4 : start - at], "little", signed=True)
    if not length:
        return None
    if not 0 < length <= size - start:
        raise pa.ArrowInvalid(f"a message of {length} bytes at byte {at}, in a file of {size}")
    flat = _Flat(source.read_at(length, start))
    message = flat.pointed(0)
    kind = flat.number(message, 1, "<B")
    body = flat.number(message, 3, "<q")
    start += length
    if not 0 <= body <= size - start:
        raise pa.ArrowInvalid(f"a message with a body of {body} bytes at byte {at}, in a file of {size}")
    if kind in (_DICTIONARY, _BATCH):
        batch = flat.table(message, 2)
        _check_batch(flat, flat.table(batch, 1) if kind == _DICTIONARY else batch, source, start, body)
    return start + body


def _check_batch(flat: _Flat, batch: int, source: Any, start: int, body: int) -> None:
    bound_elements(flat.number(batch, 0, "<q"), body, "a record batch")
    compressed = flat.there(batch, 3)
    first, count = flat.vector(batch, 2, _BUFFER.size)
    total = 0
    for i in range(count):
        offset, length = _BUFFER.unpack_from(flat.data, first + i * _BUFFER.size)
        if offset < 0 or not 0 <= length <= body - offset:
            raise pa.ArrowInvalid(f"a buffer of {length} bytes at byte {offset} of a body of {body}")
        if compressed and length >= 8:
            length = max(int.from_bytes(source.read_at(8, start + offset), "little", signed=True), length)
        total += length
    bound_bytes(total, body, "a record batch")


class _Flat:
    """A flatbuffer: tables, whose fields are found by number."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def _get(self, form: str, at: int) -> int:
        if not 0 <= at <= len(self.data) - struct.calcsize(form):
            raise pa.ArrowInvalid("damaged metadata: an offset leads out of it")
        value: int = struct.unpack_from(form, self.data, at)[0]
        return value

    def pointed(self, at: int) -> int:
        """Where an offset leads to."""
        return at + self._get("<I", at)

    def there(self, table: int, number: int) -> int:
        """Where a field of a table is; 0 where it is not there."""
        fields = table - self._get("<i", table)
        slot = 4 + 2 * number
        offset = self._get("<H", fields + slot) if slot + 2 <= self._get("<H", fields) else 0
        return table + offset if offset else 0

    def number(self, table: int, field: int, form: str) -> int:
        """A number, 0 where it is not there."""
        at = self.there(table, field)
        return self._get(form, at) if at else 0

    def table(self, table: int, number: int) -> int:
        """A table in a table."""
        at = self.there(table, number)
        if not at:
            raise pa.ArrowInvalid("damaged metadata: a table is missing")
        return self.pointed(at)

    def vector(self, table: int, number: int, width: int) -> tuple[int, int]:
        """Where the elements of a list of structs start, and how many there are."""
        at = self.there(table, number)
        if not at:
            return 0, 0
        at = self.pointed(at)
        count = self._get("<I", at)
        if count * width > len(self.data) - at - 4:
            raise pa.ArrowInvalid("damaged metadata: a list leads out of it")
        return at + 4, count
