"""``provenance explain``: the pages of rules."""

from __future__ import annotations

import sys

import click

from provenance.cli._common import paint_for, width_of
from provenance.cli._options import complete_rules

__all__ = ["explain"]


@click.command()
@click.argument("codes", nargs=-1, required=True, metavar="CODE...", shell_complete=complete_rules)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(*, codes: tuple[str, ...], format_: str) -> None:
    """Explain rules, named by code or name.

    A page says what the rule states and why, and shows examples with what the rule says about them.
    """
    from provenance import explain as pages
    from provenance.reports.json import dumps

    found = list(dict.fromkeys(pages.find_rule(code) for code in codes))
    if format_ == "json":
        documents = [pages.rule_to_dict(rule) for rule in found]
        text = dumps(documents if len(documents) > 1 else documents[0], indent=2)
    else:
        width, paint = width_of(sys.stdout), paint_for(sys.stdout)
        text = "\n\n\n".join(pages.explain(rule, width=width, paint=paint) for rule in found)
    sys.stdout.write(text + "\n")
