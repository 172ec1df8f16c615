"""Training requests of the official SDK as files: a dumped protobuf ``ForwardBackwardRequest``.

Read without the SDK, which takes seconds to import. Source: `tinker.proto.tinker_public_pb2`, the same
messages in 0.26 to 0.38. What a request cannot say: an empty list of spans is none, and shape [] is no shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from provenance.columns import Array, Columns
from provenance.errors import ReadError
from provenance.formats import _protobuf as wire
from provenance.formats._builder import ColumnsBuilder, Row
from provenance.formats._io import MAX_LINE, OnBytes, name_of, read_blocks
from provenance.formats._plain_arrays import row_of_arrays
from provenance.formats._problem import RecordError
from provenance.formats._protobuf import BYTES, FIXED64, VARINT, Field, WireError

_WireField = tuple[int, int, "int | memoryview"]

#: Positions of a batch, about, and rows at most.
BATCH_POSITIONS: Final = 1 << 18
BATCH_ROWS: Final = 1 << 12
#: Of the model's id, the loss and its options: more is no request.
_MOST_BESIDE: Final = 1 << 20

_SPAN: Final = {
    1: Field("sequence_id", BYTES, wire.text),
    2: Field("offset", VARINT, wire.signed),
    3: Field("length", VARINT, wire.signed),
}
_SPANS: Final = wire.each(
    {1: Field("prompt", BYTES, wire.one(_SPAN)), 2: Field("sampled", BYTES, wire.one(_SPAN))}
)
_CHUNKS: Final = wire.each(
    {
        1: Field("encoded_text", BYTES, wire.one({1: Field("tokens", BYTES, wire.raw)})),
        2: Field(
            "image",
            BYTES,
            wire.one(
                {
                    1: Field("data", BYTES, wire.raw),
                    2: Field("format", BYTES, wire.text),
                    3: Field("expected_tokens", VARINT, wire.signed),
                }
            ),
        ),
        3: Field("dmel", BYTES, wire.one({1: Field("dmel", BYTES, wire.raw)})),
    }
)
_TENSOR: Final = {
    1: Field("dense", BYTES, wire.raw),
    2: Field(
        "sparse_csr",
        BYTES,
        wire.one(
            {
                1: Field("values", BYTES, wire.raw),
                2: Field("crow_indices", BYTES, wire.raw),
                3: Field("col_indices", BYTES, wire.raw),
            }
        ),
    ),
    3: Field("dtype", VARINT, wire.signed),
    4: Field("shape", BYTES, wire.numbers, many=True),
}
_INPUTS: Final = wire.each({1: Field("key", BYTES, wire.text), 2: Field("value", BYTES, wire.one(_TENSOR))})
_DATUM: Final = {
    1: Field("model_input", BYTES, _CHUNKS, many=True),
    2: Field("loss_fn_inputs", BYTES, _INPUTS, many=True),
    3: Field("model_input_spans", BYTES, _SPANS, many=True),
    4: Field("loss_fn_input_spans", BYTES, _SPANS, many=True),
}
_DATA: Final = 3
_OPTION: Final = {1: Field("number", FIXED64, wire.double), 2: Field("text", BYTES, wire.text)}
_HEAD: Final = {
    1: Field("model_id", BYTES, wire.text),
    2: Field("seq_id", VARINT, wire.signed),
    _DATA: Field("data", BYTES, wire.raw),
    4: Field("loss_fn", BYTES, wire.text),
    5: Field(
        "loss_fn_config",
        BYTES,
        wire.each({1: Field("key", BYTES, wire.text), 2: Field("value", FIXED64, wire.double)}),
        many=True,
    ),
    6: Field("forward_only", VARINT, wire.flag),
    7: Field(
        "loss_fn_config_v2",
        BYTES,
        wire.each({1: Field("key", BYTES, wire.text), 2: Field("value", BYTES, wire.one(_OPTION))}),
        many=True,
    ),
}
#: Number of a dtype -> its name and the type of its bytes; bfloat16 is the upper half of a float32.
_DTYPES: Final[Mapping[int, tuple[str, str]]] = {
    1: ("float32", "<f4"),
    2: ("int64", "<i8"),
    3: ("int32", "<i4"),
    4: ("bfloat16", "<u2"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What a training request says beside its datums."""

    model_id: str
    """The model that is trained, ``{session_id}:train:{n}``."""
    seq_id: int
    """Number of the request among those of its model, from 1."""
    loss_fn: str
    loss_fn_config: Mapping[str, float | str]
    forward_only: bool
    """No gradients were asked for."""

    @property
    def session(self) -> str | None:
        """The training session; None where the model's id names none."""
        return self.model_id.rpartition(":train:")[0] or None


