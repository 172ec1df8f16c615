"""HTML pages taken apart: what a page says, and whether it is well-formed, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})


@dataclass(slots=True)
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Element]:
        """This element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join("".join(parts).split())

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    def all(self, name: str = "", *, of: str = "") -> list[Element]:
        """Elements of a name and a class."""
        return [e for e in self if name in ("", e.name) and (not of or of in e.classes)]

    def one(self, name: str = "", *, of: str = "", anchor: str = "") -> Element:
        found = [e for e in self.all(name, of=of) if anchor in ("", e.attributes.get("id"))]
        assert len(found) == 1, f"{len(found)} of {name} .{of} #{anchor}"
        return found[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} names an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> where {self.open[-1].name} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Element:
    """The page; every tag of it is closed by its own end tag."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1, f"never closed: {[e.name for e in reader.open[1:]]}"
    return reader.open[0]


def grid(table: Element) -> tuple[list[str], dict[str, list[Element]]]:
    """The texts of the head, and by header of row the cell in each column; merged ones stand in each."""
    head, *rows = table.all("tr")
    heads = [cell.text for cell in head.children if isinstance(cell, Element)][1:]
    found: dict[str, list[Element]] = {}
    for row in rows:
        header, *cells = [cell for cell in row.children if isinstance(cell, Element)]
        assert (header.name, header.attributes["scope"]) == ("th", "row")
        spread = [cell for cell in cells for _ in range(int(cell.attributes.get("colspan", "1")))]
        assert len(spread) == len(heads), f"row {header.text} has {len(spread)} of {len(heads)} columns"
        found.setdefault(header.text, spread)
    return heads, found
