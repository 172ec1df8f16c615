"""A contract file as a schema: what a TOML file, or ``[tool.provenance]``, may hold."""

from __future__ import annotations

from typing import Final

from provenance.contract import AT_LEAST_ONE, LARGEST, PARAMETER_TYPES
from provenance.json_schema._attributes import attribute_docs
from provenance.json_schema._nodes import REF, Schema, closed
from provenance.report import Severity
from provenance.rules import RULESET, Parameters

_RANK: Final[Schema] = {
    "description": "Number of dimensions; 1 where it is left out.",
    "type": "integer",
    "format": "int32",
    "enum": [0, 1, 2],
}
_DTYPE: Final[Schema] = {
    "description": "The dtype that the input is declared with; int64 for target_tokens and float32 for others"
    " where it is left out.",
    "type": "string",
    "enum": ["int64", "float32"],
}


def contract_definitions() -> dict[str, Schema]:
    """Definitions of `Contract` and of what it is made of, by name."""
    properties: dict[str, Schema] = {
        "extends": {
            "description": "A loss, or another contract file beside this one; stable_reinforce by default.",
            "type": "string",
        },
        "ruleset": {
            "description": "Version of the rule set the contract was written for: rules that came later are"
            " warnings.",
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "maximum": RULESET,
        },
        "severity": {
            "description": "How much rules weigh, by code or family (three letters).",
            "type": "object",
            "propertyNames": {"type": "string", "pattern": "^[A-Za-z]{3}([0-9]{3})?$"},
            "additionalProperties": {"type": "string", "enum": [severity.value for severity in Severity]},
        },
        "parameters": parameters("The numbers that rules compare with; times in seconds, logprobs in nats."),
        "inputs": {
            "description": "The inputs of a custom loss, by name: their rank, or rank and dtype.",
            "type": "object",
            "additionalProperties": {"anyOf": [_RANK, {"$ref": REF + "InputDeclaration"}]},
        },
    }
    words = "A contract file: which rules apply, how much each weighs, and with which parameters."
    declaration = {"rank": _RANK, "dtype": _DTYPE}
    return {
        "Contract": closed(properties, optional=tuple(properties), title="Contract", description=words),
        "InputDeclaration": closed(
            declaration,
            optional=tuple(declaration),
            title="InputDeclaration",
            description="One input of a custom loss.",
        ),
    }


def parameters(description: str) -> Schema:
    """Parameters of a contract, each with its least value."""
    docs = attribute_docs(Parameters)
    properties: dict[str, Schema] = {}
    for name, allowed in PARAMETER_TYPES.items():
        kind = {"type": "number"} if float in allowed else {"type": "integer", "format": "int64"}
        bounds = {"minimum": 1 if name in AT_LEAST_ONE else 0, "maximum": LARGEST}
        properties[name] = {"description": docs[name], **kind, **bounds}
    return closed(properties, optional=tuple(properties), description=description)
