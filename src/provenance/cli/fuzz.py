"""``provenance fuzz``: which faults a check catches."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

import click
from click.shell_completion import CompletionItem

from provenance.cli._common import codes_of, loss_config_of, paint_for, say, width_of
from provenance.cli._options import MAX_LINE, Integer, Number, changed_contract_of, checked_by, complete_files

if TYPE_CHECKING:
    from provenance.fuzz import FuzzReport

__all__ = ["fuzz"]


def _complete_mutations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    from provenance.mutations import registry

    found = registry().values()
    return [
        CompletionItem(each.name, help=each.summary) for each in found if each.name.startswith(incomplete)
    ]


@click.command()
@click.argument("data", nargs=-1, required=True, shell_complete=complete_files)
@checked_by
@click.option(
    "--against",
    metavar="COMMAND",
    help="Try this command instead of the contract: {} stands for a file of the datums, {ledger} for one of "
    "the sequences; exit status 0 accepts them.",
)
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the command may take, each time.",
)
@click.option(
    "--mutation",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete_mutations,
    help="Only this mutation; repeatable.",
)
@click.option(
    "--datums",
    type=Integer(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="How many to take, from the first on.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Chooses the places.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="warning",
    show_default=True,
    help="The least severity at which the contract has caught a fault.",
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--output",
    metavar="PATH",
    shell_complete=complete_files,
    help="Write the report to a file, when it is complete.",
)
@MAX_LINE
@click.option("--no-progress", "-q", "quiet", is_flag=True, help="No progress bar and no notes.")
def fuzz(
    *,
    data: tuple[str, ...],
    ledger: tuple[str, ...],
    loss: str | None,
    session: str | None,
    now: datetime | None,
    config: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    vocab_size: int | None,
    max_tokens: int | None,
    loss_config: tuple[str, ...],
    against: str | None,
    timeout: float,
    names: tuple[str, ...],
    datums: int,
    seed: int,
    fail_on: str,
    format_: str,
    output: str | None,
    max_line: int,
    quiet: bool,
) -> int:
    """Break DATA, valid datums, in every way that there is, and see what a check of them catches.

    The check is that of the contract, as provenance check does it with the
    same options, or a COMMAND of yours. Each mutation is done to a copy of
    the first datums, at a place that the seed chooses; docs/mutations.md
    lists them. The exit code is 1 where a fault was let through, or valid
    data were refused.
    """
    parameters = {"vocab_size": vocab_size, "max_tokens": max_tokens}
    loss_configuration = loss_config_of(loss_config)
    if against is None and click.get_current_context().get_parameter_source("timeout") is not _DEFAULT:
        raise click.UsageError("--timeout is for a command: give one with --against")

    from provenance.cli._output import open_output, refuse_same_file
    from provenance.cli._progress import StepBar
    from provenance.cli._requests import Stated, stated_by
    from provenance.fuzz import fuzz as run

    refuse_same_file(output, config, *data, *ledger)
    given = Stated(loss, session, loss_configuration or None)
    loss, session, stated_config = stated_by(data, given, max_line=max_line)
    contract = changed_contract_of(
        loss, config, codes_of(select, "--select"), codes_of(ignore, "--ignore"), parameters
    )
    with open_output(output) as stream:
        with StepBar() if sys.stderr.isatty() and not quiet else nullcontext() as bar:
            report = run(
                list(data),
                contract,
                ledger=list(ledger) or None,
                session=session,
                now=now,
                loss_config=stated_config,
                against=against,
                only=names or None,
                datums=datums,
                seed=seed,
                fail_on="error" if fail_on == "error" else "warning",
                timeout=timeout,
                max_line=max_line,
                on_progress=bar,
            )
        _write(report, format_, stream)
    if output not in (None, "-") and not quiet:
        from provenance.fuzz import summary

        say("note", summary(report))
    return int(not report.ok)


#: An option that nobody gave.
_DEFAULT = click.core.ParameterSource.DEFAULT


def _write(report: FuzzReport, format_: str, stream: TextIO) -> None:
    from provenance.fuzz import report_to_text
    from provenance.reports.json import dumps

    if format_ == "json":
        text = dumps(report.to_dict(), indent=2)
    else:
        text = report_to_text(report, width=width_of(stream), paint=paint_for(stream))
    stream.write(text + "\n")
