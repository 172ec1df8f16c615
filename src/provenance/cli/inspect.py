"""``provenance inspect``: one datum, its tokens in columns and its faults marked below them."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from datetime import datetime

import click

from provenance.cli._common import paint_for, width_of
from provenance.cli._options import (
    LEDGER,
    LOSS,
    MAX_LINE,
    MAX_TOKENS,
    NOW,
    SESSION,
    VOCAB_SIZE,
    Integer,
    changed_contract_of,
    complete_files,
    configured,
)
from provenance.errors import ReadError

__all__ = ["inspect"]

#: For a pipe or a file, which has no width of its own.
_WIDTH = 80


def _slice_of(ctx: click.Context, param: click.Parameter, value: str | None) -> slice | None:
    if value is None:
        return None
    parts = re.fullmatch(r"(-?\d{1,18})?:(-?\d{1,18})?", value)
    if parts is None:
        text = f"{value!r} is not A:B, positions as Python slices them, such as 100:140, :20 or -20:"
        raise click.BadParameter(text, ctx=ctx, param=param)
    start, stop = (None if part is None else int(part) for part in parts.groups())
    return slice(start, stop)


@click.command()
@click.argument("data", shell_complete=complete_files)
@click.option("--row", type=Integer(min=0), metavar="N", help="The datum in this row, from 0.")
@click.option("--line", type=Integer(min=1), metavar="N", help="The datum in this line, from 1.")
@click.option("--positions", callback=_slice_of, metavar="A:B", help="Show these positions of it.")
@click.option("--all", "whole", is_flag=True, help="Show every position, however many.")
@LEDGER
@LOSS
@SESSION
@NOW
@configured
@VOCAB_SIZE
@MAX_TOKENS
@MAX_LINE
@click.option("--no-progress", "-q", "quiet", is_flag=True, help="No progress bar and no notes.")
def inspect(
    *,
    data: str,
    row: int | None,
    line: int | None,
    positions: slice | None,
    whole: bool,
    ledger: tuple[str, ...],
    loss: str | None,
    session: str | None,
    now: datetime | None,
    config: str | None,
    vocab_size: int | None,
    max_tokens: int | None,
    max_line: int,
    quiet: bool,
) -> None:
    """Show one datum of DATA, a file of datums, and what is wrong with it.

    By default the first with an error, else the first. A column is a position
    of the sequence: target i stands below input i + 1, and in sound data
    equals it. Long datums are shown at their faults and edges of spans.
    """
    for one, other, message in (
        (row is not None, line is not None, "--row and --line each name the datum: give one"),
        (positions is not None, whole, "--positions and --all each say what to show: give one"),
    ):
        if one and other:
            raise click.UsageError(message)

    from provenance.cli._progress import ProgressBar
    from provenance.cli._requests import Stated, stated_by
    from provenance.engine.sources import paths_of
    from provenance.reports.find import find_datum
    from provenance.reports.strip import datum_to_text, line_to_text
    from provenance.reports.text import report_to_text

    paths = paths_of(data) or []
    if len(paths) > 1:
        raise ReadError(data, f"{len(paths)} files match this pattern, give one of them")
    loss, session, _ = stated_by([data], Stated(loss, session, None), max_line=max_line)
    parameters = {"vocab_size": vocab_size, "max_tokens": max_tokens}
    contract = changed_contract_of(loss, config, (), (), parameters)
    with ProgressBar() if sys.stderr.isatty() and not quiet else nullcontext() as bar:
        found = find_datum(
            data,
            contract,
            row=row,
            line=line,
            ledger=list(ledger) or None,
            session=session,
            now=now,
            max_line=max_line,
            on_progress=bar,
        )
    width, paint = width_of(sys.stdout) or _WIDTH, paint_for(sys.stdout)
    strip = datum_to_text(
        found.columns, found.report.violations, width=width, paint=paint, positions=positions, whole=whole
    )
    if row is None and line is None:
        bad = found.report.bad_datums
        chosen = "the first datum with an error:" if bad else "no datum has an error; the first:"
        sys.stdout.write(paint(chosen, "hint") + "\n")
    if found.line is not None:
        strip += "\n\n" + line_to_text(found.line, width=width)
    report = report_to_text(found.report, width=width, paint=paint)
    sys.stdout.write(f"{strip}\n\n{report}\n")
