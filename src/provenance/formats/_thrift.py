"""Thrift's compact protocol, in which the footer and the page headers of Parquet files are written.

Source: the Apache Thrift compact protocol.
"""

from __future__ import annotations

from typing import Any, Final

_DEEPEST: Final = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
)


def read_struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The struct that starts at a byte, by the numbers of its fields, and where it ends.

    Integers are int, lists are list, structs are dict; of other values it is known only that they are there.

    Raises:
        IndexError: the data end before the struct.
        ValueError: it is no struct, or one of unusual depth.
    """
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed(data, at)
        found[number], at = _value(data, at, head & 15, depth)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_I16, _I32, _I64):
        return _signed(data, at)
    if kind == _BINARY:
        size, at = _varint(data, at)
        return None, _within(data, at + size)
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (_TRUE, _FALSE):
        return None, at
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    raise ValueError(f"type {kind}, which Parquet has not")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = data[at], at + 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = _varint(data, at)
    _within(data, at + size)  # each element has a byte at least
    values = []
    for _ in range(size):
        # In a list, and not among fields, a bool has a byte of its own.
        value, at = _value(data, at, _BYTE if kind in (_TRUE, _FALSE) else kind, depth)
        values.append(value)
    return values, at


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError("the data end early")
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | byte << shift, at + 1


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
