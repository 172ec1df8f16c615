"""mkdocs hook: the site for language models, as llmstxt.org has it, made of the navigation.

``llms.txt`` lists the pages, each of which is there as markdown too (``PAGE.html.md``); ``llms-full.txt``
holds them all.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

LIST, WHOLE = "llms.txt", "llms-full.txt"
SUMMARY = (
    "A Python package and a command line: rules for the training data of language models that are trained by "
    "reinforcement, a ledger of what was sampled, a check that says where a fault is, and a loss that takes "
    "validated batches only."
)
API = re.compile(r"^::: (?P<name>[\w.]+)$(?:\n    .*$)*", re.MULTILINE)
#: A link to another page of the site.
LINK = re.compile(r"(?<=\]\()(?P<path>[\w./-]+)\.md(?=[)#])")

_markdown: dict[str, str] = {}
_top: list[Any] = []


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Name the files, so that pages may link to them; what is in them is known after the last page."""
    for name in (LIST, WHOLE):
        files.append(File.generated(config, name, content=""))


def on_nav(nav: Navigation, config: MkDocsConfig, files: object) -> None:
    """Keep the navigation for later."""
    _top[:] = nav.items


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: object) -> None:
    """Keep the markdown of a page, with the documentation of names in place of their directives."""
    text = API.sub(lambda found: "\n".join(_documented(found["name"])), page.markdown or "")
    _markdown[page.file.src_uri] = LINK.sub(r"\g<path>.html.md", text).strip() + "\n"


def on_post_build(config: MkDocsConfig) -> None:
    """Write the files."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {SUMMARY}"]
    for heading, pages in _sections():
        lines += ["", f"## {heading}", ""]
        for page in pages:
            text = _markdown[page.file.src_uri]
            (site / f"{page.url}.md").write_text(text, encoding="utf-8")
            lines.append(f"- [{page.title}]({config.site_url or ''}{page.url}.md){_said(text)}")
    (site / LIST).write_text("\n".join(lines) + "\n", encoding="utf-8")
    whole = [_markdown[page.file.src_uri] for _, pages in _sections() for page in pages]
    (site / WHOLE).write_text("\n\n".join(whole), encoding="utf-8")


def _sections() -> Iterator[tuple[str, list[Page]]]:
    """The parts of the navigation, each with all its pages; those that stand alone come first."""
    yield "Start", [item for item in _top if isinstance(item, Page)]
    for item in _top:
        if isinstance(item, Section):
            yield item.title, list(_pages(item))


def _pages(section: Section) -> Iterator[Page]:
    for item in section.children:
        if isinstance(item, Page):
            yield item
        elif isinstance(item, Section):
            yield from _pages(item)


def _said(text: str) -> str:
    """The first sentence of a page, if it begins with one."""
    first = text.split("\n\n")[1].replace("\n", " ") if "\n\n" in text else ""
    if not first or first[0] in "#|<-!:" or first.startswith("```"):
        return ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first).replace("**", "")
    return ": " + re.split(r"(?<=\.) ", plain)[0].rstrip(":")


def _documented(name: str) -> Iterator[str]:
    """A name with its signature and docstring, and what it has with docstrings."""
    thing = _thing(name)
    if inspect.ismodule(thing):
        yield from (f"## {name}", "", inspect.getdoc(thing) or "", "")
        for public in getattr(thing, "__all__", ()):
            if callable(getattr(thing, public)):
                yield from _documented(f"{name}.{public}")
        return
    yield from (f"## {name}{_signature(thing)}", "", inspect.getdoc(thing) or "", "")
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            documented = callable(value) or isinstance(value, property | classmethod)
            doc = inspect.getdoc(value) if documented else None
            if doc and not member.startswith("_"):
                yield from (f"### {name}.{member}{_signature(getattr(thing, member))}", "", doc, "")


def _thing(name: str) -> Any:
    parent, _, last = name.rpartition(".")
    try:
        return getattr(import_module(parent), last)
    except (AttributeError, ModuleNotFoundError):
        return import_module(name)


def _signature(thing: Any) -> str:
    """What it is called with; of a class without types, which are objects there whose repr says little."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    typed = not inspect.isclass(thing)
    parameters = [
        each.replace(
            annotation=each.annotation if typed else each.empty,
            default=... if inspect.isfunction(each.default) else each.default,
        )
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation if typed else signature.empty
    return str(signature.replace(parameters=parameters, return_annotation=returned)).replace(
        "Ellipsis", "..."
    )
