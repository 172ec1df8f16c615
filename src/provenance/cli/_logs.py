"""The package's log on stderr, for ``provenance --log-level``."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from provenance._log import LOGGER

__all__ = ["start"]

#: What every record has; the rest are the fields of an event.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message"}


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the time: a bar that is shown there puts lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # a reader of the log that has gone ends no check
            sys.stderr.write(self.format(record) + "\n")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_time_of(record)} {record.levelname.lower()}: {record.getMessage()}"


class _Lines(logging.Formatter):
    """An object a line: time, level and message, then the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _OWN}
        return json.dumps(told, default=str)


def start(level: str, format_: str) -> Callable[[], None]:
    """Write what the package logs, from a level on, to stderr; the function that is returned ends it."""
    handler, before = _Stderr(), LOGGER.level
    handler.setFormatter(_Lines() if format_ == "json" else _Text())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())

    def end() -> None:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)

    return end


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
