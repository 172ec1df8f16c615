"""Reports as JUnit XML, which CI servers show as tests: a suite for each file, a case for each rule in it.

A rule that could not be judged, or had nothing of a file to judge, is skipped: it did not pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from provenance._text import escape
from provenance.report import Count, Report, Severity, Violation
from provenance.reports._machine import counted, explained, reasons
from provenance.reports.text import violation_to_text
from provenance.rules import registry

__all__ = ["report_to_junit"]

#: The suite of what is in no datum of a file: records, options, datums in memory, the dataset as a whole.
_WHOLE: Final = "dataset"
_WHOLE_LEVELS: Final = ("record", "dataset", "config")


class _Suite(NamedTuple):
    name: str
    codes: Iterable[str]
    counts: Mapping[str, Count]
    judged: Iterable[str]
    examples: Mapping[str, list[Violation]]
    properties: Mapping[str, Any]


class _Terms(NamedTuple):
    severities: Mapping[str, Severity]
    fail_on: Severity
    whole: Mapping[str, str]
    """Why a rule was not checked at all."""
    partly: Mapping[str, str]


def report_to_junit(report: Report, *, fail_on: Severity = Severity.ERROR) -> str:
    """The report as an XML document in ASCII, without a last newline.

    Args:
        report: what a check found; without ``files`` there is one suite, of the whole dataset.
        fail_on: the least severity that makes a case fail. Where that is an error, warnings are the output of
            a case that passes.
    """
    terms = _Terms(report.severities, fail_on, *reasons(report))
    totals = dict.fromkeys(("tests", "failures", "errors"), 0)
    suites = []  # as text: elements would take ten times the room
    for suite in chain([_of_dataset(report)], _of_files(report)):
        element = _element(suite, terms)
        for total in totals:
            totals[total] += int(element.get(total, "0"))
        indent(element, level=1)
        # Characters beyond ASCII are references, so that whatever carries the text cannot garble it.
        text: bytes = tostring(element, "us-ascii")
        suites.append(f"  {text.decode('ascii')}\n")
    summed = "".join(f' {total}="{number}"' for total, number in totals.items())
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="provenance"{summed}>\n'
    return "".join([head, *suites, "</testsuites>"])


def _of_files(report: Report) -> Iterator[_Suite]:
    codes = [code for code in sorted(report.severities) if registry()[code].at not in _WHOLE_LEVELS]
    examples = _examples(report)
    for file, found in report.files.items():
        properties = {"datums": found.datums, "bad_datums": found.bad_datums}
        yield _Suite(file, codes, found.counts, found.judged, examples.get(file, {}), properties)


def _of_dataset(report: Report) -> _Suite:
    rest = {code: Count(**found.to_dict()) for code, found in report.counts.items()}
    for in_file in report.files.values():
        for code, found in in_file.counts.items():
            rest[code].add(Count(-found.datums, -found.violations, -found.elements))
    counts = {code: found for code, found in rest.items() if found.violations}
    codes = {code for code in report.severities if not report.files or registry()[code].at in _WHOLE_LEVELS}
    # What a rule that is off kept from the others.
    codes |= {entry.code for entry in report.not_checked if entry.code not in report.severities}
    judged = [code for code, elements in report.checked.items() if elements]
    kept = ("datums", "positions", "bad_datums", "session", "now", "version", "ruleset")
    properties = {name: value for name in kept if (value := getattr(report, name)) is not None}
    properties["loss"] = report.contract["loss"]
    examples = _examples(report).get(None, {})
    return _Suite(_WHOLE, sorted(codes | set(counts)), counts, judged, examples, properties)


def _examples(report: Report) -> dict[str | None, dict[str, list[Violation]]]:
    """The violations of a report by file of datums, None for what is in none, and by code."""
    grouped: dict[str | None, dict[str, list[Violation]]] = {}
    for violation in report:
        file = violation.location.file
        if file is None or file not in report.files or violation.code not in report.files[file].counts:
            file = None
        grouped.setdefault(file, {}).setdefault(violation.code, []).append(violation)
    return grouped


def _element(suite: _Suite, terms: _Terms) -> Element:
    element = Element("testsuite", name=escape(suite.name))
    properties = SubElement(element, "properties")
    for name, value in suite.properties.items():
        SubElement(properties, "property", name=name, value=escape(str(value)))
    for code in suite.codes:
        element.append(_case(suite, code, terms))
    _sum_up(element)
    return element


def _case(suite: _Suite, code: str, terms: _Terms) -> Element:
    case = Element("testcase", name=f"{code} {registry()[code].name}", classname=escape(suite.name))
    output = [f"checked in part: {terms.partly[code]}"] if code in terms.partly else []
    if code in suite.counts:
        found, severity = suite.counts[code], terms.severities[code]
        summary = f"{counted(code, found)}: {registry()[code].summary}"
        lines = _lines(code, found, suite.examples.get(code, []))
        if severity == Severity.ERROR or terms.fail_on == Severity.WARNING:
            failure = SubElement(case, "failure", type=severity.value, message=summary)
            failure.text = "\n".join(lines)
        else:
            output += [f"{severity.value}: {summary}", *lines]
    elif code in terms.whole:
        SubElement(case, "skipped", message=terms.whole[code])
    elif code not in suite.judged:
        SubElement(case, "skipped", message="there is nothing here that it judges")
    if output:
        SubElement(case, "system-out").text = "\n".join(output)
    return case


def _lines(code: str, found: Count, examples: Iterable[Violation]) -> list[str]:
    lines = [violation_to_text(violation) for violation in examples]
    more = found.violations - len(lines)
    lines += [f"... and {more:,} more, of which the report holds no example"] if more else []
    return [*lines, explained(code), f"More: provenance explain {code}"]


def _sum_up(suite: Element) -> None:
    for name, what in (("tests", "testcase"), ("failures", ".//failure"), ("skipped", ".//skipped")):
        suite.set(name, str(len(suite.findall(what))))
    suite.set("errors", "0")
