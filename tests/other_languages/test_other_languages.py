"""The committed schemas in the hands of other languages: their validators, their generators, their compilers.

What the tools are and how to get them: tests/requirements-languages.txt. A test whose tool is absent skips.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import provenance
from provenance.reports.json import report_to_json

HERE = Path(__file__).parent
SCHEMAS = HERE.parent.parent / "schemas"
NOW = "2026-01-02T12:00:00Z"
#: As `docs/other-languages.md` shows it.
GENERATE_TYPES = (
    "json2ts",
    "-i",
    str(SCHEMAS / "bundle.json"),
    "-o",
    "schemas.ts",
    "--unreachableDefinitions",
)
COMPILE = (
    "tsc",
    "--strict",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--types",
    "node",
    "--outDir",
    "out",
)
GENERATE_MODELS = (
    "datamodel-codegen",
    *("--output-model-type", "pydantic_v2.BaseModel", "--target-python-version", "3.11"),
    *("--strict-types", "str", "int", "float", "bool", "--formatters", "builtin"),
)

pytestmark = pytest.mark.slow


def vectors() -> list[dict[str, Any]]:
    """The conformance vectors that have datums."""
    files = sorted(SCHEMAS.glob("conformance/*.json"))
    found = [vector for file in files for vector in json.loads(file.read_bytes())]
    return [vector for vector in found if vector["schema_valid"] is not None]


VECTORS = vectors()
EXPECTED = {vector["name"]: vector["schema_valid"] for vector in VECTORS}


def tool(name: str) -> str:
    """Path of a command, which may stand beside this interpreter; skips where there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed, see tests/requirements-languages.txt")
    return found


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # npm and what it installs look for node on the path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


def output_of(command: list[str], folder: Path) -> str:
    done = run(command, folder)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout


def agrees(is_valid: Callable[[str, Any], bool]) -> None:
    """Hold a validator, a function of a type's name and a value, to the vectors."""
    for vector in VECTORS:
        data = vector["data"]
        valid = all(is_valid("datum", datum) for datum in data["datums"])
        valid = valid and all(is_valid("sequence", sequence) for sequence in data["sequences"])
        assert valid == vector["schema_valid"], vector["name"]


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_bytes())


def test_the_vectors_hold_both_verdicts() -> None:
    assert set(EXPECTED.values()) == {True, False}
    assert len(EXPECTED) > 200


# Validators


def test_jsonschema() -> None:
    validators = {name: jsonschema.Draft202012Validator(schema(name)) for name in ("datum", "sequence")}
    agrees(lambda name, value: validators[name].is_valid(value))


def test_jsonschema_rs() -> None:
    rust = pytest.importorskip("jsonschema_rs", reason="see tests/requirements-languages.txt")
    validators = {name: rust.Draft202012Validator(schema(name)) for name in ("datum", "sequence")}
    agrees(lambda name, value: validators[name].is_valid(value))


@pytest.fixture(scope="module")
def node_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs and, by npm, what package.json names."""
    npm = tool("npm")
    tool("node")
    folder = tmp_path_factory.mktemp("node")
    for file in (HERE / "package.json", *HERE.glob("*.ts"), *HERE.glob("*.js")):
        shutil.copy(file, folder)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    output_of([npm, "install", *quiet], folder)
    return folder


def test_ajv_in_its_strictest_mode(node_project: Path) -> None:
    verdicts = json.loads(output_of([tool("node"), "conformance.js", str(SCHEMAS)], node_project))
    assert verdicts == EXPECTED


# TypeScript


@pytest.fixture(scope="module")
def typescript(node_project: Path) -> Path:
    """The project with the generated types."""
    command, *arguments = GENERATE_TYPES
    output_of([str(node_project / "node_modules" / ".bin" / command), *arguments], node_project)
    return node_project


def compiled(folder: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    command, *arguments = COMPILE
    return run([str(folder / "node_modules" / ".bin" / command), *arguments, *programs], folder)


def test_typescript_builds_a_datum_and_reads_a_report(typescript: Path) -> None:
    done = compiled(typescript, "build_datum.ts", "read_report.ts")
    assert done.returncode == 0, done.stdout
    built = json.loads(output_of([tool("node"), "out/build_datum.js"], typescript))
    circumstances = {"ledger": [built["sequence"]], "session": "session-1", "now": NOW}
    assert provenance.check([built["datum"]], "stable_reinforce", **circumstances).valid

    built["datum"]["loss_fn_inputs"]["logprobs"]["data"][2] = 0.25
    report = provenance.check([built["datum"]], "stable_reinforce", **circumstances)
    (typescript / "report.json").write_text(report_to_json(report))
    (typescript / "datum.json").write_text(json.dumps(built["datum"]))
    seen = output_of([tool("node"), "out/read_report.js", "report.json", "datum.json"], typescript)
    assert seen.splitlines() == [
        "invalid",
        "error VAL002 at logprobs[2]",
        "prompt of answer up to 3",
        "sampled by answer up to 3",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        pytest.param("read_report.ts", 'case "sampled":', 'case "chosen":', "chosen", id="no such kind"),
        pytest.param("read_report.ts", '"sampled":\n', '"prompt":\n', "never", id="a kind is missing"),
        pytest.param("build_datum.ts", "loss_fn_inputs: {", "loss_inputs: {", "loss_inputs", id="field"),
        pytest.param("build_datum.ts", '"int64"', '"int32"', "int32", id="dtype"),
        pytest.param("build_datum.ts", "record_stability_info: true", "seed: 1", "record", id="missing"),
    ],
)
def test_the_typescript_types_find_mistakes(
    typescript: Path, file: str, old: str, new: str, complaint: str
) -> None:
    text = (HERE / file).read_text()
    assert old in text
    (typescript / f"wrong_{file}").write_text(text.replace(old, new))
    done = compiled(typescript, f"wrong_{file}")
    assert done.returncode != 0
    assert complaint in done.stdout


# Python


def generated_models(file: str, kind: str, folder: Path) -> ModuleType:
    command, *arguments = GENERATE_MODELS
    source = ("--input", str(SCHEMAS / file), "--input-file-type", kind)
    output_of([tool(command), *source, *arguments, "--output", "generated_models.py"], folder)
    spec = importlib.util.spec_from_file_location("generated_models", folder / "generated_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generated_models"] = module  # pydantic looks names of types up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("file", "kind"), [("bundle.json", "jsonschema"), ("openapi.json", "openapi")])
def test_generated_python_models(file: str, kind: str, tmp_path: Path) -> None:
    module = generated_models(file, kind, tmp_path)
    models = {"datum": module.Datum, "sequence": module.SampledSequence}

    def is_valid(name: str, value: Any) -> bool:
        try:
            model = models[name].model_validate_json(json.dumps(value))
        except ValueError:
            return False
        assert model.model_dump(mode="json", exclude_unset=True) == value
        return True

    agrees(is_valid)


# Go


def test_go_reads_and_writes_every_vector(tmp_path: Path) -> None:
    go = tool("go")
    for file in (HERE / "go.mod", *HERE.glob("*.go")):
        shutil.copy(file, tmp_path)
    taken = [vector["data"] for vector in VECTORS if vector["schema_valid"]]
    datums, sequences = (sum(len(data[name]) for data in taken) for name in ("datums", "sequences"))
    assert output_of([go, "run", ".", str(SCHEMAS)], tmp_path) == f"{datums} datums, {sequences} sequences\n"
