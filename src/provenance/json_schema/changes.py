"""What a new version of the schemas changes, by type and field: what breaks, and what adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from provenance.json_schema._nodes import UNIONS, Schema

__all__ = ["Change", "changes"]

_LOWER: Final = ("minimum", "minLength", "minItems")
_UPPER: Final = ("maximum", "maxLength", "maxItems")


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
    """Compare the definitions of two bundles; words and order do not count.

    Breaking: a type or property is gone, a property is newly required, or a value that was valid is so no
    longer. Everything else that a schema can say more or otherwise is additive.
    """
    return [
        *(Change(name, "type removed", breaking=True) for name in old if name not in new),
        *(Change(name, "type added", breaking=False) for name in new if name not in old),
        *(found for name in old if name in new for found in _compared(name, old[name], new[name])),
    ]


def _compared(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    """Compare two schemas, each as a list of alternatives."""
    ours, theirs = _arms(old), list(_arms(new))
    for arm in ours:
        same_kind = [other for other in theirs if _kind(other) == _kind(arm)]
        if not same_kind:
            wider = [other for other in theirs if _kind(arm) == "integer" and _kind(other) == "number"]
            text = f"integer widened to {_kind(wider[0])}" if wider else f"{_kind(arm)} is not taken any more"
            yield Change(path, text, breaking=not wider)
            continue
        # Several arms of one kind, as lists and lists of lists: that which takes most of what this did.
        yield from min((list(_within(path, arm, other)) for other in same_kind), key=_severity)
    known = {_kind(arm) for arm in ours}
    known |= {"number"} if "integer" in known else set()  # widened, as was said above
    for arm in theirs:
        if _kind(arm) not in known:
            yield Change(path, f"{_kind(arm)} is taken too", breaking=False)


def _arms(schema: Schema) -> list[Schema]:
    for keyword in UNIONS:
        if keyword in schema:
            return list(schema[keyword])
    return [schema]


def _kind(schema: Schema) -> str:
    return str(schema.get("$ref", schema.get("type", "anything"))).rpartition("/")[2]


def _severity(found: list[Change]) -> tuple[int, int]:
    return sum(change.breaking for change in found), len(found)


def _within(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    """Compare two schemas of one kind."""
    yield from _values(path, old, new)
    yield from _bounds(path, old, new)
    yield from _properties(path, old, new)
    for keyword, place in (("items", "[]"), ("additionalProperties", ".*"), ("propertyNames", ": its names")):
        before, after = old.get(keyword, True), new.get(keyword, True)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _compared(path + place, before, after)
        elif before != after:
            narrower = after is False or (before is True and isinstance(after, dict))
            yield Change(path + place, "narrowed" if narrower else "widened", breaking=narrower)


def _values(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    before, after = _listed(old), _listed(new)
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


def _listed(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _bounds(path: str, old: Schema, new: Schema) -> Iterator[Change]:
    for keyword in (*_LOWER, *_UPPER, "pattern"):
        before, after = old.get(keyword), new.get(keyword)
        if before == after:
            continue
        if after is None:
            yield Change(path, f"{keyword} {before!r} removed", breaking=False)
        elif before is None:
            yield Change(path, f"{keyword} {after!r} added", breaking=True)
        else:
            # Which strings two patterns take is not compared.
            wider = keyword != "pattern" and (after < before if keyword in _LOWER else after > before)
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
    for name in after:
        if name not in before:
            needed = name in required
            yield Change(f"{path}.{name}", "required property added" if needed else "property added", needed)
