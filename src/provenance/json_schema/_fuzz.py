"""What `provenance fuzz --format json` prints, as schemas."""

from __future__ import annotations

from provenance.fuzz import FuzzReport, Trial, Verdict
from provenance.json_schema._attributes import attribute_docs
from provenance.json_schema._nodes import REF, Schema, closed, or_null
from provenance.json_schema._report import CODE, place_properties, size, text


def fuzz_definitions() -> dict[str, Schema]:
    """Definitions of `FuzzReport` and of what it is made of, by name."""
    return {"FuzzReport": _report(), "Trial": _trial()}


def _report() -> Schema:
    docs = attribute_docs(FuzzReport)
    properties: dict[str, Schema] = {
        "ok": {
            "description": "Every fault was caught, and all that is valid accepted; exit code 0.",
            "type": "boolean",
        },
        "faults": size("Mutations that broke the data, and about which there is a verdict."),
        "caught": size("Faults that were refused, or warned of."),
        "let_through": _names("Faults that were not."),
        "harmless": size("Mutations that left the data valid, and about which there is a verdict."),
        "cried_wolf": _names("Those that were not accepted."),
        "no_verdict": _names("Mutations on which the check came to no end."),
        "trials": {
            "description": docs["trials"],
            "type": "array",
            "items": {"$ref": REF + "Trial"},
        },
        "judge": text(docs["judge"]),
        "datums": size(docs["datums"], least=1),
        "more": {"description": docs["more"], "type": "boolean"},
        "seed": size(docs["seed"]),
        "contract": {"$ref": REF + "ContractInForce"},
        "version": text(docs["version"]),
    }
    words = "Which faults a check catches. The same data, seed and check give the same report."
    return closed(properties, title="FuzzReport", description=words)


def _trial() -> Schema:
    docs = attribute_docs(Trial)
    properties: dict[str, Schema] = {
        "mutation": text("Its name, as in docs/mutations.md."),
        "family": text("What it changes."),
        "summary": text(docs["summary"]),
        "expected": {"description": docs["expected"], "type": "array", "items": CODE},
        "verdict": {
            "description": "What the check made of it.",
            "type": "string",
            "enum": [verdict.value for verdict in Verdict],
        },
        "by": {"description": docs["by"], "type": "array", "items": text("One of them.")},
        "note": or_null(text("Why it was let through or is not applicable, as far as that is known.")),
        **place_properties(),
    }
    words = "One mutation, done to the data at one place. What does not apply to the place is null."
    return closed(properties, title="Trial", description=words)


def _names(description: str) -> Schema:
    return {"description": description, "type": "array", "items": text("The mutation's name.")}
