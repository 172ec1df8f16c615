"""A schema as alternatives of one kind each, so that two ways to write one thing compare as equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from provenance.json_schema._nodes import UNIONS, Schema, without

__all__ = ["ANNOTATIONS", "ANYTHING", "arms", "kind_of", "narrowed"]

#: Kind of a schema that names no type.
ANYTHING: Final = "anything"
#: Keywords that refuse no value. ``default`` is compared by itself, ``$defs`` by name.
ANNOTATIONS: Final = (
    *("$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples"),
    *("deprecated", "readOnly", "writeOnly"),
)
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
#: What holds for values of one type only; other keywords are taken to hold for all.
_OWN: Final[Mapping[str, tuple[str, ...]]] = {
    "null": (),
    "boolean": (),
    "integer": _NUMBERS,
    "number": _NUMBERS,
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        *("properties", "required", "additionalProperties", "propertyNames", "patternProperties"),
        *("minProperties", "maxProperties"),
    ),
}
#: Types of JSON Schema by those of what the json module reads.
_TYPES: Final[Mapping[type, tuple[str, ...]]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
}


def arms(schema: Schema) -> list[Schema]:
    """The alternatives of a schema, without annotations; a ``const`` becomes an ``enum`` of one value."""
    schema = without(schema, *ANNOTATIONS)
    for keyword in UNIONS:
        if keyword in schema:
            rest = without(schema, keyword)
            return [found for arm in schema[keyword] for found in arms(_both(rest, arm))]
    if "const" in schema:
        schema = without(schema, "const") | {"enum": [schema["const"]]}
    return [narrowed(schema, kind) | {"type": kind} for kind in _types(schema)] or [schema]


def kind_of(arm: Schema) -> str:
    """Name of the type, or of the definition that is referred to."""
    return str(arm.get("$ref", arm.get("type", ANYTHING))).rpartition("/")[2]


def narrowed(schema: Schema, kind: str) -> Schema:
    """What a schema says about values of one kind."""
    if kind not in _OWN:
        return schema
    foreign = {keyword for own in _OWN.values() for keyword in own} - set(_OWN[kind])
    schema = without(schema, *foreign)
    if "enum" in schema:
        schema = schema | {"enum": [value for value in schema["enum"] if kind in _types_of(value)]}
    return schema


def _both(outer: Schema, arm: Schema) -> Schema:
    """One schema that says what both say."""
    arm = without(arm, *ANNOTATIONS)
    twice = {keyword: value for keyword, value in outer.items() if arm.get(keyword, value) != value}
    return outer | arm | ({"allOf": [twice]} if twice else {})


def _types(schema: Schema) -> Iterator[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        yield declared
    elif declared is not None:
        yield from declared
    elif "enum" in schema and "$ref" not in schema:
        yield from dict.fromkeys(_types_of(value)[0] for value in schema["enum"])


def _types_of(value: Any) -> tuple[str, ...]:
    """Types of JSON Schema that a value of JSON has, the narrowest first."""
    whole = isinstance(value, float) and value.is_integer()
    return _TYPES[int if whole else type(value)]