def read_head(path: str, *, max_record: int = MAX_LINE) -> RequestHead:
    """Read what a request says beside its datums; errors as for `read_datums`."""
    fields: list[_WireField] = []
    for _ in _datums(path, fields, max_record, None):
        pass
    return _head(path, fields)


def read_datums(
    path: str,
    *,
    batch_positions: int = BATCH_POSITIONS,
    max_record: int = MAX_LINE,
    on_bytes: OnBytes | None = None,
) -> Iterator[Columns]:
    """Read the datums of a request in batches; one that cannot be read is a fault (FMT004) of its row.

    Raises:
        ReadError: for a file that cannot be read, is no request, ends too early, or has a datum of more than
            ``max_record`` bytes.
    """
    file = name_of(path)
    batch = ColumnsBuilder(file=file)
    for fields in read_fields(path, max_record=max_record, on_bytes=on_bytes):
        row = [fields] if isinstance(fields, RecordError) else row_of_arrays(fields)
        if isinstance(row, Row):
            batch.append(row)
        else:
            batch.append_unreadable(row)
        if batch.positions >= batch_positions or batch.rows >= BATCH_ROWS:
            yield batch.finish()
            batch = ColumnsBuilder(file=file, first_row=batch.first_row + batch.rows)
    if batch.rows:
        yield batch.finish()


def read_fields(
    path: str, *, max_record: int = MAX_LINE, on_bytes: OnBytes | None = None
) -> Iterator[dict[str, Any] | RecordError]:
    """The datums of a request in the shape of JSON, with arrays for lists; errors as for `read_datums`."""
    rest: list[_WireField] = []
    for message in _datums(path, rest, max_record, on_bytes):
        try:
            yield _datum(wire.decode(message, _DATUM))
        except WireError as error:
            yield RecordError(error.field, error.reason)
        except RecordError as error:
            yield error
    _head(path, rest)


def _datums(
    path: str, rest: list[_WireField], max_record: int, on_bytes: OnBytes | None
) -> Iterator[memoryview]:
    """The messages of the datums; fields beside them go to ``rest``."""
    size = 0
    try:
        for number, kind, value in wire.stream(read_blocks(path, on_bytes), max_record):
            if number == _DATA and isinstance(value, memoryview) and kind == BYTES:
                yield value
                continue
            size += 8 if isinstance(value, int) else len(value)
            rest.append((number, kind, value if isinstance(value, int) else memoryview(bytes(value))))
            if number not in _HEAD or size > _MOST_BESIDE:
                _refuse(rest)  # before a long file is read to its end
    except WireError as error:
        raise _unreadable(path, error) from None


def _refuse(fields: list[_WireField]) -> None:
    """Say what is wrong with fields that are no head, or too long for one."""
    wire.collect(fields, _HEAD)
    raise WireError("", f"more than {_MOST_BESIDE} bytes beside the datums")


def _unreadable(path: str, error: WireError) -> ReadError:
    return ReadError(name_of(path), f"no whole training request (protobuf): {error}")


