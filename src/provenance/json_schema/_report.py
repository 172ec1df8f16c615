"""What `provenance check --format json` and `--format jsonl` print, as schemas."""

from __future__ import annotations

from typing import Final

from provenance.json_schema._attributes import attribute_docs
from provenance.json_schema._contract import parameters
from provenance.json_schema._nodes import INT64_MAX, NULL, REF, Schema, closed, or_null, without
from provenance.loss_spec import LOSSES
from provenance.report import Location, Report, Severity

CODE: Final[Schema] = {
    "description": "The rule's code, as in rules.json.",
    "type": "string",
    "pattern": "^[A-Z]{3}[0-9]{3}$",
}
_TEXT: Final[Schema] = {"type": "string"}
_CODES: Final[Schema] = {"type": "string", "pattern": CODE["pattern"]}


def size(description: str, least: int = 0) -> Schema:
    """A number of things."""
    bounds = {"type": "integer", "format": "int64", "minimum": least, "maximum": INT64_MAX}
    return {"description": description, **bounds}


def text(description: str) -> Schema:
    """A string."""
    return {"description": description, **_TEXT}


def _by_code(description: str, values: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "propertyNames": _CODES,
        "additionalProperties": values,
    }


def report_definitions() -> dict[str, Schema]:
    """Definitions of `Report` and of what it is made of, by name."""
    return {
        "ContractInForce": _contract_in_force(),
        "Count": _counts(),
        "NotChecked": _not_checked(),
        "Report": _report(),
        "Violation": _violation(),
    }


def _report() -> Schema:
    docs = attribute_docs(Report)
    properties: dict[str, Schema] = {
        "valid": {"description": "No error was found; warnings may be.", "type": "boolean"},
        "datums": size("Number of datums that were looked at."),
        "positions": size("Number of positions of these datums."),
        "bad_datums": size(docs["bad_datums"]),
        "counts": _by_code(docs["counts"], {"$ref": REF + "Count"}),
        "checked": _by_code(docs["checked"], size("Number of elements.")),
        "violations": {
            "description": "The first few of each rule, as many as --max-examples says.",
            "type": "array",
            "items": {"$ref": REF + "Violation"},
        },
        "not_checked": {
            "description": "Rules that could not be judged: they neither passed nor failed.",
            "type": "array",
            "items": {"$ref": REF + "NotChecked"},
        },
        "contract": {"$ref": REF + "ContractInForce"},
        "session": {
            "description": "The training session, null where none was given.",
            "anyOf": [_TEXT, NULL],
        },
        "now": text("The time at which expiry was judged, RFC 3339."),
        "version": text("Version of the package that checked."),
        "ruleset": size("Version of its rule set.", least=1),
    }
    return closed(properties, title="Report", description="The verdict on a dataset; counts are exact.")


def _violation() -> Schema:
    properties: dict[str, Schema] = {
        "code": CODE,
        "name": text("The rule's name, as in rules.json."),
        "severity": {
            "description": "How much it weighs under the contract of the check.",
            "type": "string",
            "enum": [Severity.ERROR.value, Severity.WARNING.value],
        },
        **place_properties(),
        "message": text("One line: the offending value first, then what was expected."),
    }
    words = "One rule broken at one place; what does not apply to it is null. A line of `--format jsonl`."
    return closed(properties, title="Violation", description=words)


def place_properties() -> dict[str, Schema]:
    """Where something is, as objects have it beside their other properties."""
    docs = attribute_docs(Location)
    index = without(size(docs["index"]), "description")
    pair = {"type": "array", "items": index, "minItems": 2, "maxItems": 2}
    return {
        "file": or_null(text("The file, as it was named.")),
        "row": or_null(size(docs["row"])),
        "line": or_null(size(docs["line"], least=1)),
        "field": or_null(text("Path of the field in its datum or record, or name of the loss input.")),
        "index": {"description": docs["index"], "anyOf": [index, pair, NULL]},
        "length": or_null(size(docs["length"])),
        "sequence_id": or_null(text("The sequence that it is about.")),
    }


def _counts() -> Schema:
    properties = {
        "datums": size("Datums in which the rule is broken; 0 for rules of records, config and dataset."),
        "violations": size("Contiguous runs of failing elements."),
        "elements": size("Failing elements."),
    }
    return closed(properties, title="Count", description="How often a rule was broken.")


def _not_checked() -> Schema:
    properties = {"code": CODE, "reason": text("What was missing.")}
    words = "A rule, or a part of one, that could not be judged, and why."
    return closed(properties, title="NotChecked", description=words)


def _contract_in_force() -> Schema:
    properties: dict[str, Schema] = {
        "loss": {"description": "The loss.", "type": "string", "enum": list(LOSSES)},
        "ruleset": size("Version of the rule set the contract was written for.", least=1),
        "severity": _by_code(
            "Severities that differ from the loss's defaults, by code.",
            {"type": "string", "enum": [severity.value for severity in Severity]},
        ),
        "parameters": parameters("Parameters that differ from their defaults."),
    }
    words = "The contract of a check, as far as it differs from that of its loss."
    return closed(properties, title="ContractInForce", description=words)
