"""The rules as data: what no schema can say, because it compares fields, datums and records."""

from __future__ import annotations

from typing import Any

from provenance.loss_spec import LOSSES
from provenance.rules import RULESET, Rule, registry

__all__ = ["rule_catalogue"]


def rule_catalogue() -> dict[str, Any]:
    """The rule set's version and every rule, by code: names, severities, messages, documentation."""
    return {"ruleset": RULESET, "rules": [_entry(rule) for _, rule in sorted(registry().items())]}


def _entry(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": {name: rule.severity_for(loss).value for name, loss in LOSSES.items()},
        "level": rule.at,
        "fields": list(rule.over),
        "given": list(rule.given),
        "gate": rule.gate,
        "needs": list(rule.needs),
        "needs_in_part": dict(rule.partly),
        "evidence": rule.evidence,
        "since": rule.since,
        "message": rule.message,
        "summary": rule.summary,
        "docs": rule.doc,
    }
