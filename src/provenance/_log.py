"""What a long job tells those who listen to the logger ``provenance``; docs/logging.md lists all of it.

Nothing is told of what is in the data: places, numbers and names of losses only.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from provenance._text import escape

__all__ = ["LOGGER", "event"]

LOGGER: Final = logging.getLogger("provenance")
# Without a handler Python would write warnings to stderr.
LOGGER.addHandler(logging.NullHandler())


def event(level: int, action: str, *, since: float | None = None, **fields: object) -> None:
    """Tell what happened: ``action: name=value ...``; the record has action and fields as attributes too.

    A path with a line break in it makes no second line: text is escaped in both. What is None is left out.
    ``since`` is a time of ``time.monotonic``, from which ``seconds`` is told.
    """
    if not LOGGER.isEnabledFor(level):
        return
    if since is not None:
        fields["seconds"] = round(time.monotonic() - since, 3)
    told = {
        name: escape(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }
    shown = " ".join(f"{name}={value}" for name, value in told.items())
    LOGGER.log(level, "%s: %s", action, shown, extra={"action": action, **told}, stacklevel=2)
