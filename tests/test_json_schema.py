"""The schemas: how they are built, and that they have the fields of the code that reads and writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from _paths import check_case

import provenance
from provenance.contract import _KEYS, Contract
from provenance.errors import ContractError
from provenance.formats import _datums, _sequences
from provenance.json_schema import MAJOR, TYPES, bundle, openapi, rule_catalogue, schema
from provenance.json_schema._attributes import attribute_docs
from provenance.json_schema._nodes import mapped, named_in
from provenance.models import Datum, SampledSequence, Trajectory
from provenance.report import Location
from provenance.reports.json import dumps
from provenance.rules import RULESET, case, registry

Json = dict[str, Any]
DATUM, SEQUENCE = (jsonschema.Draft202012Validator(schema(name)) for name in ("datum", "sequence"))
DEFINITIONS: dict[str, Json] = bundle()["$defs"]


def nodes(document: Json) -> Iterator[Json]:
    """Every schema inside of a document, the document included."""
    found: list[Json] = []
    mapped(document, lambda node: found.append(node) or node)
    return iter(found)


# Form


@pytest.mark.parametrize("name", [*TYPES, "bundle"])
def test_each_document_is_a_schema_of_its_own(name: str) -> None:
    document = bundle() if name == "bundle" else schema(name)
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["$id"] == f"urn:datum-provenance:schema:{MAJOR}:{name}"
    referred = {node["$ref"] for node in nodes(document) if "$ref" in node}
    assert referred <= {f"#/$defs/{definition}" for definition in document.get("$defs", {})}
    if name != "bundle":
        assert set(document.get("$defs", ())) == set(named_in(DEFINITIONS[TYPES[name]], DEFINITIONS))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions_follow_the_recipe(name: str) -> None:
    assert DEFINITIONS[name]["title"] == name
    assert "Raises" not in DEFINITIONS[name]["description"]
    for node in nodes(DEFINITIONS[name]):
        assert not node.keys() & {"discriminator", "format", "prefixItems", "exclusiveMaximum"}
        assert "$ref" not in node or len(node) == 1
        if node.get("type") == "integer" and "enum" not in node and node != {"type": "integer"}:
            assert node.keys() >= {"minimum", "maximum"}
        for field, inner in node.get("properties", {}).items():
            assert "title" not in inner
            if "const" in inner:
                assert inner["type"] == "string"
                assert field in node["required"]
        if "properties" in node:
            assert node["additionalProperties"] is False


def test_unions_have_names() -> None:
    kinds = {
        name: [arm["$ref"] for arm in node["oneOf"]] for name, node in DEFINITIONS.items() if "oneOf" in node
    }
    assert kinds == {
        "Chunk": [
            f"#/$defs/{kind}"
            for kind in ("EncodedTextChunk", "ImageChunk", "ImageAssetPointerChunk", "DmelChunk")
        ],
        "ProvenanceSpan": ["#/$defs/PromptProvenanceSpan", "#/$defs/SampledProvenanceSpan"],
    }


def test_openapi_has_discriminators_and_formats() -> None:
    document = openapi()
    schemas = document["components"]["schemas"]
    assert schemas.keys() == DEFINITIONS.keys()
    assert schemas["ProvenanceSpan"]["discriminator"] == {
        "propertyName": "type",
        "mapping": {
            "prompt": "#/components/schemas/PromptProvenanceSpan",
            "sampled": "#/components/schemas/SampledProvenanceSpan",
        },
    }
    assert schemas["EncodedTextChunk"]["properties"]["tokens"]["items"]["format"] == "int32"
    assert schemas["SampledSequence"]["properties"]["sampled_at"]["format"] == "date-time"
    referred = {node["$ref"] for node in nodes({"$defs": schemas}) if "$ref" in node}
    assert referred <= {f"#/components/schemas/{name}" for name in schemas}
    assert openapi("datum")["components"]["schemas"].keys() < schemas.keys()


def test_unknown_types_are_refused_with_the_names() -> None:
    for build in (schema, openapi):
        with pytest.raises(ContractError, match="no type is called 'datums'; known are datum, model-input"):
            build("datums")


def test_catalogue_has_every_rule() -> None:
    catalogue = rule_catalogue()
    assert catalogue["ruleset"] == RULESET
    assert [rule["code"] for rule in catalogue["rules"]] == sorted(registry())
    (entry,) = (rule for rule in catalogue["rules"] if rule["code"] == "SPN002")
    assert entry["severity"]["stable_reinforce"] == "error"
    assert entry["severity"]["ppo"] == "off"
    assert entry["docs"].startswith(entry["summary"])
    assert json.loads(json.dumps(catalogue)) == catalogue


def test_attribute_docs_are_those_below_the_attributes() -> None:
    assert attribute_docs(Location) == {
        "row": "Number of the datum (or sequence record) in its file or list, from 0.",
        "line": "Physical line, from 1, where the file has lines.",
        "index": "First failing element of the field, from 0; (i, k) in an (N, K) tensor.",
        "length": "Number of failing elements from there.",
    }


# The same fields as in the code that reads and writes


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("datum", _datums.FIELDS),
        ("sequence", _sequences.FIELDS),
        ("trajectory", Trajectory.model_fields),
        ("contract", _KEYS),
    ],
)
def test_fields_are_those_of_the_readers(name: str, fields: Any) -> None:
    assert set(schema(name)["properties"]) == set(fields)


OF_DATUMS = {code: rule.good[0] for code, rule in sorted(registry().items()) if rule.good[0].lines is None}


def test_every_report_is_as_the_schema_says() -> None:
    validator = jsonschema.Draft202012Validator(schema("report"))
    fields = {name: set(DEFINITIONS[name]["properties"]) for name in ("Report", "Violation")}
    kinds = set()
    two_dimensional = {"data": [0.0] * 9 + [float("nan")], "dtype": "float32", "shape": [5, 2]}
    pairs = case({"loss_fn_inputs.weights": two_dimensional}, loss="cross_entropy")
    for each in (*(rule.bad[0] for rule in registry().values() if rule.bad[0].lines is None), pairs):
        written = json.loads(dumps(check_case(each).to_dict()))
        validator.validate(written)
        assert written.keys() == fields["Report"]
        for violation in written["violations"]:
            assert violation.keys() == fields["Violation"]
            kinds.add(type(violation["index"]))
    assert kinds == {int, list, type(None)}


def test_a_report_of_another_form_is_refused() -> None:
    written = check_case(OF_DATUMS["VAL002"]).to_dict()
    validator = jsonschema.Draft202012Validator(schema("report"))
    for change in ({"valid": 1}, {"extra": 1}, {"counts": {"VAL": {}}}, {"datums": -1}):
        assert not validator.is_valid(written | change), change


CONTRACTS: list[tuple[str, bool]] = [
    ("", True),
    ('extends = "ppo"\nruleset = 1', True),
    ('[severity]\nADV = "off"\nval002 = "warning"', True),
    ("[parameters]\nvocab_size = 151936\ntolerance = 1e-3\nwindow = 3600", True),
    ('extends = "custom"\n[inputs]\ntarget_tokens = 1\n[inputs.mask]\nrank = 2\ndtype = "float32"', True),
    ('extend = "ppo"', False),
    ("extends = 1", False),
    ("ruleset = 0", False),
    (f"ruleset = {RULESET + 1}", False),
    ("ruleset = true", False),
    ('[severity]\nADV01 = "off"', False),
    ('[severity]\nADV = "none"', False),
    ("[parameters]\nvocab_size = 0", False),
    ("[parameters]\nvocab_size = 1.5", False),
    ("[parameters]\nvocabulary = 3", False),
    ("[parameters]\ntolerance = -1", False),
    ("[parameters]\ntolerance = true", False),
    ("severity = 1", False),
    ('extends = "custom"\n[inputs]\nmask = 3', False),
    ('extends = "custom"\n[inputs.mask]\ndtype = "int32"', False),
    ('extends = "custom"\n[inputs.mask]\nshape = 1', False),
]


@pytest.mark.parametrize(("text", "valid"), CONTRACTS)
def test_contract_files(text: str, valid: bool, tmp_path: Path) -> None:
    import tomllib

    path = tmp_path / "contract.toml"
    path.write_text(text)
    assert jsonschema.Draft202012Validator(schema("contract")).is_valid(tomllib.loads(text)) == valid
    if valid:
        saved = Contract.load(path).to_toml()
        assert jsonschema.Draft202012Validator(schema("contract")).is_valid(tomllib.loads(saved))
    else:
        with pytest.raises(ContractError):
            Contract.load(path)


def test_what_models_write_is_taken() -> None:
    for each in OF_DATUMS.values():
        for datum in each.datums:
            try:
                written = Datum.model_validate(datum).model_dump(mode="json")
            except provenance.SchemaError:
                continue
            DATUM.validate(written)
    sequence = SampledSequence.model_validate(OF_DATUMS["VAL002"].sequences[0])
    SEQUENCE.validate(sequence.model_dump(mode="json"))
    trajectory = Trajectory.model_validate({"turns": [{"sequence": sequence, "advantage": [1, 0, 0.5]}]})
    jsonschema.Draft202012Validator(schema("trajectory")).validate(trajectory.model_dump(mode="json"))
