"""``provenance check``: files against a contract."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from provenance.cli._common import codes_of, loss_config_of, paint_for, say, width_of
from provenance.cli._formats import DOCUMENTS, add_job_summary, refuse_without_libraries
from provenance.cli._options import MAX_LINE, Integer, changed_contract_of, checked_by, complete_files

if TYPE_CHECKING:
    from provenance.report import Report, Severity, Violation

__all__ = ["check"]


@click.command()
@click.argument("data", nargs=-1, required=True, shell_complete=complete_files)
@checked_by
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "jsonl", *DOCUMENTS]),
    default="text",
    show_default=True,
    help="jsonl writes every violation as it is found; the others the first few of each rule. "
    "github annotates files, and adds to the summary of the step.",
)
@click.option("--statistics", is_flag=True, help="Count the violations of each rule instead of showing them.")
@click.option(
    "--output",
    metavar="PATH",
    shell_complete=complete_files,
    help="Write the report to a file, when it is complete.",
)
@click.option(
    "--write-good",
    metavar="PATH",
    shell_complete=complete_files,
    help="Copy the datums without errors to a file, as they are; a warning is no error, whatever --fail-on.",
)
@click.option(
    "--write-bad",
    metavar="PATH",
    shell_complete=complete_files,
    help="Copy the others, each with its errors in a field 'provenance'.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option(
    "--max-examples",
    type=Integer(min=0),
    metavar="N",
    default=20,
    show_default=True,
    help="Violations of each rule to show; all are counted.",
)
@MAX_LINE
@click.option("--allow-empty", is_flag=True, help="Accept a dataset without datums.")
@click.option("--no-progress", "-q", "quiet", is_flag=True, help="No progress bar and no notes.")
def check(
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
    format_: str,
    statistics: bool,
    output: str | None,
    write_good: str | None,
    write_bad: str | None,
    fail_on: str,
    max_examples: int,
    max_line: int,
    allow_empty: bool,
    quiet: bool,
) -> int:
    """Check DATA, files of datums, against the contract of a loss.

    DATA are paths, patterns like 'rollouts/*.parquet', or - for JSONL on stdin.
    """
    from provenance.cli._output import open_output, refuse_same_file

    if statistics and format_ not in ("text", "json"):
        raise click.UsageError(f"--statistics is for --format text and json, not {format_}")
    if format_ == "html" and output in (None, "-") and sys.stdout.isatty():
        raise click.UsageError("--format html is for a browser: give --output report.html")
    refuse_without_libraries(format_)
    refuse_same_file(output, write_good, write_bad, config, *data, *ledger)
    parameters = {"vocab_size": vocab_size, "max_tokens": max_tokens}
    loss_configuration = loss_config_of(loss_config)

    from provenance import engine
    from provenance.cli._progress import ProgressBar
    from provenance.cli._requests import Stated, stated_by
    from provenance.report import Severity

    given = Stated(loss, session, loss_configuration or None)
    loss, session, stated_config = stated_by(data, given, max_line=max_line)
    contract = changed_contract_of(
        loss, config, codes_of(select, "--select"), codes_of(ignore, "--ignore"), parameters
    )
    arguments: dict[str, Any] = {
        "data": list(data),
        "contract": contract,
        "ledger": list(ledger) or None,
        "session": session,
        "now": now,
        "loss_config": stated_config,
        "allow_empty": allow_empty,
        "max_line": max_line,
        "write_good": write_good,
        "write_bad": write_bad,
    }
    with open_output(output) as stream:
        # Violations that stream to the same terminal would tear the bar.
        watched = sys.stderr.isatty() and not (format_ == "jsonl" and stream.isatty())
        with ProgressBar() if watched and not quiet else nullcontext() as bar:
            if format_ == "jsonl":
                report = _stream(engine.iter_violations(on_progress=bar, **arguments), stream)
            else:
                arguments["observe"] = format_ == "html"
                report = engine.check(on_progress=bar, max_examples=max_examples, **arguments)
        if format_ != "jsonl":
            _write(report, format_, stream, statistics=statistics, fail_on=Severity(fail_on))
    if format_ == "github":
        add_job_summary(report, Severity(fail_on))
    for note in () if quiet else _notes(report, click.get_current_context().params):
        say("note", note)
    return int(bool(report.errors or (report.warnings and fail_on == "warning")))


def _write(report: Report, format_: str, stream: TextIO, *, statistics: bool, fail_on: Severity) -> None:
    from provenance.cli._hints import hints_of
    from provenance.reports import statistics as tables
    from provenance.reports.json import dumps
    from provenance.reports.text import report_to_text

    width, paint = width_of(stream), paint_for(stream)
    if statistics and format_ == "json":
        text = dumps(tables.statistics(report), indent=2)
    elif statistics:
        text = tables.statistics_to_text(report, width=width, paint=paint)
    elif format_ in DOCUMENTS:
        text = DOCUMENTS[format_](report, fail_on)
    else:
        hints = hints_of(report, click.get_current_context())
        text = report_to_text(report, width=width, paint=paint, hints=hints)
    stream.write(text + "\n")


def _notes(report: Report, given: Mapping[str, Any]) -> Iterator[str]:
    """What is said beside the report; ``given``: the options."""
    from provenance.report import reasons_of
    from provenance.reports.text import count, verdict

    if given["format_"] == "jsonl":  # a stream of violations has no place for it
        for reason, codes in reasons_of(report.not_checked).items():
            yield f"not checked: {reason}: {', '.join(codes)}"
    if given["output"] not in (None, "-"):
        yield verdict(report)
    for target, datums in (("write_good", report.good_datums), ("write_bad", report.bad_datums)):
        if given[target] is not None:
            yield f"{count(datums, 'datum')} written to {given[target]}"
    if report.warnings and not report.errors and given["fail_on"] == "warning":
        yield f"{count(report.warnings, 'warning')} and --fail-on warning make the exit code 1"


def _stream(violations: Generator[Violation, None, Report], stream: TextIO) -> Report:
    """Write each violation when it is found."""
    from provenance.reports.json import violation_to_line

    while True:
        try:
            violation = next(violations)
        except StopIteration as end:
            report: Report = end.value
            return report
        stream.write(violation_to_line(violation) + "\n")
        stream.flush()
