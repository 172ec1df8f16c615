"""The contract a second time: slow, obvious, one datum at a time, and without a line of the package.

Written from the contract's text and ``provenance explain``, not from ``provenance.rules``, so that a mistake
is not made twice. ``judge`` takes what ``provenance.check`` takes, as plain JSON-shaped values, and returns
what it must find.
"""

from oracle.verdict import judge

__all__ = ["judge"]
