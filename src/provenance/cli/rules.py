"""``provenance rules``: the rules of all losses, or of one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from provenance.cli._common import paint_for, width_of
from provenance.cli._options import complete_losses

if TYPE_CHECKING:
    from provenance.report import Severity
    from provenance.reports.text import Paint, Role
    from provenance.rules import Rule

__all__ = ["rules"]

#: Below this many columns the summary goes below its rule.
_TABLE: int = 110


@click.command()
@click.option(
    "--loss",
    metavar="LOSS",
    shell_complete=complete_losses,
    help="Only the rules of this loss, with its severities.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rules(*, loss: str | None, format_: str) -> None:
    """List the rules: code, name, severity, what they need, and what they state.

    Without --loss the severity is that for stable_reinforce.
    """
    from provenance.contract import Contract
    from provenance.reports.json import dumps
    from provenance.rules import registry

    declared = sorted(registry().items())
    if loss is None:
        listed = [(rule, rule.severity) for _, rule in declared]
    else:
        severities = Contract.for_loss(loss).severities
        listed = [(rule, severities[code]) for code, rule in declared if code in severities]
    if format_ == "json":
        sys.stdout.write(dumps([_to_dict(rule, severity) for rule, severity in listed], indent=2) + "\n")
    else:
        lines = _table(listed, width_of(sys.stdout), paint_for(sys.stdout))
        sys.stdout.writelines(line + "\n" for line in lines)


def _to_dict(rule: Rule, severity: Severity) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": severity.value,
        "needs": list(rule.needs),
        "needs_in_part": list(rule.partly),
        "summary": rule.summary,
    }


def _table(listed: list[tuple[Rule, Severity]], width: int | None, paint: Paint) -> Iterator[str]:
    from provenance.reports.text import wrap

    names = max(len(rule.name) for rule, _ in listed)
    all_needs = [", ".join([*rule.needs, *(f"({need})" for need in rule.partly)]) for rule, _ in listed]
    longest = max(len(needs) for needs in all_needs)
    stacked = width is not None and width < _TABLE
    for (rule, severity), needs in zip(listed, all_needs, strict=True):
        role: Role = "error" if severity == "error" else "warning"
        if stacked:
            head = f"{rule.code} {rule.name} {severity.value} {needs}".rstrip()
            lines = wrap(head, width) + wrap(rule.summary, width, indent=4, hang=0)
        else:
            head = f"{rule.code}  {rule.name:<{names}}  {severity.value:<7}  {needs:<{longest}}  "
            lines = wrap(head + rule.summary, width, hang=len(head))
        yield lines[0].replace(rule.code, paint(rule.code, role), 1)
        yield from lines[1:]
