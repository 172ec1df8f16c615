"""JSON Schema documents: one for each public type, all types in one, and an OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from provenance.errors import ContractError
from provenance.json_schema._contract import contract_definitions
from provenance.json_schema._data import data_definitions
from provenance.json_schema._fuzz import fuzz_definitions
from provenance.json_schema._nodes import REF, Schema, in_order, mapped, named_in, without
from provenance.json_schema._report import report_definitions

#: Goes up with a breaking change: one after which data that were valid are so no longer, or a type or a field
#: that programs knew is gone.
MAJOR: Final = 1

#: Name of a type, on the command line and of its file -> its definition.
TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "datum": "Datum",
        "model-input": "ModelInput",
        "tensor": "TensorData",
        "prompt-span": "PromptProvenanceSpan",
        "sampled-span": "SampledProvenanceSpan",
        "sequence": "SampledSequence",
        "trajectory": "Trajectory",
        "report": "Report",
        "violation": "Violation",
        "contract": "Contract",
        "fuzz-report": "FuzzReport",
    }
)
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_COMPONENTS: Final = "#/components/schemas/"


def schema(name: str) -> dict[str, Any]:
    """The schema of a type, complete in itself, for any validator of draft 2020-12.

    Raises:
        ContractError: no type has this name.
    """
    definitions = _plain()
    own = definitions[_definition(name)]
    needed = {other: definitions[other] for other in named_in(own, definitions)}
    return in_order({"$schema": _DIALECT, "$id": _id(name), **own}) | ({"$defs": needed} if needed else {})


def bundle() -> dict[str, Any]:
    """The schemas of all types, as definitions of one that holds for none of them by itself."""
    words = "All types; refer to one as #/$defs/NAME."
    return {
        "$schema": _DIALECT,
        "$id": _id("bundle"),
        "title": "Bundle",
        "description": words,
        "$defs": dict(_plain()),
    }


def openapi(name: str | None = None) -> dict[str, Any]:
    """An OpenAPI 3.1 document without paths, whose components are all types or one and what it needs.

    Raises:
        ContractError: no type has this name.
    """
    definitions = _definitions()
    chosen: Iterable[str] = definitions
    if name is not None:
        own = _definition(name)
        chosen = sorted([own, *named_in(definitions[own], definitions)])
    return {
        "openapi": "3.1.0",
        "info": {"title": "datum-provenance", "version": str(MAJOR)},
        "jsonSchemaDialect": _DIALECT,
        "paths": {},
        "components": {"schemas": {n: mapped(definitions[n], _component) for n in chosen}},
    }


def dumps(document: object) -> str:
    """A document as the text of its file."""
    return json.dumps(document, indent=2) + "\n"


def _id(name: str) -> str:
    return f"urn:datum-provenance:schema:{MAJOR}:{name}"


def _definition(name: str) -> str:
    if name not in TYPES:
        raise ContractError(f"no type is called {name!r}; known are {', '.join(TYPES)}")
    return TYPES[name]


@lru_cache(maxsize=1)
def _definitions() -> dict[str, Schema]:
    """All definitions with the keywords of every profile."""
    found = data_definitions() | contract_definitions() | report_definitions() | fuzz_definitions()
    return {name: mapped(found[name], in_order) for name in sorted(found)}


@lru_cache(maxsize=1)
def _plain() -> dict[str, Schema]:
    """Without what only OpenAPI knows, and what strict validators and generators stumble over."""
    return {name: mapped(given, _portable) for name, given in _definitions().items()}


def _portable(node: Schema) -> Schema:
    if "$ref" in node:  # words beside a reference make generators declare the type a second time
        return {"$ref": node["$ref"]}
    # Strict validators refuse formats that they were not told about.
    return without(node, "discriminator", "format")


def _component(node: Schema) -> Schema:
    node = dict(node)
    if "$ref" in node:
        node["$ref"] = node["$ref"].replace(REF, _COMPONENTS)
    if "discriminator" in node:
        mapping = node["discriminator"]["mapping"]
        node["discriminator"] = node["discriminator"] | {
            "mapping": {tag: ref.replace(REF, _COMPONENTS) for tag, ref in mapping.items()}
        }
    return node
