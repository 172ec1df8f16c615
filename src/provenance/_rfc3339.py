"""Times as text: the one reading of RFC 3339 for models, options and arguments."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_FORM: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)


def parse(text: str) -> datetime | None:
    """The time, naive where the text has no offset from UTC; None where it has another form.

    Raises:
        ValueError: there is no such time, as on February 30.
    """
    return datetime.fromisoformat(text.upper()) if _FORM.fullmatch(text) else None
