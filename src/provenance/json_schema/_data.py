"""The data as schemas: what pydantic says of the models, told the way the readers of JSONL take it."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from provenance.json_schema._nodes import (
    INT32_MAX,
    INT64_MAX,
    NULL,
    REF,
    Schema,
    flat,
    mapped,
    or_null,
    without,
)
from provenance.models import Datum, SampledSequence
from provenance.models.sequence import MAX_REAL
from provenance.models.trajectory import Trajectory

#: First member of a union -> its name and what it is.
_UNIONS: Final = {
    "EncodedTextChunk": ("Chunk", "One part of a model input; `type` tells which kind."),
    "PromptProvenanceSpan": (
        "ProvenanceSpan",
        "A run of positions and where it comes from; `type` tells which kind.",
    ),
}
# That of provenance._rfc3339, with the offset that a point in time has to have.
_MOMENT: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
_LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n)")
_BASE64: Final = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_FORMATS: Final = {INT32_MAX: "int32", INT64_MAX: "int64"}
_NUMBERS: Final[Schema] = {"type": "array", "items": {"type": "number"}}
_DATA: Final[Schema] = {
    "$comment": "finite, of the declared dtype, as many as the shape says",
    "description": "The values: flat, in row-major order, or nested without a shape. Flat for CSR.",
    "anyOf": [_NUMBERS, {"type": "array", "items": _NUMBERS}],
}
# What the readers take beside the fields of the model; nothing of it is trained on.
_LABELS: Final[dict[str, Schema]] = {
    "datum_id": {"description": "The caller's name of the datum.", "type": "string"},
    "group_id": {
        "description": "The caller's name of the group, as of the samples of one prompt.",
        "anyOf": [{"type": "string"}, {"type": "integer"}],
    },
    "metadata": {"description": "Anything that the caller wants to keep beside the datum."},
    "provenance": {"description": "What `provenance check --write-bad` says about a bad datum."},
}


def data_definitions() -> dict[str, Schema]:
    """Definitions of all data types by name, with the keywords of every profile."""
    models = [(model, "validation") for model in (Datum, SampledSequence, Trajectory)]
    _, document = models_json_schema(models, ref_template=REF + "{model}")  # type: ignore[arg-type] # Literal
    unions: dict[str, Schema] = {}

    def change(node: Schema) -> Schema:
        if "discriminator" in node:
            name, description = _UNIONS[node["oneOf"][0]["$ref"].removeprefix(REF)]
            unions[name] = {"title": name, "description": description, **node}
            return {"$ref": REF + name}
        if "description" in node:  # lines are those of the docstring
            node = {**node, "description": _LINE_END.sub(" ", node["description"])}
        return _object(node) if "properties" in node else _annotated(flat(node))

    definitions = {name: mapped(schema, change) for name, schema in document["$defs"].items()}
    _as_read(definitions)
    return dict(sorted((definitions | unions).items()))


def _object(node: Schema) -> Schema:
    required = node.get("required", [])
    properties: dict[str, Schema] = {}
    tags: list[str] = []
    for name, given in node["properties"].items():
        field = without(given, "title", *(["default"] if given.get("default", "") is None else []))
        if "const" in field:
            tags.append(name)
            field = without(field, "default")
        elif name not in required:
            field = or_null(field)
        properties[name] = field
    words = node["description"].partition("\n\nRaises:")[0]
    return {**node, "description": words, "properties": properties, "required": [*tags, *required]}


def _annotated(node: Schema) -> Schema:
    """Say more precisely what generators and validators can use, and note what no keyword can say."""
    if node.get("format") == "date-time":
        return {**node, "pattern": _MOMENT}
    if node.get("contentEncoding") == "base64":
        return {**node, "pattern": _BASE64}
    if node.get("type") == "number":
        return {**node, "$comment": "finite; JSON has no NaN and no infinity"}
    if node.get("type") == "integer":
        low, high = node.get("minimum", -(2**63)), node.get("maximum", INT64_MAX)
        high = min(high, node.get("exclusiveMaximum", high + 1) - 1)
        bounds = {"minimum": low, "maximum": high, "format": _FORMATS[high]}
        return without(node, "exclusiveMaximum") | bounds
    return node


def _as_read(definitions: dict[str, Schema]) -> None:
    """What the readers take or demand beyond the models."""
    datum: dict[str, Any] = definitions["Datum"]
    datum["properties"] |= {name: or_null(label) for name, label in _LABELS.items()}
    datum["required"] = ["model_input", "loss_fn_inputs"]
    definitions["TensorData"]["properties"]["data"] = _DATA
    for name in ("temperature", "top_p"):
        number = definitions["SampledSequence"]["properties"][name]["anyOf"][0]
        number |= {"minimum": -MAX_REAL, "maximum": MAX_REAL}
    tensors = datum["properties"]["loss_fn_inputs"]
    # It has a default in the model and is required in a file.
    tensors |= tensors.pop("anyOf")[0]
    tensors["additionalProperties"] = {"anyOf": [tensors["additionalProperties"], NULL]}
    tensors["propertyNames"] = {"type": "string", "minLength": 1}
