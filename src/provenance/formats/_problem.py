"""What is wrong with one record, and the checks of a JSON-shaped object that every reader needs."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from provenance.errors import SchemaError
from provenance.models._base import shorten


class RecordError(Exception):
    """A record cannot be read: the FMT code, the path of the field, and what is wrong with it."""

    def __init__(self, field: str, message: str, *, code: str = "FMT004") -> None:
        super().__init__(f"{field}: {message}")
        self.code = code
        self.field = field
        self.message = message


class RowError(SchemaError):
    """A row that a format cannot hold: its number, the path of the field, and why."""

    def __init__(self, row: int, field: str, reason: str, code: str | None = None) -> None:
        """Name the row, from 0, and the field, which may be ""."""
        self.row = row
        self.what = f"{field}: {reason}" if field else reason
        super().__init__(f"row {row}: {self.what}", code=code)


def shown(value: object) -> str:
    """The value as a message shows it: short, and null as JSON writes it."""
    return "null" if value is None else shorten(value)


def join(path: str, name: str) -> str:
    """The path of a field of the object at ``path``."""
    return f"{path}.{name}" if path else name


def object_of(value: object, path: str) -> Mapping[str, Any]:
    """The fields of a mapping or of a model, not those inside of them; a model's arrays stay arrays."""
    if isinstance(value, BaseModel):
        return vars(value)  # dict(value) costs more than all the rest of reading a span
    if isinstance(value, Mapping):
        return value
    raise RecordError(path, f"{shown(value)} is not an object")


def refuse_unknown(fields: Mapping[str, Any], known: Collection[str], path: str) -> None:
    """Raise for a field that is not among those known."""
    for name in fields:
        if name not in known:
            close = difflib.get_close_matches(shown(name).strip("'"), known, 1)
            hint = f", did you mean {close[0]!r}" if close else ""
            raise RecordError(path, f"unknown field {shown(name)}{hint}")


def required(fields: Mapping[str, Any], name: str, path: str) -> Any:
    """The value of a field that has to be there; null counts as missing."""
    value = fields.get(name)
    if value is None:
        raise RecordError(join(path, name), "null" if name in fields else "missing")
    return value


def text_of(value: object, path: str) -> str:
    """The value, which has to be a string that UTF-8 can write."""
    if not isinstance(value, str):
        raise RecordError(path, f"{shown(value)} is not a string")
    if not is_unicode(value):
        raise RecordError(path, f"{shown(value)} holds half of a surrogate pair")
    return value


def is_unicode(text: str) -> bool:
    r"""Whether UTF-8 can write the string: JSON may escape half of a surrogate pair, ``"\ud800"``."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