def _head(path: str, fields: list[_WireField]) -> RequestHead:
    try:
        found = wire.collect(fields, _HEAD)
    except WireError as error:
        raise _unreadable(path, error) from None
    # The SDK writes both always, and the loss after the datums.
    for name in ("model_id", "loss_fn"):
        if not found.get(name):
            raise ReadError(name_of(path), f"no {name}, which every training request has: is it whole?")
    config: dict[str, float | str] = {}
    for option in found.get("loss_fn_config", ()):
        config[option.get("key", "")] = option.get("value", 0.0)
    for option in found.get("loss_fn_config_v2", ()):
        value = option.get("value", {})
        config[option.get("key", "")] = value.get("text", value.get("number", 0.0))
    return RequestHead(
        model_id=found["model_id"],
        seq_id=found.get("seq_id", 0),
        loss_fn=found["loss_fn"],
        loss_fn_config=config,
        forward_only=found.get("forward_only", False),
    )


# A message in the shape of JSON. What is not there has protobuf's default, 0 or "".


def _datum(fields: dict[str, Any]) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    for entry in fields.get("loss_fn_inputs", ()):
        name = entry.get("key", "")
        if name in inputs:
            raise RecordError("loss_fn_inputs", f"key {name!r} occurs twice", code="FMT003")
        inputs[name] = _tensor(entry.get("value", {}), f"loss_fn_inputs.{name}")
    chunks = [
        _chunk(chunk, f"model_input.chunks[{i}]") for i, chunk in enumerate(fields.get("model_input", ()))
    ]
    datum: dict[str, Any] = {"model_input": {"chunks": chunks}, "loss_fn_inputs": inputs}
    for side in ("model_input_spans", "loss_fn_input_spans"):
        if side in fields:
            datum[side] = [_span(span) for span in fields[side]]
    return datum


def _chunk(chunk: dict[str, dict[str, Any]], path: str) -> dict[str, Any]:
    kind, fields = _only(chunk, path)
    if kind == "encoded_text":
        return {"type": kind, "tokens": _array(fields.get("tokens", b""), "<i4", f"{path}.tokens")}
    if kind == "image":
        return {"type": kind, "data": b"", "format": "", **fields}
    return {"type": kind, "dmel": b"", **fields}


def _tensor(fields: dict[str, Any], path: str) -> dict[str, Any]:
    number = fields.get("dtype", 0)
    if number not in _DTYPES:
        raise RecordError(f"{path}.dtype", f"{number}, expected one of {', '.join(map(str, _DTYPES))}")
    dtype, form = _DTYPES[number]
    kind, content = _only({k: v for k, v in fields.items() if k in ("dense", "sparse_csr")}, path)
    data = content if kind == "dense" else content.get("values", b"")
    tensor: dict[str, Any] = {
        "data": _values(data, form, f"{path}.data"),
        "dtype": dtype,
        "shape": fields.get("shape"),
    }
    if kind == "sparse_csr":
        for name in ("crow_indices", "col_indices"):
            tensor[f"sparse_{name}"] = _array(content.get(name, b""), "<i8", f"{path}.sparse_{name}")
    return tensor


def _span(span: dict[str, dict[str, Any]]) -> dict[str, Any]:
    kind = next(iter(span), None)
    return {"type": kind, "sequence_id": "", "offset": 0, "length": 0, **span.get(kind or "", {})}


def _only(message: dict[str, Any], path: str) -> tuple[str, Any]:
    """The one field of a message that holds one of several."""
    if len(message) != 1:
        raise RecordError(path, f"{', '.join(message) or 'nothing'} in it, expected one content")
    return next(iter(message.items()))


def _values(data: memoryview | bytes, form: str, path: str) -> Array:
    values = _array(data, form, path)
    return (values.astype(np.uint32) << 16).view(np.float32) if form == "<u2" else values


def _array(data: memoryview | bytes, form: str, path: str) -> Array:
    width = np.dtype(form).itemsize
    if len(data) % width:
        raise RecordError(path, f"{len(data)} bytes, expected a multiple of {width}")
    return np.frombuffer(data, form)
