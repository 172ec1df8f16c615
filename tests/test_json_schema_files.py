"""A folder of schemas: that the check names type and field, and what is not overwritten."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from test_cli import call

from provenance.errors import WriteError
from provenance.formats.arrow_schemas import column_types, stream_of
from provenance.json_schema import bundle, documents, files, previous
from provenance.json_schema.changes import column_changes

SCHEMAS = Path(__file__).parent.parent / "schemas"


# Running all examples of all rules takes seconds: once is enough.
GENERATED = cache(files.generated)


@pytest.fixture
def generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "generated", GENERATED)


def test_committed_schemas_are_up_to_date() -> None:
    found = list(files.outdated(GENERATED(), str(SCHEMAS)))
    found += [f"{path}: remove it" for path in previous.stale(str(SCHEMAS))]
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
        f"{older}/conformance/OLD001.json: not generated any more, remove it",
        "breaking: Datum.model_input_spans: string is not taken any more",
        "additive: Datum.datum_id: property added",
    ]
    assert "a new MAJOR" in done.stderr
    assert f"provenance schema --output {older}" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["datum"], ["--profile", "openapi"], ["--format", "arrow"]])
def test_a_breaking_change_is_not_written_over_the_same_version(
    older: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    before = (older / "bundle.json").read_bytes()
    done = call("schema", *arguments, "--output", older)
    assert (done.returncode, done.stdout) == (2, "")
    assert "breaking: Datum.model_input_spans: string is not taken any more; " in done.stderr
    assert (older / "bundle.json").read_bytes() == before

    monkeypatch.setattr(documents, "MAJOR", 2)
    monkeypatch.setattr(previous, "MAJOR", 2)
    files.write({"bundle.json": documents.dumps(bundle()).encode()}, str(older))
    assert json.loads((older / "bundle.json").read_bytes())["$id"] == "urn:datum-provenance:schema:2:bundle"


@pytest.fixture
def folder(tmp_path: Path, generated_once: None) -> Path:
    """A folder of schemas that is up to date."""
    files.write(GENERATED(), str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["datum"], ["--check"]])
def test_a_newer_version_is_left_alone(folder: Path, arguments: list[str]) -> None:
    path = folder / "bundle.json"
    path.write_text(path.read_text().replace("schema:1:bundle", "schema:2:bundle"))
    before = path.read_bytes()
    done = call("schema", *arguments, "--output", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {path}: is of version 2, which is newer than 1: update datum-provenance\n"
    assert path.read_bytes() == before


def test_files_of_others_are_not_stale(folder: Path) -> None:
    (folder / "mine.json").write_text('{"$id": "http://x/y"}')
    (folder / "copy.json").write_text((folder / "datum.json").read_text())
    for name, content in (("list", "[1]"), ("broken", "{"), ("deep", "[" * 100_000)):
        (folder / f"{name}.json").write_text(content)
    (folder / "conformance" / "mine.json").write_text("[]")
    assert call("schema", "datum", "--profile", "openapi", "--output", folder).returncode == 0
    assert call("schema", "--format", "arrow", "--output", folder).returncode == 0
    done = call("schema", "--check", "--output", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_type_that_is_gone_breaks_until_its_file_is_removed(folder: Path) -> None:
    (folder / "span.json").write_text('{"$id": "urn:datum-provenance:schema:1:span"}')
    done = call("schema", "--check", "--output", folder)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{folder}/span.json: not generated any more, remove it",
        "breaking: span: type removed",
    ]
    # Nothing that writing would mend.
    assert "--output" not in done.stderr
    assert call("schema", "datum", "--output", folder).returncode == 2
    (folder / "span.json").unlink()
    assert call("schema", "--check", "--output", folder).returncode == 0


def test_columns_that_are_gone_or_retyped_break(folder: Path) -> None:
    import pyarrow as pa

    path = folder / "arrow" / "sequence.arrows"
    now = pa.ipc.open_stream(path).schema
    tokens = pa.field("prompt_tokens", pa.list_(pa.int64()))
    then = now.set(now.get_field_index("prompt_tokens"), tokens).append(pa.field("old", pa.string()))
    path.write_bytes(stream_of(then.remove(now.get_field_index("session_id"))))
    (folder / "arrow" / "turn.arrows").write_bytes(stream_of(pa.schema([])))
    done = call("schema", "--check", "--output", folder)
    assert done.stdout.splitlines() == [
        f"{path}: not as generated",
        f"{folder}/arrow/turn.arrows: not generated any more, remove it",
        "breaking: arrow/turn: type removed",
        "breaking: arrow/sequence.prompt_tokens[]: int64 is now int32",
        "breaking: arrow/sequence.old: column removed",
        "additive: arrow/sequence.session_id: column added",
    ]
    assert call("schema", "--output", folder).returncode == 2


def test_columns_inside_of_columns() -> None:
    import pyarrow as pa

    inner, more = pa.field("a", pa.int32()), pa.field("b", pa.int32(), nullable=False)
    old, new = (
        column_types(
            pa.schema([("rows", pa.list_(pa.struct(fields))), pa.field("id", pa.string(), nullable=nullable)])
        )
        for fields, nullable in (([inner], True), ([inner, more], False))
    )
    assert [str(change) for change in column_changes("x", old, new)] == [
        "breaking: x.id: string is now string not null",
        "additive: x.rows[].b: column added",
    ]
    assert [str(change) for change in column_changes("x", new, old)] == [
        "breaking: x.rows[].b: column removed",
        "additive: x.id: string not null is now string",
    ]


OWN_ID = '"$id": "urn:datum-provenance:schema:1:bundle"'


@pytest.mark.parametrize(
    "content",
    [
        '{"$id": "http://x/y", "$defs": {}}',
        '{"$id": "urn:datum-provenance:schema:1:datum", "$defs": {}}',
        '{"$id": "urn:datum-provenance:schema:x:bundle", "$defs": {}}',
        "[1]",
        '"x"',
        '{"$defs": {"Datum": 1}}',
        "{" + OWN_ID + "}",
        "{" + OWN_ID + ', "$defs": {"Datum": 1}}',
        "{" + OWN_ID + ', "$defs": {"Datum": {"properties": 1}}}',
        "{" + OWN_ID + ', "$defs": {"Datum": {"items": {"minimum": "1"}}}}',
        "{" + OWN_ID + ', "$defs": {"Datum": {"type": [[]]}}}',
        "{" + OWN_ID + ', "$defs": {"Datum": ' + '{"items": ' * 300 + "{}" + "}" * 300 + "}}",
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("arguments", [["tensor"], ["--check"]])
@pytest.mark.usefixtures("generated_once")
def test_a_bundle_of_others_is_left_alone(content: str, arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "bundle.json"
    path.write_text(content)
    done = call("schema", *arguments, "--output", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path}: is no bundle of these schemas; ")
    assert path.read_text() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that opens and cannot be read")
@pytest.mark.parametrize("name", ["bundle.json", "datum.json", "arrow/datum.arrows"])
def test_files_that_cannot_be_read_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/proc/self/mem")
    done = call("schema", "--check", "--output", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {folder}/{name}: input/output error\n"


@pytest.mark.usefixtures("generated_once")
def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"file/datum\.json: "):
        files.write({"datum.json": b"{}"}, str(tmp_path / "file"))
    (tmp_path / "bundle.json").write_text("{")
    done = call("schema", "--check", "--output", tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path}/bundle.json: " in done.stderr
