"""Training requests whose fields, lengths and numbers are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from hostile.damage import WIDE, damaged, spliced

_DEEPEST = 7


def varint(number: int) -> bytes:
    number %= 2**64
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] > 0x7F:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1


def _fields(data: bytes) -> list[tuple[int, bytes]] | None:
    """Tag and bytes of each field; None for what is no message."""
    found, at = [], 0
    try:
        while at < len(data):
            tag, at = _read(data, at)
            wire = tag & 7
            if wire == 0:
                start, (_, at) = at, _read(data, at)
            elif wire == 2:
                size, start = _read(data, at)
                at = start + size
            elif wire in (1, 5):
                start, at = at, at + (8 if wire == 1 else 4)
            else:
                return None
            if at > len(data) or not tag >> 3:
                return None
            found.append((tag, data[start:at]))
    except IndexError:
        return None
    return found


def _written(fields: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        varint(tag) + (varint(len(value)) if tag & 7 == 2 else b"") + value for tag, value in fields
    )


def edited(data: bytes, rng: Random, depth: int = 0) -> bytes:
    """A message with one field changed, at any depth."""
    fields = _fields(data)
    if not fields:
        return damaged(data, rng)
    i = rng.randrange(len(fields))
    tag, value = fields[i]
    if tag & 7 == 2 and value and depth < _DEEPEST and rng.random() < 0.8:
        fields[i] = tag, edited(value, rng, depth + 1)
        return _written(fields)
    kind = rng.randrange(9)
    if kind == 0:
        del fields[i]
    elif kind == 1:
        fields.insert(rng.randrange(len(fields) + 1), fields[i])
    elif kind == 2:
        fields[i] = rng.choice((tag ^ 8, tag ^ 1, tag ^ 2, tag + 80, 7, 2**29 * 8)), value
    elif kind == 3 and tag & 7 == 0:
        fields[i] = (
            tag,
            rng.choice((varint(rng.choice(WIDE)), b"\x80" * 9 + b"\x01", b"\x80\x00", b"\x80" * 12)),
        )
    elif kind == 4:
        wrong = varint(rng.choice((len(value) + 1, max(len(value) - 1, 0), *WIDE)))
        return _written(fields[:i]) + varint(tag) + wrong + value + _written(fields[i + 1 :])
    elif kind == 5:
        fields[i] = tag, b""
    elif kind == 6:
        fields[i] = tag, value * rng.choice((2, 3, 100))
    elif kind == 7:
        fields[i] = (
            tag,
            rng.choice((b"\xff\xfe", b"\0" * 8, b"\xff" * 16, "é".encode(), value[1:] + value[:1])),
        )
    else:
        for _ in range(rng.choice((3, 200))):
            value = varint(tag) + varint(len(value)) + value
        fields[i] = tag, value
    return _written(fields)


def hostile_request(data: bytes, other: bytes, rng: Random) -> bytes:
    """A training request in which something is wrong."""
    kind = rng.randrange(10)
    if kind < 7:
        for _ in range(rng.choice((1, 1, 2))):
            data = edited(data, rng)
        return data
    return spliced(data, other, rng) if kind == 7 else damaged(data, rng)


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that is whole."""
    yield from _fields(data) or ()
