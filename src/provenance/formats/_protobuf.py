"""The wire format of protocol buffers: the fields of a message, told apart by a table of them.

Source: protobuf.dev/programming-guides/encoding. Stricter than the format, which skips unknown fields and
merges repeated ones: here both mean that the bytes are not what they are taken for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from provenance.formats._problem import join

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
_FIXED32: Final = 5
_LONGEST: Final = 10  # bytes of a varint
_SIGN: Final = 1 << 63


class WireError(Exception):
    """Bytes that are not the message they should be: the path of the field, and why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class Field(NamedTuple):
    """A field of a message."""

    name: str
    wire: int
    read: Callable[[Any, str], Any]
    """From the number or the bytes, and the field's path, to the value."""
    many: bool = False
    """The field may occur more than once, and its value is a list."""


Message = Mapping[int, Field]


def decode(data: memoryview, message: Message, path: str = "") -> dict[str, Any]:
    """The fields of a message that are there, by name.

    Raises:
        WireError: a field is cut off, unknown, of another type, or there more often than it may be.
    """
    return collect(_fields(data, path), message, path)


def collect(
    fields: Iterable[tuple[int, int, int | memoryview]], message: Message, path: str = ""
) -> dict[str, Any]:
    """Read fields that were told apart already, as `decode` does."""
    found: dict[str, Any] = {}
    for number, wire, value in fields:
        field = message.get(number)
        if field is None:
            raise WireError(path, f"field {number}, expected one of {', '.join(map(str, message))}")
        place = join(path, field.name)
        if wire != field.wire and not (field.read is numbers and wire == VARINT):
            raise WireError(place, f"wire type {wire}, expected {field.wire}")
        if field.many:
            values = found.setdefault(field.name, [])
            values += field.read(value, place if field.read is numbers else f"{place}[{len(values)}]")
        elif field.name in found:
            raise WireError(place, "there twice, expected once")
        else:
            found[field.name] = field.read(value, place)
    return found


def _fields(data: memoryview, path: str) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at, path)
        wire = tag & 7
        if wire == VARINT:
            value, at = varint(data, at, path)
            yield tag >> 3, wire, value
            continue
        if wire == BYTES:
            size, at = varint(data, at, path)
        elif wire in (FIXED64, _FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise WireError(path, f"wire type {wire}, which no field has")
        if size > end - at:
            raise WireError(path, f"{end - at} bytes left, expected {size}")
        yield tag >> 3, wire, data[at : at + size]
        at += size


def varint(data: memoryview | bytes, at: int, path: str) -> tuple[int, int]:
    """The unsigned number that starts at a byte, below 2^64, and where the next field starts."""
    number = 0
    for i, byte in enumerate(data[at : at + _LONGEST]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number & (2 * _SIGN - 1), at + i + 1
    raise WireError(path, "a number without an end")


# What a field holds


def signed(value: int, _: str) -> int:
    """An int32, int64 or enum."""
    return value - 2 * _SIGN if value >= _SIGN else value


def flag(value: int, _: str) -> bool:
    """A bool."""
    return bool(value)


def double(value: memoryview, _: str) -> float:
    """A double."""
    number: float = struct.unpack("<d", value)[0]
    return number


def raw(value: memoryview, _: str) -> memoryview:
    """Bytes, not copied."""
    return value


def text(value: memoryview, path: str) -> str:
    """A string."""
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise WireError(path, f"{bytes(value[:40])!r} is not UTF-8") from None


def numbers(value: int | memoryview, path: str) -> list[int]:
    """Repeated integers, packed or not."""
    if isinstance(value, int):
        return [signed(value, path)]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at, path)
        found.append(signed(number, path))
    return found


def one(message: Message) -> Callable[[memoryview, str], dict[str, Any]]:
    """A message in a message."""
    return lambda value, path: decode(value, message, path)


def each(message: Message) -> Callable[[memoryview, str], list[dict[str, Any]]]:
    """One of the messages of a repeated field, or of the entries of a map."""
    return lambda value, path: [decode(value, message, path)]


def stream(blocks: Iterable[bytes], largest: int) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value of each field of a message that is read block by block.

    Raises:
        WireError: the message is cut off, or a field has more than ``largest`` bytes.
    """
    source = iter(blocks)
    data, at, before = b"", 0, 0  # a block, where the next field starts in it, bytes of earlier blocks

    def there(count: int) -> bool:
        """Whether that many bytes follow; blocks are read for them."""
        nonlocal data, at, before
        parts = [memoryview(data)[at:]]
        size = len(parts[0])
        while size < count and (block := next(source, b"")):
            parts.append(memoryview(block))
            size += len(block)
        if len(parts) > 1:
            data, at, before = b"".join(parts), 0, before + at
        return size >= count

    while there(1):
        there(2 * _LONGEST)
        place = f"byte {before + at}"
        tag, at = varint(data, at, place)
        wire = tag & 7
        if wire == VARINT:
            value, at = varint(data, at, place)
            yield tag >> 3, wire, value
            continue
        if wire not in (BYTES, FIXED64):
            raise WireError(place, f"wire type {wire}, which no field of a request has")
        size, at = varint(data, at, place) if wire == BYTES else (8, at)
        if size > largest:
            raise WireError(place, f"a field of {size} bytes, the limit is {largest}")
        if not there(size):
            raise WireError(place, f"cut off, {size} bytes expected and {len(data) - at} there")
        yield tag >> 3, wire, memoryview(data)[at : at + size]
        at += size
