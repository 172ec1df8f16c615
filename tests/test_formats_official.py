"""Reports in the hands of those they are for: the official schemas, validators and toolkits.

npm installs what machine_formats/package.json names, and pip fetches the source of pytest, which carries the
schema of Jenkins. A test whose tool is absent skips; tests/requirements-formats.txt names those of Python.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from _machine import everything, hostile

from provenance._text import escape
from provenance.report import Report, Severity, Violation
from provenance.reports.github import report_to_annotations
from provenance.reports.json import report_to_json, violation_to_line
from provenance.reports.junit import report_to_junit
from provenance.reports.sarif import report_to_sarif
from provenance.reports.text import violation_to_text
from provenance.rules import registry

HERE = Path(__file__).parent / "machine_formats"
SCHEMAS = Path(__file__).parent.parent / "schemas"

pytestmark = pytest.mark.slow


def run(command: list[str], folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=["clean", "broken", "hostile"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    if request.param == "hostile":
        return hostile()
    return everything(tmp_path_factory.mktemp("data"), broken=request.param == "broken")


# --- JSON -----------------------------------------------------------------------------------------------


def test_json_is_valid_under_the_published_schemas(report: Report) -> None:
    validators = {
        name: jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_bytes()))
        for name in ("report", "violation")
    }
    validators["report"].validate(json.loads(report_to_json(report)))
    for violation in report:
        validators["violation"].validate(json.loads(violation_to_line(violation)))


# --- JUnit ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def junit_schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Jenkins's schema, by which pytest tests its own reports; it is in the source of pytest alone."""
    etree = pytest.importorskip("lxml.etree", reason="see tests/requirements-formats.txt")
    folder = tmp_path_factory.mktemp("pytest")
    version = importlib.metadata.version("pytest")
    options = ["--quiet", "--no-deps", "--no-binary", "pytest", "--dest", str(folder)]
    done = run([sys.executable, "-m", "pip", "download", *options, f"pytest=={version}"], folder)
    if done.returncode:
        pytest.skip(f"pip does not get the source of pytest: {done.stderr.strip()[-200:]}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        (name,) = [name for name in members.getnames() if name.endswith("junit-10.xsd")]
        schema = members.extractfile(name)
        assert schema is not None
        return etree.XMLSchema(etree.parse(schema))


@pytest.mark.parametrize("fail_on", ["error", "warning"])
def test_junit_is_valid_under_the_schema_of_jenkins(fail_on: str, report: Report, junit_schema: Any) -> None:
    from lxml import etree

    document = etree.fromstring(report_to_junit(report, fail_on=Severity(fail_on)).encode())
    junit_schema.assertValid(document)


def test_the_schema_of_jenkins_finds_mistakes(report: Report, junit_schema: Any) -> None:
    from lxml import etree

    wrong = report_to_junit(report).replace(" errors=", " mistakes=", 2)
    assert not junit_schema.validate(etree.fromstring(wrong.encode()))


def test_junitparser_reads_the_same_back(report: Report) -> None:
    parser = pytest.importorskip("junitparser", reason="see tests/requirements-formats.txt")
    suites = parser.JUnitXml.fromstring(report_to_junit(report).encode())
    stated = (suites.tests, suites.failures, suites.errors)
    suites.update_statistics()
    assert (suites.tests, suites.failures, suites.errors) == stated
    failed = {case.name[:6] for suite in suites for case in suite if case.is_failure}
    assert failed == report.codes(Severity.ERROR)
    assert len(list(suites)) == 1 + len(report.files)


# --- npm ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what package.json names."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("node")
    for file in HERE.iterdir():
        shutil.copy(file, folder)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    done = run([npm, "install", *quiet], folder)
    if done.returncode:
        pytest.skip(f"npm does not install the tools: {done.stderr.strip()[-200:]}")
    return folder


def test_annotations_are_those_of_the_toolkit(report: Report, node_project: Path) -> None:
    written, given = [], []
    for some in batched(list(report)):
        *lines, _ = report_to_annotations(replace(report, violations=some)).split("\n")
        written += [line for line in lines if not line.startswith("::notice")]
        given += [as_toolkit_takes_it(v) for v in first_of_each_rule(some)]
    done = run(["node", "annotate.js"], node_project, json.dumps(given))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{line}\n" for line in written)


def batched(violations: list[Violation]) -> list[tuple[Violation, ...]]:
    """As many at a time as are annotated."""
    return [tuple(violations[start : start + 10]) for start in range(0, len(violations), 10)]


def first_of_each_rule(violations: tuple[Violation, ...]) -> list[Violation]:
    """Errors before warnings, of each the first of each rule, then the second of each, and so on."""
    of_rule = Counter[str]()
    ranked = []
    for violation in violations:
        ranked.append((violation.severity == "warning", of_rule[violation.code], len(ranked), violation))
        of_rule[violation.code] += 1
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])]


def as_toolkit_takes_it(violation: Violation) -> tuple[str, str, dict[str, Any]]:
    at = violation.location
    file = None if at.file is None else escape(at.file)  # as all that is shown
    properties = {"title": f"{violation.code} {violation.name}", "file": file, "startLine": at.line}
    there = {name: value for name, value in properties.items() if value is not None}
    summary = registry()[violation.code].summary
    words = f"{violation_to_text(violation)}\n{summary} What to do: provenance explain {violation.code}"
    return violation.severity.value, words, there


def test_sarif_is_valid_under_its_schema(report: Report, node_project: Path) -> None:
    (file,) = node_project.glob("node_modules/@microsoft/*/sarif-2.1.0.json")
    schema = json.loads(file.read_text(encoding="utf-8-sig"))
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    sarif = json.loads(report_to_sarif(report))
    validator.validate(sarif)
    sarif["runs"][0]["results"].append({"message": "no object"})
    assert not validator.is_valid(sarif)


#: Asks for a page of the project in the web, of which there is none; not said of what it cannot read.
ALWAYS = "SARIF2005"
#: Asks for a line of each place, which rows of Parquet have none of.
ACCEPTED = {ALWAYS, "SARIF2017"}


def validated(sarif: str, folder: Path) -> set[str]:
    """Codes of what the validator says; its exit code is 0 whatever that is."""
    (folder / "report.sarif").write_text(sarif)
    command = ["npx", "--no-install", "sarif-multitool", "validate", "report.sarif"]
    done = run([*command, "--output", "verdict.sarif", "--log", "ForceOverwrite"], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (verdict,) = json.loads((folder / "verdict.sarif").read_text(encoding="utf-8-sig"))["runs"]
    return {result["ruleId"] for result in verdict.get("results", [])}


def test_sarif_passes_the_official_validator(report: Report, node_project: Path) -> None:
    found = validated(report_to_sarif(report, root=str(node_project)), node_project)
    assert {ALWAYS} <= found <= ACCEPTED


def test_the_official_validator_finds_mistakes(node_project: Path) -> None:
    sarif = report_to_sarif(hostile())
    assert "SARIF1002" in validated(sarif.replace('"uri": "a%20b', '"uri": "a b'), node_project)
