"""mkdocs hook: a page for each rule, made of the rule, and a link to it wherever its code stands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from provenance.explain import explain, severities
from provenance.report import Severity
from provenance.rules import Rule, registry

INDEX = "rules/index.md"
#: In the order in which a datum meets them.
FAMILIES = {
    "FMT": "Files",
    "INP": "Loss inputs",
    "TOK": "Tokens",
    "VAL": "Values",
    "SPN": "Spans",
    "SEQ": "Sequences",
    "SES": "Session and time",
    "ADV": "Advantages",
    "CFG": "Loss options",
}
EVIDENCE = {
    "documented": "Tinker's public documentation, or the docstrings and errors of its official SDK.",
    "observed": "what official code does in practice, or how public servers answer.",
    "ours": "nobody documents this; a datum that breaks it is a bug in every training run we know of.",
}
NEEDS = {
    "ledger": "a ledger (`--ledger`)",
    "session": "the training session (`--session`)",
}
LEVELS = {
    "datum": "each datum",
    "chunk": "each chunk of the input",
    "span": "each span",
    "position": "each position",
    "element": "each stored value",
    "sequence": "each datum with each sequence that it names",
    "record": "each record of the ledger",
    "dataset": "the dataset as a whole",
    "file": "each line or row of a file",
    "config": "the loss options",
}
EXAMPLES = (
    "Each example is a whole dataset, which the tests of the rule run. A bad one is shown as what differs "
    "from the good one, and after the arrow stands what the rule reports."
)
COLUMNS = (
    "The severity is that under `stable_reinforce`; the page of a rule has those of the other losses. A rule "
    "that lacks what it needs is *not checked*, and the report says so; *in part* means that the rest of it "
    "is checked."
)
#: What is left as it is (fences, code, links, headings, comments), or a code that becomes a link.
CODE = re.compile(
    r"(?P<kept>^(?P<fence>```+).*?^(?P=fence)$|^#.*?$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|<!--.*?-->)"
    rf"|(?<![\w/.-])(?P<code>(?:{'|'.join(FAMILIES)})\d{{3}})(?![\w-])",
    re.DOTALL | re.MULTILINE,
)


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of all rules below their index in the navigation."""
    families = [
        {f"{family} {title}": [{f"{rule.code} {rule.name}": place(rule)} for rule in rules_of(family)]}
        for family, title in FAMILIES.items()
    ]
    assert config.nav is not None
    config.nav = [_expanded(entry, families) for entry in config.nav]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages, and an index of them."""
    pages = {INDEX: "\n".join(_index()), **{place(rule): page(rule) for rule in registry().values()}}
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the codes of rules to their pages."""
    here = page.file.src_uri

    def linked(found: re.Match[str]) -> str:
        code = found["code"]
        if code not in registry() or here == f"rules/{code}.md":
            return found.group()
        return f"[{code}]({posixpath.relpath(f'rules/{code}.md', posixpath.dirname(here) or '.')})"

    return CODE.sub(linked, markdown)


def place(rule: Rule) -> str:
    """Where the page of a rule is in the sources of the site."""
    return f"rules/{rule.code}.md"


def rules_of(family: str) -> list[Rule]:
    """The rules of a family, in the order of their codes."""
    return sorted((rule for rule in registry().values() if rule.family == family), key=lambda rule: rule.code)


def page(rule: Rule) -> str:
    """The page of a rule: what `provenance explain` prints, as markdown."""
    return "\n".join(_page(rule)) + "\n"


def _page(rule: Rule) -> Iterator[str]:
    yield from (f"# {rule.code} {rule.name}", "", f"**{rule.summary}**", "")
    yield from rule.doc.split("\n\n", 1)[1].split("\n")
    yield ""
    yield from ("| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in _facts(rule)), "")
    yield from ("## Examples", "", EXAMPLES, "")
    _, *parts = re.split(r"\n\n(good|bad) example\n", explain(rule))
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        language = "json" if kind == "good" and rule.good[0].lines is None else "text"
        lines = [line.removeprefix("  ") for line in text.split("\n")]
        yield from (f'```{language} title="{kind}"', *lines, "```", "")
    yield from (f"`provenance explain {rule.code}` prints the same.", "")
    yield from ("## Under each loss", "", "| loss | severity |", "|---|---|")
    yield from (f"| `{loss}` | {severity.value} |" for loss, severity in severities(rule).items())
    yield from (
        "",
        "Another severity is a line in a [contract file](../configuration.md):",
        "",
        "```toml",
        "[severity]",
        f'{rule.code} = "off"  # or "warning", or "error"',
        "```",
    )


def _facts(rule: Rule) -> Iterator[tuple[str, str]]:
    words = {"*": "every loss input", "+": "every loss input that the loss requires"}
    fields = ", ".join(words.get(field, f"`{field}`") for field in rule.over if field)
    yield "looks at", LEVELS[rule.at] + (f": {fields}" if fields else "")
    needs = [needed(need) for need in rule.needs]
    needs += [f"{needed(need)}, for {part}" for need, part in rule.partly.items()]
    yield "needs", "; ".join(needs) or "nothing but the data"
    if rule.given:
        yield "judged where these hold", ", ".join(f"{code} {registry()[code].name}" for code in rule.given)
    if rule.gate:
        yield "gate", "a datum that breaks this rule is not looked at by the rules of its content"
    yield "evidence", f"[{rule.evidence}](../contract.md#three-kinds-of-evidence): {EVIDENCE[rule.evidence]}"
    yield "since rule set", str(rule.since)


def needed(need: str) -> str:
    """What a rule needs, in words."""
    return NEEDS.get(need, f"the parameter `{need}`")


def _index() -> Iterator[str]:
    yield from (
        "# Rules",
        "",
        f"The {len(registry())} rules of the contract, by family. {COLUMNS}",
        "",
    )
    for family, title in FAMILIES.items():
        yield from (f"## {family}: {title.lower()}", "")
        yield from ("| code | name | severity | needs | what it reports |", "|---|---|---|---|---|")
        for rule in rules_of(family):
            needs = ", ".join([*rule.needs, *(f"{need} (in part)" for need in rule.partly)])
            severity = "off" if rule.severity == Severity.OFF else rule.severity.value
            yield f"| {rule.code} | {rule.name} | {severity} | {needs} | {rule.summary} |"
        yield ""


def _expanded(entry: Any, families: list[dict[str, Any]]) -> Any:
    if isinstance(entry, dict):
        ((title, below),) = entry.items()
        if below == INDEX:
            return {title: [INDEX, *families]}
        if isinstance(below, list):
            return {title: [_expanded(each, families) for each in below]}
    return entry
