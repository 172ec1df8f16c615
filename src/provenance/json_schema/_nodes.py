"""Walking over JSON Schemas: what in a schema is a schema, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

REF: Final = "#/$defs/"
NULL: Final[Schema] = {"type": "null"}
INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1

_BY_NAME: Final = ("properties", "$defs")
_ONE: Final = ("items", "additionalProperties", "propertyNames")
UNIONS: Final = ("anyOf", "oneOf")
#: Bounds of which the larger is the narrower, and of which the smaller is.
LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_ORDER: Final = (
    "$schema",
    "$id",
    "$ref",
    "$comment",
    "title",
    "description",
    "type",
    "format",
    "contentEncoding",
    "const",
    "enum",
    "default",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
    "items",
    *UNIONS,
)
#: What stands under keywords whose values are worked with.
_FORMS: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(_BY_NAME, dict),
    **dict.fromkeys(_ONE, (dict, bool)),
    **dict.fromkeys((*UNIONS, "enum", "required"), list),
    **dict.fromkeys((*LOWER, *UPPER), (int, float)),
    "type": (str, list),
}
#: Deeper than any schema of this package.
_DEPTH: Final = 50


def well_formed(node: Any, depth: int = _DEPTH) -> bool:
    """Whether something that was read is a schema that the functions here can walk over."""
    if not isinstance(node, dict) or depth == 0:
        return False
    if not all(isinstance(value, _FORMS.get(key, object)) for key, value in node.items()):
        return False
    names = [*node.get("required", ()), *(node["type"] if isinstance(node.get("type"), list) else ())]
    inner = [each for key in _BY_NAME for each in node.get(key, {}).values()]
    inner += [each for key in UNIONS for each in node.get(key, ())]
    inner += [node[key] for key in _ONE if isinstance(node.get(key), dict)]
    named = all(isinstance(name, str) for name in names)
    return named and all(well_formed(each, depth - 1) for each in inner)


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Apply a change to every schema inside of a schema, and then to itself.

    A plain walk over all keys would take a property called ``format`` or ``title`` for the keyword.
    """
    result = dict(schema)
    for key, value in schema.items():
        if key in _BY_NAME:
            result[key] = {name: mapped(inner, change) for name, inner in value.items()}
        elif key in _ONE and isinstance(value, dict):
            result[key] = mapped(value, change)
        elif key in UNIONS:
            result[key] = [mapped(inner, change) for inner in value]
    return change(result)


def without(schema: Schema, *keywords: str) -> Schema:
    """The schema itself, not those inside of it, without some keywords."""
    return {key: value for key, value in schema.items() if key not in keywords}


def in_order(schema: Schema) -> Schema:
    """The schema's keywords in the order in which people read them."""
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | {key: schema[key] for key in sorted(schema) if key not in known}


def or_null(schema: Schema) -> Schema:
    """The schema of an optional field: null is absent. What describes the field stays outside."""
    outer = {key: schema[key] for key in ("description", "default", "$comment") if key in schema}
    inner = without(schema, *outer)
    if not inner or NULL in inner.get("anyOf", ()):
        return schema
    return outer | {"anyOf": [*inner.get("anyOf", [inner]), NULL]}


def flat(schema: Schema) -> Schema:
    """The schema with the arms of unions that stand directly in its own union, each once."""
    if "anyOf" not in schema:
        return schema
    arms: list[Schema] = []
    for arm in schema["anyOf"]:
        arms += (inner for inner in arm.get("anyOf", [arm]) if inner not in arms)
    return schema | {"anyOf": arms}


def named_in(schema: Schema, definitions: dict[str, Schema]) -> list[str]:
    """Names of the definitions that a schema needs, in the order of the definitions."""
    found: set[str] = set()

    def visit(node: Schema) -> Schema:
        name = node.get("$ref", "").removeprefix(REF)
        if name and name not in found:
            found.add(name)
            mapped(definitions[name], visit)
        return node

    mapped(schema, visit)
    return [name for name in definitions if name in found]


def closed(properties: dict[str, Schema], *, optional: tuple[str, ...] = (), **keywords: Any) -> Schema:
    """An object of these properties and no others."""
    return {
        **keywords,
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
