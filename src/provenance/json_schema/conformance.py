"""Conformance vectors: datasets with their verdict, for validators that others write in other languages.

They are the examples of the rules, and schemas/README.md describes their form.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from provenance import engine
from provenance.contract import Contract
from provenance.errors import MissingDependencyError
from provenance.json_schema.documents import schema
from provenance.report import Report, Violation
from provenance.reports.json import dumps
from provenance.rules import Case, registry

__all__ = ["vectors"]

_PLACE: Final = ("code", "severity", "row", "field", "index", "length", "sequence_id")


def vectors() -> dict[str, list[dict[str, Any]]]:
    """The vectors of every rule, by code; at least one that the rule lets pass and one that it finds.

    Raises:
        MissingDependencyError: jsonschema is not installed.
    """
    validators = {name: _validator(name) for name in ("datum", "sequence")}
    return {
        code: [
            _vector(f"{code}-{kind}-{number}", case, validators)
            for kind, cases in (("good", rule.good), ("bad", rule.bad))
            for number, case in enumerate(cases, 1)
        ]
        for code, rule in sorted(registry().items())
    }


def _validator(name: str) -> Any:
    try:
        import jsonschema
    except ImportError:
        raise MissingDependencyError("jsonschema", "testing") from None
    return jsonschema.Draft202012Validator(schema(name))


def _vector(name: str, case: Case, validators: Mapping[str, Any]) -> dict[str, Any]:
    report = _report(case)
    data = _as_json(case)
    return {
        "name": name,
        "data": data,
        "valid": report.valid,
        "codes": sorted(report.counts),
        "violations": [_place(violation) for violation in report.violations],
        "schema_valid": None
        if case.lines is not None
        else all(map(validators["datum"].is_valid, data["datums"]))
        and all(map(validators["sequence"].is_valid, data["sequences"])),
    }


def _place(violation: Violation) -> dict[str, Any]:
    """What is found where; messages are each implementation's own."""
    found = violation.to_dict()
    return {name: found[name] for name in _PLACE}


def _as_json(case: Case) -> dict[str, Any]:
    """The dataset and the circumstances; NaN and infinity as text, because JSON has neither."""
    if case.lines is not None:
        dataset: dict[str, Any] = {"file_base64": base64.b64encode(case.lines).decode()}
    else:
        dataset = {"datums": case.datums}
    dataset |= {
        "sequences": case.sequences,
        "session": case.session,
        "now": case.now,
        "loss_fn": case.loss,
        "loss_config": dict(case.config),
        "parameters": dict(case.parameters),
    }
    written: dict[str, Any] = json.loads(dumps(dataset))
    return written


def _report(case: Case) -> Report:
    contract = Contract.for_loss(case.loss).with_parameters(**case.parameters)
    with tempfile.TemporaryDirectory() as folder:
        data: Any = list(case.datums)
        if case.lines is not None:
            data = Path(folder, "datums.jsonl")
            data.write_bytes(case.lines)
        return engine.check(
            data,
            contract,
            ledger=list(case.sequences),
            session=case.session,
            now=case.now,
            loss_config=dict(case.config),
        )
