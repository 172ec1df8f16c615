"""Words for people: what comes from data escaped, long texts cut, numbers beside their nouns."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 600
"""Characters of a text that a person may read."""
_LONGEST_ID: Final = 200
#: In the address of a database: up to the last @ of a word, as a raw one may be of the password too.
_PASSWORD: Final = re.compile(r"(://[^:/@\s]*:)[^@]*@(?:\S*@)?|([?&]\w*password=)[^&\s'\"]*", re.IGNORECASE)


def escape(text: str) -> str:
    r"""Text with what is unprintable (controls, bidirectional marks, lone surrogates) as \x1b or \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def clip(text: str, longest: int = LONGEST) -> str:
    """Text cut to a length that a person may read, with its full length."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def quoted(name: str | None) -> str:
    """The repr of an id, cut to what leaves room for the rest of a message."""
    return clip(repr(name), _LONGEST_ID)


def count(number: int, noun: str) -> str:
    """``1 datum``, ``20,000 datums``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def without_passwords(text: str) -> str:
    """Text in which the passwords of databases' addresses are ``***``."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", text)
