"""Sampled sequences, as JSON-shaped dicts or as models, become a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from pydantic_core import PydanticCustomError

from provenance import sequences
from provenance.formats._numbers import INT64_MAX, INT64_MIN, as_float32, as_int64, numbers_of
from provenance.formats._problem import RecordError, join, object_of, refuse_unknown, required, shown, text_of
from provenance.models.sequence import MAX_REAL, as_moment
from provenance.sequences import ABSENT, Record

FIELDS: Final = (
    "sequence_id",
    "session_id",
    "prompt_tokens",
    "tokens",
    "logprobs",
    "sampled_at",
    "last_used_at",
    "record_stability_info",
    "model",
    "policy_version",
    "stop_reason",
    "temperature",
    "top_p",
    "top_k",
    "seed",
)
INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)


def record_of(sequence: object) -> Record:
    """Read a sequence.

    Raises:
        RecordError: FMT004 for a field that is missing, unknown, or of the wrong type or range.
    """
    fields = object_of(sequence, "")
    if "model_input" in fields:
        raise RecordError("", "a datum, expected a sampled sequence: are data and ledger swapped?")
    refuse_unknown(fields, FIELDS, "")
    recorded = required(fields, "record_stability_info", "")
    if not isinstance(recorded, (bool, np.bool_)):
        raise RecordError("record_stability_info", f"{shown(recorded)} is not a bool")
    last_used = fields.get("last_used_at")
    logprobs = fields.get("logprobs")
    return Record(
        prompt=_tokens(fields, "prompt_tokens", -1),
        tokens=_tokens(fields, "tokens", 0),
        logprobs=b"" if logprobs is None else _logprobs(logprobs),
        sampled_at=microseconds(required(fields, "sampled_at", ""), "sampled_at"),
        last_used_at=ABSENT if last_used is None else microseconds(last_used, "last_used_at"),
        top_k=_integer(fields, "top_k", INT32_MIN, INT32_MAX),
        seed=_integer(fields, "seed", INT64_MIN, INT64_MAX),
        record_stability_info=bool(recorded),
        temperature=_real(fields, "temperature"),
        top_p=_real(fields, "top_p"),
        sequence_id=_name(fields, "sequence_id"),
        session_id=_name(fields, "session_id"),
        model=_optional_text(fields, "model"),
        policy_version=_version(fields),
        stop_reason=_optional_text(fields, "stop_reason"),
    )


def microseconds(value: object, path: str) -> int:
    """Microseconds since 1970 UTC of an aware datetime or a RFC 3339 text; finer digits are cut."""
    try:
        return sequences.microseconds(as_moment(value))
    except PydanticCustomError as error:
        raise RecordError(path, (error.context or {})["text"]) from None


def _tokens(fields: Mapping[str, Any], name: str, low: int) -> bytes:
    numbers = numbers_of(required(fields, name, ""), name)
    if numbers.shape is None or len(numbers.shape) != 1:
        raise RecordError(name, "nested lists, expected a list of integers")
    packed = as_int64(numbers)
    ids = np.frombuffer(packed.data, np.int64)
    wrong = (ids < low) | (ids > INT32_MAX)
    if packed.valid is not None:
        wrong |= ~np.frombuffer(packed.valid, np.bool_)
    if packed.inexact is not None:
        wrong[packed.inexact] = True
    if wrong.any():
        i = int(wrong.argmax())
        expected = "a token id in [0, 2^31)" + (", or -1 for no text" if low < 0 else "")
        raise RecordError(f"{name}[{i}]", f"{shown(numbers.flat[i])} is not {expected}")
    return ids.astype(np.int32).tobytes()


def _logprobs(value: object) -> bytes:
    numbers = numbers_of(value, "logprobs")
    if numbers.shape is None or len(numbers.shape) != 1:
        raise RecordError("logprobs", "nested lists, expected a list of numbers")
    packed = as_float32(numbers)
    if packed.valid is None:
        return packed.data
    values = np.frombuffer(packed.data, np.float32)
    return np.where(np.frombuffer(packed.valid, np.bool_), values, np.float32("nan")).tobytes()


def _name(fields: Mapping[str, Any], name: str) -> str:
    text = text_of(required(fields, name, ""), name)
    if not text:
        raise RecordError(name, "'' is empty, expected an id")
    return text


def _optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else text_of(value, name)


def _version(fields: Mapping[str, Any]) -> str | None:
    value = fields.get("policy_version")
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not INT64_MIN <= value <= INT64_MAX:
            raise RecordError("policy_version", f"{shown(value)} is out of range")
        return str(int(value))
    if value is not None and not isinstance(value, str):
        raise RecordError("policy_version", f"{shown(value)} is neither a string nor an integer")
    return _optional_text(fields, "policy_version")


def _real(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if value is None:
        return math.nan
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not -MAX_REAL <= value <= MAX_REAL:
        raise RecordError(join("", name), f"{shown(value)} is not a finite number")
    return float(value)


def _integer(fields: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if value is None:
        return ABSENT
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise RecordError(name, f"{shown(value)} is not an integer in [{low}, {high}]")
    return int(value)
