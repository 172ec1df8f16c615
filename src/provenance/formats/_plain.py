"""Plain lines of JSON and plain dicts, which is nearly all of them: turned into typed structs and packed.

A line that is not plain in any way (a null, a NaN, a fraction among ids, an image, CSR, an unknown field, a
key that may occur twice, no JSON at all) is left to the exact reading of ``_json`` and ``_datums``: whatever
is taken here must mean the same there.
"""

from __future__ import annotations

import math
import struct
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from provenance.columns import FLOAT32, INT64, TARGETS, TEXT
from provenance.formats._builder import Row, RowSpan, RowTensor
from provenance.formats._datums import SPAN_KINDS
from provenance.formats._io import Line
from provenance.formats._numbers import INT64_MAX, INT64_MIN, pack
from provenance.formats._problem import RecordError, is_unicode
from provenance.formats._sequences import INT32_MAX, INT32_MIN, microseconds
from provenance.formats._tensors import dense_shape
from provenance.models.sequence import MAX_REAL
from provenance.sequences import ABSENT, Record

_Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
_Real = Annotated[float, Meta(ge=-MAX_REAL, le=MAX_REAL)]
_Id = Annotated[str, Meta(min_length=1)]


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Fields that are UNSET are not in the line: that is how keys are counted."""


class _Text(_Plain):
    type: Literal["encoded_text"]
    tokens: list[int]


class _ModelInput(_Plain):
    chunks: list[_Text]


class _Tensor(_Plain):
    # One pass over the numbers: ints stay exact, and targets with a fraction do not pack.
    data: list[int | float]
    dtype: Literal["int64", "float32"]
    shape: list[_Int64] | UnsetType | None = UNSET
    sparse_crow_indices: UnsetType | None = UNSET
    sparse_col_indices: UnsetType | None = UNSET


class _Span(_Plain):
    type: Literal["prompt", "sampled"]
    sequence_id: str
    length: _Int64
    offset: _Int64 | UnsetType = UNSET


class _Datum(_Plain):
    model_input: _ModelInput
    loss_fn_inputs: dict[_Id, _Tensor]
    model_input_spans: list[_Span] | UnsetType | None = UNSET
    loss_fn_input_spans: list[_Span] | UnsetType | None = UNSET
    datum_id: str | UnsetType | None = UNSET
    group_id: str | int | UnsetType | None = UNSET
    metadata: Any = UNSET
    provenance: Any = UNSET


class _Sequence(_Plain):
    sequence_id: _Id
    session_id: _Id
    prompt_tokens: list[Annotated[int, Meta(ge=-1, le=INT32_MAX)]]
    tokens: list[Annotated[int, Meta(ge=0, le=INT32_MAX)]]
    sampled_at: str
    record_stability_info: bool
    logprobs: list[_Real] | UnsetType | None = UNSET
    last_used_at: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    policy_version: str | UnsetType | None = UNSET
    stop_reason: str | UnsetType | None = UNSET
    temperature: _Real | UnsetType | None = UNSET
    top_p: _Real | UnsetType | None = UNSET
    top_k: Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)] | UnsetType | None = UNSET
    seed: _Int64 | UnsetType | None = UNSET


_DATUMS: Final = msgspec.json.Decoder(_Datum)
_SEQUENCES: Final = msgspec.json.Decoder(_Sequence)
_REQUIRED_OF_SEQUENCE: Final = 6
_NOT_PLAIN: Final = (msgspec.MsgspecError, struct.error, RecursionError, UnicodeError)


def plain_datum(line: Line) -> Row | None:
    """Read a datum, or return None where the line is not plain."""
    try:
        datum = _DATUMS.decode(line.data)
        # msgspec keeps the last of two equal keys, and then the line has more keys than the datum.
        return _row(datum) if _keys(datum) == line.keys else None
    except _NOT_PLAIN:
        return None


def plain_dict(datum: dict[Any, Any]) -> Row | None:
    """Read a JSON-shaped dict, or return None where it is not plain."""
    try:
        return _row(msgspec.convert(datum, _Datum)) if _is_json(datum) else None
    except _NOT_PLAIN:
        return None


def _is_json(datum: dict[Any, Any]) -> bool:
    """Whether the datum is made of dicts and lists, where msgspec takes more, and of text for UTF-8."""
    model_input, inputs = datum.get("model_input"), datum.get("loss_fn_inputs")
    if type(model_input) is not dict or type(inputs) is not dict:
        return False
    chunks, tensors = model_input.get("chunks"), list(inputs.values())
    lists = [datum.get("model_input_spans"), datum.get("loss_fn_input_spans")]
    spans = [span for found in lists if type(found) is list for span in found]
    if type(chunks) is not list or not all(found is None or type(found) is list for found in lists):
        return False
    if not all(type(found) is dict for found in (*chunks, *tensors, *spans)):
        return False
    numbers = [*(chunk.get("tokens") for chunk in chunks), *(tensor.get("data") for tensor in tensors)]
    texts = [*inputs, *(span.get("sequence_id") for span in spans)]
    return all(type(found) is list for found in numbers) and all(
        type(text) is str and is_unicode(text) for text in texts
    )


def plain_sequence(line: Line) -> Record | None:
    """Read a sequence, or return None where the line is not plain."""
    try:
        sequence = _SEQUENCES.decode(line.data)
        optional = (getattr(sequence, name) for name in _OPTIONAL)
        if _REQUIRED_OF_SEQUENCE + sum(value is not UNSET for value in optional) != line.keys:
            return None
        return _record(sequence)
    except (*_NOT_PLAIN, RecordError):
        return None


_OPTIONAL: Final = _Sequence.__struct_fields__[_REQUIRED_OF_SEQUENCE:]


def _keys(datum: _Datum) -> int:
    """Number of keys of all objects in the line that the datum was decoded from, had it no key twice."""
    count = 3 + 2 * len(datum.model_input.chunks)  # model_input, chunks, loss_fn_inputs
    for tensor in datum.loss_fn_inputs.values():
        count += 3 + (tensor.shape is not UNSET)
        count += (tensor.sparse_crow_indices is not UNSET) + (tensor.sparse_col_indices is not UNSET)
    for spans in (datum.model_input_spans, datum.loss_fn_input_spans):
        if spans is not UNSET:
            count += 1
            for span in spans or ():
                count += 4 - (span.offset is UNSET)
    count += (datum.datum_id is not UNSET) + (datum.group_id is not UNSET)
    for value in (datum.metadata, datum.provenance):
        if value is not UNSET:
            count += 1 + keys_in(value)
    return count


def keys_in(value: object) -> int:
    """Number of keys of all objects in a value. Lists that start with a number are taken to have none."""
    if isinstance(value, dict):
        return len(value) + sum([keys_in(item) for item in value.values() if isinstance(item, (dict, list))])
    if not isinstance(value, list) or not value or isinstance(value[0], (int, float)):
        return 0
    return sum([keys_in(item) for item in value if isinstance(item, (dict, list))])


def _row(datum: _Datum) -> Row:
    texts = [chunk.tokens for chunk in datum.model_input.chunks]
    tokens = texts[0] if len(texts) == 1 else [token for text in texts for token in text]
    return Row(
        positions=len(tokens),
        tokens=pack("q", tokens),
        chunks=[(TEXT, len(text)) for text in texts],
        inputs={name: _tensor(name, tensor) for name, tensor in datum.loss_fn_inputs.items()},
        input_spans=_spans(datum.model_input_spans),
        target_spans=_spans(datum.loss_fn_input_spans),
    )


def _tensor(name: str, tensor: _Tensor) -> RowTensor:
    data, shape = tensor.data, tensor.shape
    count = len(data)
    if tensor.dtype == "int64":
        declared, values = INT64, pack("q", data)
        if name != TARGETS:
            values = pack("f", data)
    elif name == TARGETS:
        raise struct.error(f"{TARGETS} are not declared int64")
    else:
        declared, values = FLOAT32, pack("f", data)
    if shape is None or shape is UNSET or shape == [count]:
        return RowTensor(declared, 1, count, 1, True, count, values)
    return RowTensor(declared, *dense_shape(tuple(shape), (count,), count), count, values)


def _spans(spans: list[_Span] | UnsetType | None) -> list[RowSpan] | None:
    if spans is None or spans is UNSET:
        return None
    return [
        RowSpan(SPAN_KINDS[s.type], s.sequence_id, 0 if s.offset is UNSET else s.offset, s.length)
        for s in spans
    ]


def _record(sequence: _Sequence) -> Record:
    last_used = sequence.last_used_at
    return Record(
        prompt=pack("i", sequence.prompt_tokens),
        tokens=pack("i", sequence.tokens),
        logprobs=pack("f", sequence.logprobs or ()),
        sampled_at=microseconds(sequence.sampled_at, "sampled_at"),
        last_used_at=microseconds(last_used, "last_used_at") if isinstance(last_used, str) else ABSENT,
        top_k=_or(sequence.top_k, ABSENT),
        seed=_or(sequence.seed, ABSENT),
        record_stability_info=sequence.record_stability_info,
        temperature=_or(sequence.temperature, math.nan),
        top_p=_or(sequence.top_p, math.nan),
        sequence_id=sequence.sequence_id,
        session_id=sequence.session_id,
        model=_or(sequence.model, None),
        policy_version=_or(sequence.policy_version, None),
        stop_reason=_or(sequence.stop_reason, None),
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None or value is UNSET else value
