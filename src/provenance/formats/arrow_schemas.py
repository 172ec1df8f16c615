"""The Arrow schemas of datums and of sampled sequences, as the writers of this package use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from provenance.columns import TARGETS
from provenance.errors import ReadError
from provenance.formats._arrow_encode import encoded
from provenance.formats._arrow_layout import Layout
from provenance.formats._io import failing
from provenance.formats.arrow_write import SEQUENCES
from provenance.loss_spec import LOSSES


def datum_schema() -> Any:
    """Columns of datums that have everything: images beside text, every input of every loss, every label."""
    names = dict.fromkeys(name for loss in LOSSES.values() for name in (*loss.required, *loss.optional))
    tensors = {
        name: {"data": [0], "dtype": "int64" if name == TARGETS else "float32", "shape": [1]}
        for name in names
    }
    layout = Layout()
    datum = {
        "datum_id": "",
        "group_id": "",
        "metadata": {},
        "model_input": {"chunks": [{"type": "image", "data": "", "format": "png", "expected_tokens": 1}]},
        "loss_fn_inputs": tensors,
    }
    layout.admit(encoded(datum, 0))
    return layout.schema


def sequence_schema() -> Any:
    """Columns of sampled sequences."""
    return SEQUENCES


SCHEMAS: Final[Mapping[str, Callable[[], Any]]] = MappingProxyType(
    {"datum": datum_schema, "sequence": sequence_schema}
)


def stream_of(schema: Any) -> bytes:
    """An Arrow IPC stream that holds the schema and no batch."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    content: bytes = sink.getvalue().to_pybytes()
    return content


def schema_in(path: str) -> Any:
    """The schema that a file with an Arrow IPC stream starts with; raises `ReadError`."""
    with failing(ReadError, path), pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        return stream.schema


def column_types(fields: Iterable[Any], path: str = "") -> dict[str, str]:
    """Types of columns and of what is in them, by name: ``a[].b`` is in the structs of the list ``a``."""
    found: dict[str, str] = {}
    for field in fields:
        found |= _types_in(path + field.name, field)
    return found


def _types_in(path: str, field: Any) -> dict[str, str]:
    required = "" if field.nullable else " not null"
    if pa.types.is_struct(field.type):
        return {path: f"struct{required}"} | column_types(field.type, f"{path}.")
    if pa.types.is_list(field.type):
        return {path: f"list{required}"} | _types_in(f"{path}[]", field.type.value_field)
    return {path: f"{field.type}{required}"}
