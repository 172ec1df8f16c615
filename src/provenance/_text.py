"""Words for people: what comes from data escaped, long texts cut, numbers beside their nouns."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 600
"""Characters of a text that a person may read."""


def escape(text: str) -> str:
    r"""Text with what is unprintable (controls, bidirectional marks, lone surrogates) as \x1b or \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def clip(text: str, longest: int = LONGEST) -> str:
    """Text cut to a length that a person may read, with its full length."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def count(number: int, noun: str) -> str:
    """``1 datum``, ``20,000 datums``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
