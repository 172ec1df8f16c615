"""The rule that CONTRIBUTING.md adds works as written there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _paths import check_case

from provenance.rules import _rule, registry

CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"
# What stands at the top of every family's file.
IMPORTS = """
from provenance.columns import Mask
from provenance.rules._batch import Batch
from provenance.rules._examples import case
from provenance.rules._rule import rule
"""


@pytest.fixture
def documented_rule(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(_rule, "_registry", dict(_rule._registry))
    blocks = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    exec(compile(IMPORTS + blocks[0], str(CONTRIBUTING), "exec"), {})
    return "VAL900"


def test_its_examples_hold(documented_rule: str) -> None:
    rule = registry()[documented_rule]
    assert all(documented_rule not in check_case(case).counts for case in rule.good)
    assert all(documented_rule in check_case(case).counts for case in rule.bad)


def test_its_violations_are_located_and_worded(documented_rule: str) -> None:
    report = check_case(registry()[documented_rule].bad[0])
    (violation,) = [v for v in report.violations if v.code == documented_rule]
    assert str(violation) == (
        "row 0: logprobs[3]: VAL900 improbable-token: -81.0 is below -80 (sampled span 1 of sequence 's:1')"
    )


def test_it_is_gone_when_the_declaration_is() -> None:
    assert "VAL900" not in registry()
