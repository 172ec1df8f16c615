"""The conformance vectors, run as a port would run them: from the files, by what schemas/README.md says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import provenance
from provenance.formats.arrow_schemas import SCHEMAS as ARROW_SCHEMAS
from provenance.rules import registry

SCHEMAS = Path(__file__).parent.parent / "schemas"
FILES = {path.stem: path for path in sorted(SCHEMAS.glob("conformance/*.json"))}
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def with_floats(value: Any) -> Any:
    """The value with the numbers that JSON lacks, which vectors write as text."""
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return _FLOATS.get(value, value) if isinstance(value, str) else value


def vectors_of(code: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads(FILES[code].read_bytes())
    return vectors


def test_every_rule_has_a_file() -> None:
    assert set(FILES) == set(registry())


@pytest.mark.parametrize("code", FILES)
def test_every_rule_has_good_and_bad_vectors(code: str) -> None:
    found = {vector["name"]: code in vector["codes"] for vector in vectors_of(code)}
    assert found == {name: "-bad-" in name for name in found}
    assert set(found.values()) == {True, False}
    for vector in vectors_of(code):
        assert vector.keys() == {"name", "data", "valid", "codes", "violations", "schema_valid"}
        assert vector["schema_valid"] is not False or not vector["valid"]


@pytest.mark.parametrize("code", FILES)
def test_vectors_hold(code: str, tmp_path: Path) -> None:
    for vector in vectors_of(code):
        given = with_floats(vector["data"])
        data: Any = given.get("datums")
        if data is None:
            data = tmp_path / "datums.jsonl"
            data.write_bytes(base64.b64decode(given["file_base64"]))
        report = provenance.check(
            data,
            provenance.Contract.for_loss(given["loss_fn"]).with_parameters(**given["parameters"]),
            ledger=given["sequences"],
            session=given["session"],
            now=given["now"],
            loss_config=given["loss_config"],
        )
        assert (report.valid, sorted(report.counts)) == (vector["valid"], vector["codes"]), vector["name"]
        for violation, expected in zip(report.violations, vector["violations"], strict=True):
            assert {name: violation.to_dict()[name] for name in expected} == expected, vector["name"]


@pytest.mark.parametrize("name", ARROW_SCHEMAS)
def test_arrow_schemas_are_those_of_the_writers(name: str, tmp_path: Path) -> None:
    with pa.ipc.open_stream(SCHEMAS / "arrow" / f"{name}.arrows") as stream:
        assert stream.read_all().num_rows == 0
        committed = stream.schema
    (vector, *_) = vectors_of("SEQ003")
    path = tmp_path / "data.arrow"
    write = provenance.write_datums if name == "datum" else provenance.write_sequences
    write(vector["data"]["datums" if name == "datum" else "sequences"], path)
    with pa.ipc.open_file(path) as file:
        written = file.schema
    tokens = "model_input_tokens"  # in place of chunks, where all of it is text
    names = [field for field in written.names if field != tokens]
    assert [written.field(field) for field in names] == [committed.field(field) for field in names]
    assert (tokens in written.names) == (name == "datum")
