"""Damage to bytes, whatever they mean."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

#: Numbers that readers trip over, where they are lengths, counts, offsets or types.
EDGES = (
    *(0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 2**15 - 1, 2**16, 2**24, 2**28, 2**30, 2**31 - 2, 2**31 - 1),
    *(-1, -2, -8, -128, -(2**15), -(2**31)),
)
WIDE = (*EDGES, 2**31, 2**32 - 1, 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
_BYTES = (0, 1, 0x0A, 0x20, 0x22, 0x5B, 0x7F, 0x80, 0xC0, 0xFE, 0xFF)
_LONGEST = 64

Damage = Callable[[bytearray, Random], None]


def place(data: bytearray, rng: Random, most: int = _LONGEST) -> slice:
    """Some bytes next to each other, none where there are none."""
    start = rng.randrange(len(data) + 1)
    return slice(start, min(start + rng.randint(1, most), len(data)))


def flip(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def odd_byte(data: bytearray, rng: Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(_BYTES)


def cut_off(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def cut_out(data: bytearray, rng: Random) -> None:
    del data[place(data, rng)]


def repeat(data: bytearray, rng: Random) -> None:
    part = data[place(data, rng)]
    at = rng.randrange(len(data) + 1)
    data[at:at] = part * rng.choice((1, 1, 2, 50))


def insert(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.randint(1, 16))


def overwrite(data: bytearray, rng: Random) -> None:
    where = place(data, rng)
    data[where] = data[place(data, rng)][: where.stop - where.start].ljust(where.stop - where.start, b"\0")


def blank(data: bytearray, rng: Random) -> None:
    where = place(data, rng)
    data[where] = bytes([rng.choice((0, 0xFF))]) * (where.stop - where.start)


def number(data: bytearray, rng: Random) -> None:
    """A number of four or eight bytes, where they are aligned as in most formats, becomes one at an edge."""
    form, edges = rng.choice((("<i", EDGES), ("<q", WIDE), (">i", EDGES)))
    width = struct.calcsize(form)
    if len(data) < width:
        return
    at = rng.randrange(len(data) - width + 1) // rng.choice((1, 4, 4)) * 4
    at = min(at, len(data) - width)
    old = struct.unpack_from(form, data, at)[0]
    near = old + rng.choice((-1, 1, -old - 1 - old))
    new = rng.choice((*edges, near))
    struct.pack_into(form, data, at, max(min(new, 2 ** (8 * width - 1) - 1), -(2 ** (8 * width - 1))))


DAMAGES: tuple[Damage, ...] = (
    flip,
    flip,
    odd_byte,
    cut_off,
    cut_out,
    repeat,
    insert,
    overwrite,
    blank,
    number,
)


def damaged(data: bytes, rng: Random, among: slice = slice(None)) -> bytes:
    """The bytes with one to four faults in a part of them."""
    start, stop, _ = among.indices(len(data))
    part = bytearray(data[start:stop])
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(DAMAGES)(part, rng)
    return data[:start] + bytes(part) + data[stop:]


def spliced(data: bytes, other: bytes, rng: Random) -> bytes:
    """The start of one file and the end of another."""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
