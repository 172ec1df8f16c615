"""Which changes of a schema break programs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from provenance.json_schema import bundle, changes

Json = dict[str, Any]
OLD: Json = {
    "Thing": {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": "a"},
            "level": {"type": "string", "enum": ["low", "high"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 10},
            "name": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
            "values": {"type": "array", "items": {"type": "number"}},
            "data": {
                "anyOf": [
                    {"type": "array", "items": {"type": "number"}},
                    {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                ]
            },
            "other": {"$ref": "#/$defs/Other"},
            "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
            "note": {},
        },
        "required": ["kind", "count"],
        "additionalProperties": False,
    },
    "Other": {"oneOf": [{"$ref": "#/$defs/Thing"}, {"$ref": "#/$defs/Third"}]},
    "Third": {"type": "object", "properties": {}, "additionalProperties": False},
}
DROP = object()


def edited(path: str, value: Any) -> Json:
    """The old definitions with one change; the path is dotted and starts at Thing."""
    new = copy.deepcopy(OLD)
    target: Any = new
    *parents, last = path.split(".")
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if value is DROP:
        del target[last]
    else:
        target[last] = value
    return new


FIELD = "Thing.properties."
CHANGES: dict[str, tuple[str, Any, list[str]]] = {
    "property removed": (FIELD + "name", DROP, ["breaking: Thing.name: property removed"]),
    "property added": (FIELD + "more", {"type": "null"}, ["additive: Thing.more: property added"]),
    "newly required": ("Thing.required", ["kind", "count", "name"], ["breaking: Thing.name: newly required"]),
    "not required": ("Thing.required", ["kind"], ["additive: Thing.count: required no longer"]),
    "type removed": ("Third", DROP, ["breaking: Third: type removed"]),
    "type added": ("Fourth", {}, ["additive: Fourth: type added"]),
    "const": (
        FIELD + "kind.const",
        "b",
        ["breaking: Thing.kind: 'a' is not taken any more", "additive: Thing.kind: 'b' is taken too"],
    ),
    "enum narrowed": (FIELD + "level.enum", ["low"], ["breaking: Thing.level: 'high' is not taken any more"]),
    "enum widened": (
        FIELD + "level.enum",
        ["low", "high", "top"],
        ["additive: Thing.level: 'top' is taken too"],
    ),
    "enum added": (FIELD + "count.enum", [1], ["breaking: Thing.count: narrowed to 1"]),
    "enum gone": (FIELD + "level", {"type": "string"}, ["additive: Thing.level: any value is taken"]),
    "maximum tightened": (FIELD + "count.maximum", 9, ["breaking: Thing.count: maximum 10 is now 9"]),
    "maximum loosened": (FIELD + "count.maximum", 11, ["additive: Thing.count: maximum 10 is now 11"]),
    "minimum tightened": (FIELD + "count.minimum", 1, ["breaking: Thing.count: minimum 0 is now 1"]),
    "minimum loosened": (FIELD + "count.minimum", -1, ["additive: Thing.count: minimum 0 is now -1"]),
    "bound removed": (FIELD + "count.minimum", DROP, ["additive: Thing.count: minimum 0 removed"]),
    "bound added": (FIELD + "values.minItems", 1, ["breaking: Thing.values: minItems 1 added"]),
    "pattern added": (FIELD + "kind.pattern", "^a$", ["breaking: Thing.kind: pattern '^a$' added"]),
    "null refused": (
        FIELD + "name",
        {"type": "string", "minLength": 1},
        ["breaking: Thing.name: null is not taken any more"],
    ),
    "null taken": (
        FIELD + "values",
        {"anyOf": [OLD["Thing"]["properties"]["values"], {"type": "null"}]},
        ["additive: Thing.values: null is taken too"],
    ),
    "inside of a union": (
        FIELD + "name.anyOf.0.minLength",
        2,
        ["breaking: Thing.name: minLength 1 is now 2"],
    ),
    "items narrowed": (
        FIELD + "values.items.type",
        "integer",
        [
            "breaking: Thing.values[]: number is not taken any more",
            "additive: Thing.values[]: integer is taken too",
        ],
    ),
    "items widened": (
        "Thing.properties.labels.additionalProperties.type",
        "number",
        ["additive: Thing.labels.*: integer widened to number"],
    ),
    "list of lists gone": (
        FIELD + "data.anyOf",
        OLD["Thing"]["properties"]["data"]["anyOf"][:1],
        [
            "breaking: Thing.data[]: array is not taken any more",
            "additive: Thing.data[]: number is taken too",
        ],
    ),
    "closed": ("Thing.properties.labels.additionalProperties", False, ["breaking: Thing.labels.*: narrowed"]),
    "opened": ("Thing.additionalProperties", True, ["additive: Thing.*: widened"]),
    "another type": (
        FIELD + "other.$ref",
        "#/$defs/Third",
        ["breaking: Thing.other: Other is not taken any more", "additive: Thing.other: Third is taken too"],
    ),
    "kind removed": (
        "Other.oneOf",
        [{"$ref": "#/$defs/Third"}],
        ["breaking: Other: Thing is not taken any more"],
    ),
    "kind added": (
        "Other.oneOf",
        [*OLD["Other"]["oneOf"], {"$ref": "#/$defs/New"}],
        ["additive: Other: New is taken too"],
    ),
    "anything narrowed": (
        FIELD + "note",
        {"type": "string"},
        ["breaking: Thing.note: anything is not taken any more", "additive: Thing.note: string is taken too"],
    ),
    "words": ("Thing.description", "Other words.", []),
    "widened and narrowed": (
        FIELD + "count",
        {"type": "number", "minimum": 5, "maximum": 10},
        [
            "additive: Thing.count: integer widened to number",
            "breaking: Thing.count: minimum 0 is now 5",
        ],
    ),
    "exclusive bound": (
        FIELD + "count",
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 10},
        [
            "additive: Thing.count: minimum 0 removed",
            "breaking: Thing.count: exclusiveMinimum 0 added",
        ],
    ),
    "exclusive bound added": (
        FIELD + "count.exclusiveMaximum",
        10,
        ["breaking: Thing.count: exclusiveMaximum 10 added"],
    ),
    "unique": (FIELD + "values.uniqueItems", True, ["breaking: Thing.values: uniqueItems changed"]),
    "not unique": (FIELD + "values.uniqueItems", False, []),
    "properties counted": (
        FIELD + "labels.minProperties",
        1,
        ["breaking: Thing.labels: minProperties 1 added"],
    ),
    "unknown keyword": (FIELD + "kind.x-new", 1, ["breaking: Thing.kind: x-new changed"]),
    "unknown keyword beside a union": (FIELD + "name.not", {}, ["breaking: Thing.name: not changed"]),
    "bound beside a union": (
        FIELD + "name.minLength",
        2,
        ["breaking: Thing.name: allOf changed"],
    ),
    "default added": (FIELD + "level.default", "low", ['additive: Thing.level: default "low" added']),
    "anything": (FIELD + "kind", {}, ["additive: Thing.kind: any value is taken"]),
    "anything but short": (
        FIELD + "kind",
        {"minLength": 1, "minimum": 0},
        ["additive: Thing.kind: any value is taken", "breaking: Thing.kind: minLength 1 added"],
    ),
    "types in a list": (FIELD + "name", {"type": ["string", "null"], "minLength": 1}, []),
    "no bound": (FIELD + "values.minItems", 0, []),
    "type of values left out": (FIELD + "level", {"enum": ["low", "high"]}, []),
    "types of values": (
        FIELD + "level",
        {"enum": ["low", "high", 1, None]},
        ["additive: Thing.level: integer is taken too", "additive: Thing.level: null is taken too"],
    ),
    "const as enum": (FIELD + "kind", {"enum": ["a"]}, []),
    "one of overlapping": (
        FIELD + "data",
        {"oneOf": OLD["Thing"]["properties"]["data"]["anyOf"]},
        ["breaking: Thing.data: anyOf is now oneOf"],
    ),
    "property of an open object": (
        FIELD + "labels.properties",
        {"first": {"type": "string"}},
        [
            "additive: Thing.labels.first: property added",
            "breaking: Thing.labels.first: integer is not taken any more",
            "additive: Thing.labels.first: string is taken too",
        ],
    ),
    "name required of an open object": (
        FIELD + "labels.required",
        ["first"],
        ["breaking: Thing.labels.first: newly required"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(name: str) -> None:
    path, value, expected = CHANGES[name]
    assert [str(change) for change in changes(OLD, edited(path, value))] == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ({"type": "boolean", "default": 0}, "breaking: Flag: default false is now 0"),
        ({"type": "boolean"}, "breaking: Flag: default false removed"),
    ],
)
def test_another_default_breaks(new: Json, expected: str) -> None:
    old = {"Flag": {"type": "boolean", "default": False}}
    assert [str(change) for change in changes(old, {"Flag": new})] == [expected]


def test_no_change() -> None:
    definitions = bundle()["$defs"]
    assert changes(definitions, copy.deepcopy(definitions)) == []
