"""docs/mutations.md is what the declarations say. `python tests/test_mutations_docs.py` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from provenance import mutations
from provenance.rules import registry as rules

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "mutations.md"
HEAD = """# Mutations

Written by `python tests/test_mutations_docs.py` from the declarations in `provenance.mutations`; do not edit.
[fuzzing.md](fuzzing.md) says how to use them.
"""


def page() -> str:
    found = mutations.registry().values()
    families = dict.fromkeys(sorted(each.family for each in found))
    lines = [
        HEAD,
        "## What they do",
        "",
        "*Reported* are rules that always report the fault where the contract has them, *perhaps* those that",
        "may report it besides, depending on the place. Nothing else is reported.",
        "",
    ]
    for family in families:
        lines += [f"### {family}", "", "| name | what happened | reported | perhaps |", "|---|---|---|---|"]
        for each in found:
            if each.family == family:
                fires = " ".join(each.fires) or "nothing: valid"
                lines.append(f"| `{each.name}` | {each.summary} | {fires} | {' '.join(each.may)} |")
        lines.append("")
    lines += [
        "## Which break a rule",
        "",
        "*Alone* are those that break this rule and no other: `provenance.strategies.broken` draws them.",
        "",
        "| rule | | alone | with others | perhaps |",
        "|---|---|---|---|---|",
    ]
    for code, rule in sorted(rules().items()):
        alone = [f"`{each.name}`" for each in found if each.pure and code in each.fires]
        others = [f"`{each.name}`" for each in found if not each.pure and code in each.fires]
        perhaps = [f"`{each.name}`" for each in found if code in each.may]
        cells = (code, rule.name, *map(", ".join, (alone, others, perhaps)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "mend it with: python tests/test_mutations_docs.py"


def test_every_rule_has_a_row_and_a_mutation_that_breaks_it_alone() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Which break a rule")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    alone = {cells[0]: re.findall(r"`([a-z0-9-]+)`", cells[2]) for cells in rows}
    assert alone.keys() == rules().keys()
    for code, names in alone.items():
        assert names, f"nothing breaks {code} alone"
        assert all(mutations.registry()[name].fires == (code,) for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
