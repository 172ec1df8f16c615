"""Columns of a record batch as JSON text, one a row: numbers by Arrow's kernels, never one by one in Python.

Floats get the fewest digits that read back as the same float32 (or float64, where the column is one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from provenance.columns import Ints, Mask
from provenance.formats._arrow_arrays import NULL_TEXT, Texts, lists_of, numbers, texts, validity
from provenance.formats._json import dumps, parse
from provenance.formats._problem import RecordError, RowError

_TEXT: Final = pa.large_string()
# The one float32 (of all 2^32) whose fewest digits lie so close to the middle of two that they read as its
# neighbour by way of a float64, which is how readers of JSON take them. Written as the float64 it is.
_ODD: Final = float(np.uint32(0x15AE43FD).view(np.float32))
# What Arrow writes of a float that JSON reads as something else, or not at all.
_SPECIAL: Final = (
    (np.isnan, "NaN"),
    (np.isposinf, "Infinity"),
    (np.isneginf, "-Infinity"),
    (lambda values: (values == 0) & np.signbit(values), "-0.0"),
    # Beside float16 it is rounded, to 0.
    (lambda values: (values == _ODD) & (values != 0), repr(_ODD)),
    (lambda values: (values == -_ODD) & (values != 0), repr(-_ODD)),
)


def number_texts(elements: Any, exists: Mask | None = None) -> Any:
    """A ``large_string`` array of numbers as JSON has them; null where there is none, or none exists."""
    values, valid = numbers(elements)
    words = pa.nulls(len(elements), _TEXT) if pa.types.is_null(elements.type) else elements.cast(_TEXT)
    if values.dtype.kind == "f":
        for test, word in _SPECIAL:
            found = test(values)
            if found.any():
                words = pc.if_else(pa.array(found), pa.scalar(word, _TEXT), words)
    missing = exists if valid is None else valid if exists is None else valid & exists
    if missing is not None:
        words = pc.if_else(pa.array(missing), words, pa.scalar("null", _TEXT))
    return words


def joined_numbers(offsets: Ints, words: Any) -> list[str]:
    """The numbers of each row, laid out by ``offsets``, with commas between them."""
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), words)
    found: list[str] = pc.binary_join(lists, pa.scalar(",", _TEXT)).to_pylist()
    return found


def list_texts(column: Any) -> list[str | None]:
    """A list column of numbers as JSON arrays; None for a null list."""
    lists = lists_of(column)
    joined = joined_numbers(lists.offsets, number_texts(lists.elements))
    return nulled([f"[{numbers}]" for numbers in joined], lists.present)


def real_texts(column: Any) -> list[str | None]:
    """A column of numbers as JSON; None for a null."""
    valid = validity(column)
    words = number_texts(column).to_pylist()
    return words if valid is None else nulled(words, valid)


def quoted(found: Texts) -> list[str]:
    """Strings as JSON, ``null`` for a null."""
    words = [dumps(word).decode() for word in found.values]
    words.append("null")  # where NULL_TEXT points
    return [words[code] for code in found.codes.tolist()]


def label_texts(column: Any) -> list[str | None]:
    """A column of strings or integers as JSON; None for a null."""
    if pa.types.is_integer(column.type):
        return real_texts(column)
    found = texts(column)
    return nulled(quoted(found), found.codes != NULL_TEXT)


def json_texts(column: Any, name: str) -> list[str | None]:
    """A column of any type as JSON; None for a null. Text that is JSON is that, other text a string.

    Raises:
        RowError: for a value that JSON cannot hold.
    """
    words: list[str | None] = []
    for row, value in enumerate(column.to_pylist()):
        try:
            found = _value_of(value) if isinstance(value, str) else value
            words.append(None if value is None else dumps(found).decode())
        except (TypeError, ValueError, RecursionError) as error:
            raise RowError(row, name, str(error)) from None
        except RecordError as error:
            raise RowError(row, name, error.message) from None
    return words


def _value_of(text: str) -> Any:
    try:
        found = parse(f'{{"value":{text}\n}}'.encode())
    except RecordError as error:
        if error.code == "FMT003":
            raise
        return text
    # Text such as ``1, "more": 2`` is JSON only where it stands here.
    return found["value"] if len(found) == 1 else text


def nulled(words: Sequence[str | None], present: Mask) -> list[str | None]:
    """The words, and None for what is not present."""
    if present.all():
        return list(words)
    return [word if there else None for word, there in zip(words, present.tolist(), strict=True)]
