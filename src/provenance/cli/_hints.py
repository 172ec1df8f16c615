"""What to do after a check: commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import click

from provenance._text import count, without_passwords
from provenance.cli._options import ISOLATED
from provenance.engine.split import Split
from provenance.errors import ProvenanceError
from provenance.formats import MAX_LINE
from provenance.report import Report, Severity
from provenance.reports.text import inspect_words
from provenance.rules import registry

__all__ = ["hints_of"]

#: Options of `check` that `inspect` has too.
_SHARED: Final = ("loss", "config", "ledger", "session", "now", "vocab_size", "max_tokens")


def hints_of(report: Report, context: click.Context) -> Iterator[str]:
    """Look at the first violation that can be shown; keep the good datums."""
    if command := _inspect(report):
        yield f"the first of these: {shlex.join([*command, *_circumstances(context)])}"
    wanted = report.bad_datums and report.good_datums and context.params["write_good"] is None
    if wanted and _can_be_sorted(context.params["data"]):
        yield f"the {count(report.good_datums, 'good datum')} alone: --write-good PATH"


def _inspect(report: Report) -> list[str] | None:
    """The command for the first violation, errors first, that a look at its file alone finds again."""
    for violation in sorted(report, key=lambda found: (found.severity != Severity.ERROR, found.code)):
        command = inspect_words(violation)
        if command and (len(report.files) == 1 or not registry()[violation.code].remembers):
            return command
    return None


def _circumstances(context: click.Context) -> Iterator[str]:
    """The options that make `inspect` see what this check sees, less passwords."""
    if context.meta[ISOLATED]:
        yield "--isolated"
    if context.params["max_line"] > MAX_LINE:
        yield from ("--max-line", str(context.params["max_line"]))
    for name in _SHARED:
        given = context.params[name]
        for value in given if isinstance(given, tuple) else (given,):
            if value is not None:
                text = value.isoformat() if isinstance(value, datetime) else str(value)
                yield from ("--" + name.replace("_", "-"), without_passwords(text))


def _can_be_sorted(data: tuple[str, ...]) -> bool:
    """Whether --write-good takes these files: not those that can be read once only, nor a mixture."""
    try:
        Split(list(data), None, None, None)
    except ProvenanceError:
        return False
    return True
