"""Fragments of HTML for notebooks: no script and no style sheet, only what an inline style can do.

Colours are translucent, so that they suit light pages and dark ones, and never tell what no word tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as escape_html
from typing import Final

from provenance._text import clip, escape

PROMPT: Final = "background:rgba(66,133,244,.22)"
SAMPLED: Final = "background:rgba(233,30,99,.22)"
FAINT: Final = "opacity:.65"
BAD: Final = "border-left:.3em solid #d93025;padding-left:.5em"
GOOD: Final = "border-left:.3em solid #188038;padding-left:.5em"

_LONGEST: Final = 200
_CELL: Final = "border:1px solid rgba(128,128,128,.35);padding:.15em .5em;text-align:left;vertical-align:top"


def text_of(value: object, longest: int = _LONGEST) -> str:
    """Text from data, as HTML: cut, and what is unprintable made visible."""
    return escape_html(escape(clip(str(value), longest)))


def element(name: str, content: str, style: str = "") -> str:
    """An element of what is HTML already."""
    return f'<{name} style="{style}">{content}</{name}>' if style else f"<{name}>{content}</{name}>"


def cell(content: str, style: str = "", *, columns: int = 1, head: str = "") -> str:
    """A cell of a table; ``head`` is ``row`` or ``col`` for one that names its row or column."""
    name = "th" if head else "td"
    scope = f' scope="{head}"' if head else ""
    span = f' colspan="{columns}"' if columns > 1 else ""
    return f'<{name}{scope}{span} style="{_CELL}{style and ";" + style}">{content}</{name}>'


def table(rows: Iterable[Iterable[str]]) -> str:
    """A table of rows of cells, which scrolls where the page is narrower."""
    body = "".join(element("tr", "".join(cells)) for cells in rows)
    inner = element("table", body, "border-collapse:collapse;font-size:90%;margin:.4em 0")
    return element("div", inner, "overflow-x:auto")
