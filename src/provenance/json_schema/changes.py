"""What a new version of the schemas changes, by type and field: what breaks, and what adds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from provenance.json_schema._arms import ANYTHING, arms, kind_of, narrowed
from provenance.json_schema._nodes import LOWER, UPPER, Schema

__all__ = ["Change", "changes", "column_changes"]

_BOUNDS: Final = (*LOWER, *UPPER, "pattern")
_INSIDE: Final = (("items", "[]"), ("additionalProperties", ".*"), ("propertyNames", ": its names"))
_COMPARED: Final = {
    *("$ref", "type", "enum", "properties", "required"),
    *_BOUNDS,
    *(keyword for keyword, _ in _INSIDE),
}
#: Values that say what a keyword's absence says.
_IDLE: Final[Mapping[str, Any]] = {
    "minLength": 0,
    "minItems": 0,
    "minProperties": 0,
    "uniqueItems": False,
}


class Change(NamedTuple):
    """One difference."""

    path: str
    """Type and field, as in ``Datum.model_input_spans``; ``[]`` stands for the elements of a list."""
    text: str
    breaking: bool

    def __str__(self) -> str:
        """Write the change on one line."""
        return f"{'breaking' if self.breaking else 'additive'}: {self.path}: {self.text}"


def changes(old: Mapping[str, Schema], new: Mapping[str, Schema]) -> list[Change]:
    """Compare the definitions of two bundles; words, order and ways to write one thing do not count.

    Breaking: a type or property is gone, a property is newly required, a value that was valid is so no
    longer, a default is another, or a keyword differs whose meaning is not compared here. Everything else
    that a schema can say more or otherwise is additive.
    """
    found = [
        *(Change(name, "type removed", breaking=True) for name in old if name not in new),
        *(Change(name, "type added", breaking=False) for name in new if name not in old),
        *(change for name in old if name in new for change in _compared(name, old[name], new[name])),
    ]
    return list(dict.fromkeys(found))


def column_changes(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    """Compare the types of an Arrow schema's columns; one that is gone or of another type breaks."""
    found = []
    for name, before in old.items():
        after = new.get(name)
        if after is None:
            found.append(Change(f"{path}.{name}", "column removed", breaking=True))
        elif before != after:
            wider = before == f"{after} not null"
            found.append(Change(f"{path}.{name}", f"{before} is now {after}", breaking=not wider))
    added = [name for name in new if name not in old]
    return found + [Change(f"{path}.{name}", "column added", breaking=False) for name in added]


def _compared(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    """Compare two schemas, each as a list of alternatives."""
    yield from _defaults(path, old, new)
    if "anyOf" in old and "oneOf" in new:
        yield Change(path, "anyOf is now oneOf", breaking=True)
    ours, theirs = arms(old), arms(new)
    for arm in ours:
        takers = [other for other in theirs if _takes(kind_of(other), kind_of(arm))]
        if not takers:
            yield Change(path, f"{kind_of(arm)} is not taken any more", breaking=True)
            continue
        # Several arms of one kind, as lists and lists of lists: that which takes most of what this did.
        yield from min((list(_within(path, arm, other)) for other in takers), key=_severity)
    known = {kind_of(arm) for arm in ours}
    for kind in dict.fromkeys(map(kind_of, theirs)):
        if not any(_takes(kind, before) for before in known):
            yield Change(path, f"{kind} is taken too", breaking=False)


def _takes(kind: str, other: str) -> bool:
    return kind in (other, ANYTHING) or (kind, other) == ("number", "integer")


def _severity(found: list[Change]) -> tuple[int, int]:
    return sum(change.breaking for change in found), len(found)


def _defaults(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    # As JSON, where false is not 0.
    before, after = (json.dumps(given["default"]) if "default" in given else None for given in (old, new))
    if before == after:
        return
    if before is None:
        yield Change(path, f"default {after} added", breaking=False)
    elif after is None:
        yield Change(path, f"default {before} removed", breaking=True)
    else:
        yield Change(path, f"default {before} is now {after}", breaking=True)


def _within(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    """Compare two alternatives of which the new one takes the kind of the old one."""
    if kind_of(new) != kind_of(old):
        widened = kind_of(new) != ANYTHING
        text = f"{kind_of(old)} widened to {kind_of(new)}" if widened else "any value is taken"
        yield Change(path, text, breaking=False)
        new = narrowed(new, kind_of(old))
    yield from _values(path, old, new)
    yield from _bounds(path, old, new)
    yield from _properties(path, old, new)
    for keyword, place in _INSIDE:
        before, after = _inside(old, keyword), _inside(new, keyword)
        if before == after:  # also where neither says anything, and so on without end
            continue
        if before is not None and after is not None:
            yield from _compared(path + place, before, after)
        else:
            yield Change(path + place, "narrowed" if after is None else "widened", breaking=after is None)
    for keyword in sorted((old.keys() | new.keys()) - _COMPARED):
        idle = _IDLE.get(keyword)
        if old.get(keyword, idle) != new.get(keyword, idle):
            yield Change(path, f"{keyword} changed", breaking=True)


def _inside(schema: Schema, keyword: str) -> Schema | None:
    """The schema under a keyword; None where it takes nothing."""
    found = schema.get(keyword, True)
    if isinstance(found, bool):
        return {} if found else None
    inner: Schema = found
    return inner


def _values(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    before, after = old.get("enum"), new.get("enum")
    if before is None and after is not None:
        yield Change(path, f"narrowed to {', '.join(map(repr, after))}", breaking=True)
    elif before is not None and after is None:
        yield Change(path, "any value is taken", breaking=False)
    elif before is not None and after is not None:
        for value in before:
            if value not in after:
                yield Change(path, f"{value!r} is not taken any more", breaking=True)
        for value in after:
            if value not in before:
                yield Change(path, f"{value!r} is taken too", breaking=False)


def _bounds(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    for keyword in _BOUNDS:
        idle = _IDLE.get(keyword)
        before, after = (None if given == idle else given for given in (old.get(keyword), new.get(keyword)))
        if before == after:
            continue
        if after is None:
            yield Change(path, f"{keyword} {before!r} removed", breaking=False)
        elif before is None:
            yield Change(path, f"{keyword} {after!r} added", breaking=True)
        else:
            # Which strings two patterns take is not compared.
            wider = keyword != "pattern" and (after < before if keyword in LOWER else after > before)
            yield Change(path, f"{keyword} {before!r} is now {after!r}", breaking=not wider)


def _properties(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    before, after = old.get("properties", {}), new.get("properties", {})
    required, was_required = new.get("required", ()), old.get("required", ())
    for name, schema in before.items():
        if name not in after:
            yield Change(f"{path}.{name}", "property removed", breaking=True)
            continue
        if name in required and name not in was_required:
            yield Change(f"{path}.{name}", "newly required", breaking=True)
        elif name in was_required and name not in required:
            yield Change(f"{path}.{name}", "required no longer", breaking=False)
        yield from _compared(f"{path}.{name}", schema, after[name])
    open_before = _inside(old, "additionalProperties") if kind_of(old) == "object" else None
    for name in after:
        if name not in before:
            needed = name in required
            yield Change(f"{path}.{name}", "required property added" if needed else "property added", needed)
            if open_before is not None:
                yield from _compared(f"{path}.{name}", open_before, after[name])
    for name in required:
        if name not in was_required and name not in before and name not in after:
            yield Change(f"{path}.{name}", "newly required", breaking=True)
