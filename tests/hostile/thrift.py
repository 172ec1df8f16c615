"""Thrift's compact protocol, in which Parquet's footer and page headers are written: read, edited, written.

A struct is a list of fields ``[number, type, value]``; a list is ``[type, values]``. Source: the Apache
Thrift compact protocol.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from hostile.damage import WIDE
from hostile.messages import varint

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 7, 8, 9, 12
_INTEGERS = (4, 5, 6)

Struct = list[list[Any]]


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] > 0x7F:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _signed(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _unsigned(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def read_struct(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that starts at a byte, and where it ends."""
    fields: Struct = []
    number = 0
    while data[at]:
        head, at = data[at], at + 1
        if head >> 4:
            number += head >> 4
        else:
            found, at = _number(data, at)
            number = _signed(found)
        value, at = _read(data, at, head & 15)
        fields.append([number, head & 15, value])
    return fields, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _INTEGERS:
        value, at = _number(data, at)
        return _signed(value), at
    if kind in (_BYTE, _DOUBLE):
        width = 8 if kind == _DOUBLE else 1
        return data[at : at + width], at + width
    if kind == _BINARY:
        size, at = _number(data, at)
        return data[at : at + size], at + size
    if kind == _STRUCT:
        return read_struct(data, at)
    if kind != _LIST:
        raise IndexError(f"type {kind}, which Parquet has not")
    head, at = data[at], at + 1
    size = head >> 4
    if size == 15:
        size, at = _number(data, at)
    values = []
    for _ in range(size):
        value, at = _read(data, at, head & 15)
        values.append(value)
    return [head & 15, values], at


def write_struct(fields: Struct) -> bytes:
    found, before = bytearray(), 0
    for number, kind, value in fields:
        told = (_TRUE if value else _FALSE) if kind in (_TRUE, _FALSE) else kind
        step = number - before
        found += bytes([step << 4 | told]) if 0 < step < 16 else bytes([told]) + varint(_unsigned(number))
        found += _write(kind, value)
        before = number
    return bytes(found) + b"\0"


def _write(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return b""
    if kind in _INTEGERS:
        return varint(_unsigned(value))
    if kind == _BINARY:
        return varint(len(value)) + value
    if kind == _STRUCT:
        return write_struct(value)
    if kind == _LIST:
        inner, values = value
        head = (
            bytes([len(values) << 4 | inner])
            if len(values) < 15
            else bytes([0xF0 | inner]) + varint(len(values))
        )
        return head + b"".join(_write(inner, item) for item in values)
    return bytes(value)


def fields_of(struct: Struct) -> Iterator[tuple[Struct, int]]:
    """Each struct in a struct with the place of each of its fields."""
    for i, (_, kind, value) in enumerate(struct):
        yield struct, i
        if kind == _STRUCT:
            yield from fields_of(value)
        elif kind == _LIST and value[0] == _STRUCT:
            for item in value[1]:
                yield from fields_of(item)


def edit(struct: Struct, rng: Random) -> None:
    """Change one field."""
    places = list(fields_of(struct))
    if not places:
        return
    holder, i = rng.choice(places)
    number, kind, value = holder[i]
    fate = rng.randrange(8)
    if kind in _INTEGERS and fate < 6:
        holder[i][2] = rng.choice((*WIDE, value + 1, value - 1, value * 2, -value))
    elif kind == _BINARY and fate < 6:
        holder[i][2] = rng.choice(
            (b"", b"\xff", value + b"\0", value * 3, b"model_input", b"list", b"element")
        )
    elif kind == _LIST and fate < 6 and value[1]:
        items = value[1]
        j = rng.randrange(len(items))
        wrong = (items[:j] + items[j + 1 :], [*items, items[j]], items[::-1], items * 5, [])
        value[1] = copy.deepcopy(rng.choice(wrong))
    elif fate == 6:
        del holder[i]
    else:
        holder[i][0] = rng.choice((number + 1, number + 20, max(number - 1, 1)))
