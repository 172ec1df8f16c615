"""The rules of the contract, one family a file."""

from provenance.rules import (
    advantages,
    config,
    identity,
    inputs,
    sequences,
    session,
    spans,
    tokens,
    values,
)
from provenance.rules import format as files
from provenance.rules._batch import Batch
from provenance.rules._examples import DROP, Case, case
from provenance.rules._parameters import Parameters
from provenance.rules._rule import CIRCUMSTANCES, RULESET, Level, Rule, Verdict, registry, rule

__all__ = [
    "CIRCUMSTANCES",
    "DROP",
    "RULESET",
    "Batch",
    "Case",
    "Level",
    "Parameters",
    "Rule",
    "Verdict",
    "advantages",
    "case",
    "config",
    "files",
    "identity",
    "inputs",
    "registry",
    "rule",
    "sequences",
    "session",
    "spans",
    "tokens",
    "values",
]
