"""JSON to the letter: a reading that sees every key and every number, and a writing that keeps NaN."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np
from pydantic import BaseModel

from provenance.formats._problem import RecordError, join, shown
from provenance.models._arrays import to_numpy

#: What a file in another Unicode encoding starts with; ``_io`` hands it out as the file's only line.
FOREIGN_MARKS: Final = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
# More digits than any float or int64 has. CPython refuses to convert more than 4,300 of them.
_MAX_DIGITS: Final = 400
_KINDS: Final = {list: "a list", str: "a string", bool: "a bool", type(None): "null"}
_HUGE: Final = 10**_MAX_DIGITS


class _Repeating(dict[str, Any]):
    """An object that named a key twice."""

    repeated: str


def parse(line: bytes) -> dict[str, Any]:
    """Parse a line that has to hold one JSON object.

    Raises:
        RecordError: FMT002 for what is not UTF-8, FMT001 for what is not one object, FMT003 for a key that an
            object names twice. Columns count from 1; the line itself is not shown.
    """
    if line in FOREIGN_MARKS:
        message = f"{FOREIGN_MARKS[line]} by its first bytes, expected UTF-8"
        raise RecordError("", message, code="FMT002")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        message = f"byte 0x{byte:02x} at column {error.start + 1} is not UTF-8"
        raise RecordError("", message, code="FMT002") from None
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
        repeated = _find_repeated(value, "")
    except json.JSONDecodeError as error:
        raise RecordError("", _syntax(error, text), code="FMT001") from None
    except RecursionError:
        raise RecordError("", "nested too deeply", code="FMT001") from None
    if repeated is not None:
        path, key = repeated
        raise RecordError(path, f"key {shown(key)} occurs twice in one object", code="FMT003")
    if not isinstance(value, dict):
        raise RecordError("", f"{_KINDS.get(type(value), 'a number')}, expected an object", code="FMT001")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeating = _Repeating(value)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeating.repeated = key
        seen.add(key)
    return repeating


def _integer(digits: str) -> int:
    if len(digits) <= _MAX_DIGITS:
        return int(digits)
    return -_HUGE if digits.startswith("-") else _HUGE


def _find_repeated(value: object, path: str) -> tuple[str, str] | None:
    """Path of an object that names a key twice, and the key."""
    if isinstance(value, _Repeating):
        return path, value.repeated
    if isinstance(value, dict):
        parts = ((join(path, key), item) for key, item in value.items())
    elif isinstance(value, list):
        parts = ((f"{path}[{i}]", item) for i, item in enumerate(value) if isinstance(item, (dict, list)))
    else:
        return None
    for place, item in parts:
        found = _find_repeated(item, place)
        if found is not None:
            return found
    return None


def _syntax(error: json.JSONDecodeError, text: str) -> str:
    if error.msg == "Extra data":
        what = "a comma after the object" if text[error.pos :].strip() == "," else "more text after the value"
        return f"{what}, at column {error.colno}"
    if not text[error.pos :].strip():
        return f"the line ends too early, at column {error.colno}"
    return f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}".replace(" at at ", " at ")


def dumps(value: object) -> bytes:
    """Write a value on one line. NaN and infinity become the literals that the readers take.

    Models become objects, numpy arrays and torch tensors lists, bytes base64, datetimes RFC 3339.

    Raises:
        TypeError, ValueError, RecursionError: for what has no form in JSON.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    try:
        text = msgspec.json.encode(value, enc_hook=_plain)
        # msgspec writes NaN and infinity as null.
        if b"null" not in text:
            return text
    except (TypeError, ValueError, msgspec.MsgspecError):
        pass
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    array = to_numpy(value)
    if array is None:
        raise TypeError(f"{shown(value)} has no form in JSON")
    return array.tolist()
