"""Values of JSON that are not what a reader expects, and lines with faults that only text can have."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hostile.damage import WIDE, damaged

_NUMBERS = (*WIDE, 0.5, -0.0, 1e308, -1e308, 3.5e38, 1e-45, 2.0**53, 2.0**63, float("nan"), float("inf"))
_VALUES = (
    None, True, False, "", "x", "s:1", "\0", "\ud800", "é" * 20, "1", "encoded_text", "float32",
    [], [[]], [None], [0], [[1], [2, 3]], [1.5], ["1"], {}, {"": 0}, {"data": [1]}, -1, 10**30, 10**400,
)  # fmt: skip
_KEYS = ("", "data", "tokens", "type", "offset", "length", "shape", "dtype", "extra", "\0", "provenance", "é")
_SPELLINGS = (
    b"NaN", b"-NaN", b"nan", b"Infinity", b"-Infinity", b"+1", b"01", b"1.", b".5", b"1e", b"1e400",
    b"1E+2", b"1e5", b"2.0", b"-0", b"-0.0", b"0x10", b"1_000", b"9007199254740993", b"9" * 25,
    b"9" * 5000,
    b"1" + b"0" * 4999 + b".5",
    b"tru", b"True", b"nul", b"null", b"'a'", b'"\\ud800"', b'"\\x41"', b'"\t"',
    b"[" * 2000, b"[" * 2000 + b"]" * 2000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b"/**/", b"\xff",
    b"\xed\xa0\x80", b"\xc0\x80", b'"\xff"', b"\xef\xbb\xbf", b"\0", b"{}", b"[]", b'""',
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each object or list in a value with each of its keys."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def edit(value: Any, rng: Random) -> None:
    """Change one thing in an object."""
    found = list(places(value))
    if not found:
        return
    # As often something near the root as one of many numbers.
    holder, key = (
        rng.choice(found) if rng.random() < 0.5 else rng.choice(found[:1] + found[:: len(found) // 8 + 1])
    )
    old = holder[key]
    kind = rng.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(old))
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(_KEYS)] = holder.pop(key) if rng.random() < 0.5 else copy.deepcopy(old)
    elif kind == 3 and isinstance(old, list):
        holder[key] = rng.choice((old[:-1], old * 2, old[::-1], [old], [*old, None], old[:1]))
    elif kind == 4:
        other, at = rng.choice(found)
        holder[key] = copy.deepcopy(other[at])
    elif isinstance(old, (int, float)) and not isinstance(old, bool):
        holder[key] = rng.choice((*_NUMBERS, old + 1, -old, str(old), [old], min(old, 2**53) / 1))
    else:
        holder[key] = copy.deepcopy(rng.choice(_VALUES))


def edited(value: Any, rng: Random) -> Any:
    """The value with one to three things changed."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        edit(value, rng)
    return value


def line(value: Any, rng: Random) -> bytes:
    """A line of JSON, not always in the shortest spelling."""
    text = json.dumps(
        value,
        ensure_ascii=rng.random() < 0.7,
        separators=rng.choice(((",", ":"), (", ", ": "), (" ,", "\t:\r"))),
        sort_keys=rng.random() < 0.1,
    )
    return text.encode("utf-8", "surrogatepass")


def respelled(data: bytes, rng: Random) -> bytes:
    """A line with another token in the place of one, or an object with a key twice."""
    tokens = [i for i, byte in enumerate(data) if byte in b'[{,:]}"' or chr(byte).isdigit()]
    if not tokens:
        return data
    at = rng.choice(tokens)
    kind = rng.randrange(4)
    if kind == 0:
        end = at
        while end < len(data) and data[end] in b"0123456789.-e":
            end += 1
        return data[:at] + rng.choice(_SPELLINGS) + data[max(end, at + (end == at)) :]
    if kind == 1:
        return data[:at] + rng.choice(_SPELLINGS) + data[at:]
    if kind == 2:
        return data[:at] + data[at + 1 :]
    colon = data.find(b'":', at)
    start = data.rfind(b'"', 0, max(colon, 0))
    if colon < 0 or start < 0:
        return data
    key = data[start : colon + 2]
    return data[:start] + key + rng.choice((b"0", b"[]", b"null", b'"a"', b"{}")) + b"," + data[start:]


def lines(records: list[Any], rng: Random) -> bytes:
    """A file of lines of JSON in which something is wrong, and now and then nothing."""
    made = []
    for record in records:
        fate = rng.random()
        made.append(line(edited(record, rng) if fate < 0.5 else record, rng))
        if fate > 0.75:
            made[-1] = respelled(made[-1], rng)
    ends = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r", b"\0\n", b" \n\t"))
    data = ends.join(made) + rng.choice((b"\n", b"", b"\n\n"))
    if rng.random() < 0.1:
        mark = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xff\xfe\0\0", b"\xfe\xff", b"\xef\xbb\xbf" * 2))
        data = mark + data
    return damaged(data, rng) if rng.random() < 0.3 else data
