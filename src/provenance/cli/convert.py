"""``provenance convert``: files in another format."""

from __future__ import annotations

import click

from provenance.cli._common import say
from provenance.cli._options import MAX_LINE, complete_files

__all__ = ["convert"]


@click.command()
@click.argument("source", metavar="IN", shell_complete=complete_files)
@click.argument("target", metavar="OUT", shell_complete=complete_files)
@MAX_LINE
@click.option("--no-progress", "-q", "quiet", is_flag=True, help="No note of what was done.")
def convert(*, source: str, target: str, max_line: int, quiet: bool) -> int:
    """Write the datums or sampled sequences of IN to OUT in another format.

    The names' endings tell the formats: .jsonl (also .gz, .zst), .parquet,
    .arrow, .arrows; - is JSONL on stdin or stdout; IN may be a training
    request of the SDK, .pb. Nothing is lost: what a format cannot hold is
    refused.
    """
    from provenance import formats
    from provenance.reports.text import count

    records = formats.convert(source, target, max_line=max_line)
    if target != "-" and not quiet:
        say("note", f"{count(records, 'record')} written to {target}")
    return 0
