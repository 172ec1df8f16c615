"""What the commands share: notes on stderr, colour, width, and types of options."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from provenance import _rfc3339

if TYPE_CHECKING:
    from provenance.reports.text import Paint, Role

__all__ = ["codes_of", "loss_config_of", "moment_of", "paint_for", "say", "width_of"]

_COLOURS: Final[dict[Role, str | None]] = {
    "error": "red",
    "warning": "yellow",
    "good": "green",
    "title": None,
    "hint": "cyan",
    "prompt": "blue",
    "sampled": "magenta",
}
_BOLD: Final = ("error", "warning", "good", "title")


def say(kind: str, message: str) -> None:
    """One line on stderr, with what is unprintable escaped, and without passwords."""
    from provenance._text import clip, escape, without_passwords

    lines = [line.strip() for line in without_passwords(message).splitlines()]
    click.echo(f"{kind}: {escape(clip('; '.join(line for line in lines if line)))}", err=True)


def paint_for(stream: TextIO) -> Paint:
    """Colours for a terminal that wants them, none for anything else (https://no-color.org)."""
    from provenance.reports.text import plain

    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return plain
    return lambda text, role: click.style(text, fg=_COLOURS[role], bold=role in _BOLD)


def width_of(stream: TextIO) -> int | None:
    """Columns of a terminal; None for what is none, whose lines are left whole for other programs."""
    import shutil

    return shutil.get_terminal_size().columns if stream.isatty() else None


def codes_of(values: Sequence[str], option: str) -> list[str]:
    """Codes of an option that takes several, separated by commas, and may be repeated."""
    codes = [code.strip().upper() for value in values for code in value.split(",") if code.strip()]
    if values and not codes:
        # Of an empty variable in a script: it would mean all rules.
        raise click.BadParameter(f"{values[0]!r} names no rule", param_hint=f"'{option}'")
    return codes


def loss_config_of(values: Sequence[str]) -> dict[str, Any] | None:
    """The loss's configuration from ``KEY=JSON`` texts; what the values mean is judged by the rules."""
    config: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is not KEY=JSON", param_hint="'--loss-config'")
        if key in config:
            raise click.BadParameter(f"{key!r} is given twice", param_hint="'--loss-config'")
        try:
            config[key] = json.loads(value)
        except (ValueError, RecursionError) as error:
            shown = value if len(value) <= 40 else value[:40] + "..."
            reason = f"{shown!r} is not JSON ({error}); text needs its quotes: '{key}=\"...\"'"
            raise click.BadParameter(reason, param_hint="'--loss-config'") from None
    return config or None


def moment_of(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Callback of an option: a point in time as RFC 3339, with its offset from UTC."""
    if value is None:
        return None
    try:
        moment = _rfc3339.parse(value)
    except ValueError:
        moment = None
    if moment is None:
        text = f"{value!r} is not an RFC 3339 time such as 2026-01-02T12:00:00Z"
        raise click.BadParameter(text, ctx=ctx, param=param)
    if moment.utcoffset() is None:
        text = f"{value!r} has no offset from UTC: append Z or +hh:mm"
        raise click.BadParameter(text, ctx=ctx, param=param)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        text = f"{value!r} lies outside of the years 1 to 9999 in UTC"
        raise click.BadParameter(text, ctx=ctx, param=param) from None
