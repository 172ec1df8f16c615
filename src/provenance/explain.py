"""The page of a rule: what it states, why, and examples with what the rule says about them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, Final

from provenance import engine
from provenance.contract import Contract
from provenance.errors import ContractError
from provenance.loss_spec import LOSSES
from provenance.report import Severity, Violation
from provenance.reports.text import Paint, escape, plain, wrap
from provenance.rules import registry
from provenance.rules._examples import Case
from provenance.rules._rule import Rule

__all__ = ["explain", "find_rule", "findings", "rule_to_dict", "severities"]

_WIDEST: Final = 96
#: A bad example with more changes than this is shown whole.
_CHANGES: Final = 8


def find_rule(text: str) -> Rule:
    """The rule of this code or name, in any case.

    Raises:
        ContractError: there is none; the message names the nearest.
    """
    rules = {**registry(), **{rule.name.upper(): rule for rule in registry().values()}}
    if found := rules.get(text.upper().replace("_", "-")):
        return found
    near = get_close_matches(text.upper().replace("_", "-"), rules, n=1, cutoff=0.5)
    known = f"did you mean {rules[near[0]].code} {rules[near[0]].name}?" if near else "see provenance rules"
    raise ContractError(f"{text!r} is no rule; {known}")


def severities(rule: Rule) -> dict[str, Severity]:
    """Default severity of the rule under each loss."""
    return {name: rule.severity_for(loss) for name, loss in LOSSES.items()}


def findings(rule: Rule, case: Case) -> list[Violation]:
    """What the rule says about an example, checked as a file; locations carry no folder."""
    contract = Contract.for_loss(case.loss).with_parameters(**case.parameters)
    with tempfile.TemporaryDirectory() as folder:
        data, ledger = Path(folder, "datums.jsonl"), Path(folder, "sequences.jsonl")
        data.write_bytes(case.lines if case.lines is not None else _jsonl(case.datums))
        ledger.write_bytes(_jsonl(case.sequences))
        report = engine.check(
            str(data),
            contract,
            ledger=None if case.lines is not None else str(ledger),
            session=case.session,
            now=case.now,
            loss_config=dict(case.config),
        )
    files = {str(data): None, str(ledger): ledger.name}
    return [
        replace(found, location=replace(found.location, file=files.get(found.location.file or "")))
        for found in report
        if found.code == rule.code
    ]


def rule_to_dict(rule: Rule) -> dict[str, Any]:
    """The page as JSON-shaped data."""
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "severity": {loss: severity.value for loss, severity in severities(rule).items()},
        "level": rule.at,
        "fields": _fields(rule),
        "needs": list(rule.needs),
        "needs_in_part": dict(rule.partly),
        "given": list(rule.given),
        "gate": rule.gate,
        "evidence": rule.evidence,
        "since": rule.since,
        "doc": rule.doc,
        "good": [_example(rule, case) for case in rule.good],
        "bad": [_example(rule, case) for case in rule.bad],
    }


def explain(rule: Rule, *, width: int | None = None, paint: Paint = plain) -> str:
    """The page as text, without a last newline.

    Args:
        rule: the rule.
        width: columns of the terminal; None keeps the lines of the docstring and one line for a finding.
        paint: colours a piece of text.
    """
    return "\n".join(_page(rule, None if width is None else min(width, _WIDEST), paint))


def _page(rule: Rule, width: int | None, paint: Paint) -> Iterator[str]:
    yield paint(f"{rule.code} {rule.name}", "title")
    yield from wrap(rule.summary, width, hang=0)
    yield ""
    for label, value in _facts(rule):
        yield from wrap(f"{label:<10}{value}", width, hang=10)
    yield ""
    for paragraph in rule.doc.partition("\n")[2].strip("\n").split("\n\n"):
        yield from _paragraph(paragraph, width)
        yield ""
    yield paint("good example", "good")
    base = _data(rule, rule.good[0])
    yield from _shown(base, rule.good[0], width)
    for case in rule.bad:
        yield ""
        yield paint("bad example", "error")
        changes = _changes(base, _data(rule, case)) if case.lines is None else []
        if rule.good[0].lines is None and 0 < len(changes) <= _CHANGES:
            yield from (line for change in changes for line in wrap(change, width, indent=2))
        else:
            yield from _shown(_data(rule, case), case, width)
        for violation in findings(rule, case):
            yield from wrap(f"-> {escape(str(violation))}", width, indent=2, hang=5)


def _facts(rule: Rule) -> Iterator[tuple[str, str]]:
    losses_of: dict[str, list[str]] = {}
    for loss, severity in severities(rule).items():
        losses_of.setdefault(severity.value, []).append(loss)
    yield "severity", "; ".join(f"{severity} for {', '.join(names)}" for severity, names in losses_of.items())
    yield "level", rule.at + (" (a gate: what fails it is not looked at further)" if rule.gate else "")
    yield "fields", ", ".join(_fields(rule)) or "none"
    needs = [*rule.needs, *(f"{need} ({part})" for need, part in rule.partly.items())]
    yield "needs", ", ".join(needs) or "nothing but the data"
    yield "given", ", ".join(f"{code} {registry()[code].name}" for code in rule.given) or "no other rule"
    yield "evidence", rule.evidence


def _fields(rule: Rule) -> list[str]:
    words = {"*": "every loss input", "+": "every loss input that the loss requires"}
    return [words.get(field, field) for field in rule.over if field]


def _paragraph(paragraph: str, width: int | None) -> Iterator[str]:
    lines = paragraph.split("\n")
    laid_out = any(line.startswith((" ", "- ", "* ")) for line in lines)
    if width is None or laid_out:
        yield from lines
    else:
        yield from wrap(" ".join(lines), width, hang=0)


def _example(rule: Rule, case: Case) -> dict[str, Any]:
    lines = None if case.lines is None else case.lines.decode("utf-8", "backslashreplace")
    found = [violation.to_dict() for violation in findings(rule, case)]
    return {**asdict(case), "lines": lines, "violations": found}


def _data(rule: Rule, case: Case) -> dict[str, Any]:
    """What of a case concerns the rule: sequences and circumstances only where it looks at them."""
    data: dict[str, Any] = {"datums": list(case.datums)}
    needs = {*rule.needs, *rule.partly}
    if "ledger" in needs:
        data |= {"sequences": list(case.sequences), "now": case.now}
    if "session" in needs:
        data["session"] = case.session
    if case.loss != "stable_reinforce":
        data["loss"] = case.loss
    for name in ("config", "parameters"):
        if value := getattr(case, name):
            data[name] = dict(value)
    return data


def _shown(data: Mapping[str, Any], case: Case, width: int | None) -> Iterator[str]:
    if case.lines is not None:
        for line in case.lines.decode("utf-8", "backslashreplace").split("\n"):
            yield from wrap(escape(line), width, indent=2)
        return
    for name, value in data.items():
        for item in value if name in ("datums", "sequences") else [{name: value}]:
            lines = _pretty(item, min(width or _WIDEST, _WIDEST) - 2)
            yield from (wrapped for line in lines for wrapped in wrap(line, width, indent=2))


def _pretty(value: Any, limit: int, lead: str = "") -> list[str]:
    """JSON in few lines: what fits on one stays on one."""
    text = lead + json.dumps(value)
    if len(text) <= limit or not value or not isinstance(value, (Mapping, list)):
        return [text]
    if isinstance(value, Mapping):
        opening, closing = "{}"
        parts = [_pretty(item, limit - 1, f"{json.dumps(key)}: ") for key, item in value.items()]
    else:
        opening, closing = "[]"
        parts = [_pretty(item, limit - 1) for item in value]
    for part in parts[:-1]:
        part[-1] += ","
    parts[-1][-1] += closing
    lines = [f"{lead}{opening}{parts[0][0]}", *(f" {line}" for line in parts[0][1:])]
    for first, *rest in parts[1:]:
        if not rest and len(lines[-1]) + 1 + len(first) <= limit and first[0] not in "{[":
            lines[-1] += f" {first}"
        else:
            lines += [f" {line}" for line in (first, *rest)]
    return lines


def _jsonl(values: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _changes(base: Any, other: Any, path: str = "") -> list[str]:
    """``path = value`` for every difference between two JSON-shaped values."""
    if isinstance(base, Mapping) and isinstance(other, Mapping):
        changes = []
        for key in [*base, *(key for key in other if key not in base)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in other:
                changes.append(f"{where} is left out")
            elif key not in base:
                changes.append(f"{where} = {json.dumps(other[key])}")
            else:
                changes += _changes(base[key], other[key], where)
        return changes
    if isinstance(base, list) and isinstance(other, list) and len(base) == len(other):
        pairs = zip(base, other, strict=True)
        changes = list(chain(*(_changes(old, new, f"{path}[{i}]") for i, (old, new) in enumerate(pairs))))
        if len(changes) <= 2 or isinstance(other[0], Mapping):
            return changes
    return [] if json.dumps(base) == json.dumps(other) else [f"{path} = {json.dumps(other)}"]
