"""What an Arrow schema must look like: a column of the wrong type is one fault, not one of each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from provenance.columns import Fault
from provenance.formats._arrow_arrays import is_list
from provenance.formats._datums import LABELS

INPUT: Final = "model_input"
INPUT_TOKENS: Final = "model_input_tokens"
INPUT_SPANS: Final = "model_input_spans"
TARGET_SPANS: Final = "loss_fn_input_spans"
#: Columns that are no loss inputs.
STRUCTURE: Final = frozenset((INPUT, INPUT_TOKENS, INPUT_SPANS, TARGET_SPANS, *LABELS))

_Test = Callable[[Any], bool]
# A column in which everything is null often has the type null: pyarrow infers it, and it says nothing else.
_is_null: _Test = pa.types.is_null


def _is_integer(kind: Any) -> bool:
    return bool(_is_null(kind) or pa.types.is_integer(kind))


def _is_number(kind: Any) -> bool:
    return bool(_is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    types = pa.types
    return bool(
        _is_null(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    )


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    return bool(
        _is_null(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _is_bool(kind: Any) -> bool:
    return bool(_is_null(kind) or pa.types.is_boolean(kind))


def _is_version(kind: Any) -> bool:
    return _is_text(kind) or _is_integer(kind)


def _is_time(kind: Any) -> bool:
    return bool(_is_null(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def _list_of(test: _Test) -> _Test:
    return lambda kind: bool(_is_null(kind) or (is_list(kind) and test(kind.value_type)))


def _is_tensor(kind: Any) -> bool:
    return _list_of(_is_number)(kind) or _list_of(_list_of(_is_number))(kind)


# Each type that a column may have, with the words of a message for it.
_Expected = tuple[_Test, str]
_INTEGER: Final[_Expected] = (_is_integer, "integer")
_INTEGERS: Final[_Expected] = (_list_of(_is_integer), "list of integers")
_NUMBER: Final[_Expected] = (_is_number, "float")
_NUMBERS: Final[_Expected] = (_list_of(_is_number), "list of floats")
_TEXT: Final[_Expected] = (_is_text, "string")
_BYTES: Final[_Expected] = (_is_bytes, "binary")
_BOOL: Final[_Expected] = (_is_bool, "bool")
_TIME: Final[_Expected] = (_is_time, "timestamp with a time zone")
_VERSION: Final[_Expected] = (_is_version, "string")
_GROUP: Final[_Expected] = (_is_version, "string or integer")
_TENSOR: Final[_Expected] = (_is_tensor, "list of numbers, or of lists of numbers")

_CHUNK: Final[Mapping[str, _Expected]] = MappingProxyType(
    {
        "type": _TEXT,
        "tokens": _INTEGERS,
        "length": _INTEGER,
        "data": _BYTES,
        "format": _TEXT,
        "location": _TEXT,
    }
)
_SPAN: Final[Mapping[str, _Expected]] = MappingProxyType(
    {"type": _TEXT, "sequence_id": _TEXT, "offset": _INTEGER, "length": _INTEGER}
)
_LABELS: Final[Mapping[str, _Expected]] = MappingProxyType({"datum_id": _TEXT, "group_id": _GROUP})
_SEQUENCE: Final[Mapping[str, _Expected]] = MappingProxyType(
    {
        "sequence_id": _TEXT,
        "session_id": _TEXT,
        "prompt_tokens": _INTEGERS,
        "tokens": _INTEGERS,
        "logprobs": _NUMBERS,
        "sampled_at": _TIME,
        "record_stability_info": _BOOL,
        "last_used_at": _TIME,
        "model": _TEXT,
        "policy_version": _VERSION,
        "stop_reason": _TEXT,
        "temperature": _NUMBER,
        "top_p": _NUMBER,
        "top_k": _INTEGER,
        "seed": _INTEGER,
    }
)
REQUIRED_OF_SEQUENCE: Final = tuple(_SEQUENCE)[:7]
_SHOWN: Final = 100


def datum_faults(schema: Any) -> tuple[Fault, ...]:
    """Return what is wrong with the columns of a file of datums."""
    return tuple(Fault(code, None, field, message) for code, field, message in _datum_problems(schema))


def sequence_faults(schema: Any) -> tuple[Fault, ...]:
    """Return what is wrong with the columns of a file of sampled sequences."""
    names = set(schema.names)
    if names & {INPUT, INPUT_TOKENS} and "prompt_tokens" not in names:
        message = "datums, expected sampled sequences: are data and ledger swapped?"
        return (Fault("FMT004", None, "", message),)
    found = _fields(schema, _SEQUENCE, REQUIRED_OF_SEQUENCE)
    return tuple(Fault(code, None, field, message) for code, field, message in found)


_Problem = tuple[str, str, str]


def _datum_problems(schema: Any) -> Iterator[_Problem]:
    names = set(schema.names)
    if "prompt_tokens" in names and not names & {INPUT, INPUT_TOKENS}:
        yield "FMT004", "", "sampled sequences, expected datums: is this the ledger's file?"
        return
    yield from _repeated(schema.names, "")
    if INPUT in names and INPUT_TOKENS in names:
        yield "FMT004", INPUT, f"there is a column {INPUT_TOKENS} too, expected one of the two"
    if INPUT not in names and INPUT_TOKENS not in names:
        yield "FMT004", INPUT, f"missing, expected this column or {INPUT_TOKENS}"
    for field in schema:
        name, kind = field.name, field.type
        if name == INPUT:
            yield from _structs(name, kind, _CHUNK, required=("type",))
        elif name in (INPUT_SPANS, TARGET_SPANS):
            yield from _structs(name, kind, _SPAN, required=("type", "sequence_id", "length"))
        elif name == INPUT_TOKENS:
            yield from _column(name, kind, _INTEGERS)
        elif name in _LABELS:
            yield from _column(name, kind, _LABELS[name])
        elif name not in LABELS:
            yield from _column(name, kind, _TENSOR)


def _structs(
    name: str, kind: Any, known: Mapping[str, _Expected], required: Iterable[str]
) -> Iterator[_Problem]:
    if _list_of(_is_null)(kind):
        return
    if not _list_of(pa.types.is_struct)(kind):
        yield "FMT004", name, f"type {_shown(kind)}, expected list of structs of {', '.join(known)}"
        return
    fields = kind.value_type
    yield from _fields([fields.field(i) for i in range(fields.num_fields)], known, required, f"{name}.")


def _fields(
    fields: Iterable[Any],
    known: Mapping[str, _Expected],
    required: Iterable[str],
    prefix: str = "",
) -> Iterator[_Problem]:
    kinds = [(field.name, field.type) for field in fields]
    names = [name for name, _ in kinds]
    yield from _repeated(names, prefix)
    for name in required:
        if name not in names:
            yield "FMT004", prefix + name, f"missing, expected {known[name][1]}"
    for name, kind in kinds:
        if name in known:
            yield from _column(prefix + name, kind, known[name])
        else:
            yield "FMT004", prefix + name, f"unknown field, expected one of {', '.join(known)}"


def _column(name: str, kind: Any, expected: _Expected) -> Iterator[_Problem]:
    test, words = expected
    if not test(kind):
        yield "FMT004", name, f"type {_shown(kind)}, expected {words}"


def _repeated(names: Iterable[str], prefix: str) -> Iterator[_Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield "FMT003", prefix + name, f"{count} columns of this name"


def _shown(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
