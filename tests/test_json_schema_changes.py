"""Which changes of a schema break programs, and that the check names type and field."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from test_cli import call

from provenance.cli import commands
from provenance.errors import WriteError
from provenance.json_schema import TYPES, bundle, changes, documents, files

Json = dict[str, Any]
SCHEMAS = Path(__file__).parent.parent / "schemas"
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
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(name: str) -> None:
    path, value, expected = CHANGES[name]
    assert [str(change) for change in changes(OLD, edited(path, value))] == expected


def test_no_change() -> None:
    definitions = bundle()["$defs"]
    assert changes(definitions, copy.deepcopy(definitions)) == []


# The committed files


# Running all examples of all rules takes seconds: once is enough.
GENERATED = cache(files.generated)


@pytest.fixture
def generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "generated", GENERATED)


def test_committed_schemas_are_up_to_date() -> None:
    found = list(files.differences(GENERATED(), str(SCHEMAS)))
    assert not found, "; ".join(found) + "; run 'provenance schema --output schemas'"


@pytest.mark.usefixtures("generated_once")
def test_check_passes_on_what_is_up_to_date() -> None:
    done = call("schema", "--check", "--output", SCHEMAS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def older(tmp_path: Path, generated_once: None) -> Path:
    """A folder of schemas in which ``Datum.model_input_spans`` allowed more, and had no ``datum_id``."""
    files.write(GENERATED(), str(tmp_path))
    path = tmp_path / "bundle.json"
    document = json.loads(path.read_bytes())
    fields = document["$defs"]["Datum"]["properties"]
    fields["model_input_spans"]["anyOf"].append({"type": "string"})
    del fields["datum_id"]
    path.write_text(json.dumps(document))
    return tmp_path


def test_check_names_type_and_field(older: Path) -> None:
    (older / "rules.json").unlink()
    (older / "conformance" / "OLD001.json").write_text("[]")
    done = call("schema", "--check", "--output", older)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{older}/bundle.json: not as generated",
        f"{older}/rules.json: missing",
        f"{older}/conformance/OLD001.json: not generated any more",
        "breaking: Datum.model_input_spans: string is not taken any more",
        "additive: Datum.datum_id: property added",
    ]
    assert "a new MAJOR" in done.stderr
    assert f"provenance schema --output {older}" in done.stderr


def test_a_breaking_change_is_not_written_over_the_same_version(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (older / "bundle.json").read_bytes()
    done = call("schema", "--output", older)
    assert (done.returncode, done.stdout) == (2, "")
    assert "breaking: Datum.model_input_spans: string is not taken any more; " in done.stderr
    assert (older / "bundle.json").read_bytes() == before

    monkeypatch.setattr(documents, "MAJOR", 2)
    monkeypatch.setattr(files, "MAJOR", 2)
    files.write({"bundle.json": documents.dumps(bundle()).encode()}, str(older))
    assert json.loads((older / "bundle.json").read_bytes())["$id"] == "urn:datum-provenance:schema:2:bundle"


@pytest.mark.usefixtures("generated_once")
def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"file/datum\.json: "):
        files.write({"datum.json": b"{}"}, str(tmp_path / "file"))
    (tmp_path / "bundle.json").write_text("{")
    done = call("schema", "--check", "--output", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path}/bundle.json: " in done.stderr


# The command


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["datum"], "datum.json"),
        ([], "bundle.json"),
        (["--profile", "openapi"], "openapi.json"),
    ],
)
def test_command_prints_what_the_files_hold(arguments: list[str], file: str) -> None:
    done = call("schema", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (SCHEMAS / file).read_text()


def test_command_prints_columns() -> None:
    done = call("schema", "sequence", "--format", "arrow")
    assert done.stdout.splitlines()[:3] == [
        "sequence_id: string",
        "session_id: string",
        "prompt_tokens: list<item: int32>",
    ]
    whole = call("schema", "--format", "arrow").stdout
    assert whole.startswith("# datum\ndatum_id: string\n")
    assert whole.endswith("# sequence\n" + done.stdout)


@pytest.mark.parametrize(
    ("arguments", "files_written"),
    [
        (["tensor"], ["tensor.json"]),
        (["datum", "--profile", "openapi"], ["datum.openapi.json"]),
        (["--format", "arrow"], ["datum.arrows", "sequence.arrows"]),
    ],
)
def test_command_writes_files(arguments: list[str], files_written: list[str], tmp_path: Path) -> None:
    done = call("schema", *arguments, "--output", tmp_path / "new")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == files_written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datums"], "no type is called 'datums'; known are datum, "),
        (
            ["report", "--format", "arrow"],
            "no type with columns is called 'report'; known are datum, sequence",
        ),
        (["datum", "--check"], "--check looks at all files, leave out TYPE"),
        (["--format", "arrow", "--profile", "openapi"], "--profile is for JSON"),
    ],
)
def test_misuse_gets_one_line(arguments: list[str], message: str) -> None:
    done = call("schema", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_types_are_completed() -> None:
    completer = ShellComplete(commands, {}, "provenance", "_PROVENANCE_COMPLETE")
    assert [item.value for item in completer.get_completions(["schema"], "se")] == ["sequence"]
    assert [item.value for item in completer.get_completions(["schema"], "")] == list(TYPES)


def test_bundle_loads_nothing_heavy() -> None:
    script = "import sys, provenance.json_schema as s; s.bundle(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert not {"pyarrow", "torch", "hypothesis", "sqlalchemy", "rich", "jsonschema"} & set(loaded.split())
