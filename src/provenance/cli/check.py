"""``provenance check``: files against a contract."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import click

from provenance.cli._common import codes_of, loss_config_of, paint_for, say, width_of
from provenance.cli._formats import DOCUMENTS, add_job_summary, refuse_without_libraries
from provenance.cli._options import MAX_LINE, Integer, changed_contract_of, checked_by, complete_files

if TYPE_CHECKING:
    from provenance.contract import Contract
    from provenance.report import Report, Violation

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
    from provenance.reports.text import count, verdict

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
        report: Report | None = None
        with ProgressBar() if watched and not quiet else nullcontext() as bar:
            if format_ == "jsonl":
                errors, warnings = _stream(engine.iter_violations(on_progress=bar, **arguments), stream)
            else:
                arguments["observe"] = format_ == "html"
                report = engine.check(on_progress=bar, max_examples=max_examples, **arguments)
                errors, warnings = report.errors, report.warnings
        if report is not None:
            _write(report, format_, stream, statistics=statistics, fail_on=fail_on)
    if report is not None and format_ == "github":
        add_job_summary(report)
    if format_ == "jsonl" and not quiet:
        _say_unchecked(contract, ledger=bool(ledger), session=session is not None)
    if output not in (None, "-") and not quiet:
        say("note", verdict(report) if report is not None else _outcome(errors, warnings))
    if report is not None and not quiet:
        for target, datums in ((write_good, report.good_datums), (write_bad, report.bad_datums)):
            if target is not None:
                say("note", f"{count(datums, 'datum')} written to {target}")
    failed = bool(errors or (warnings and fail_on == "warning"))
    if failed and not errors and not quiet:
        say("note", f"{count(warnings, 'warning')} and --fail-on warning make the exit code 1")
    return int(failed)


def _write(report: Report, format_: str, stream: TextIO, *, statistics: bool, fail_on: str) -> None:
    from provenance.report import Severity
    from provenance.reports import statistics as tables
    from provenance.reports.json import dumps
    from provenance.reports.text import report_to_text

    width, paint = width_of(stream), paint_for(stream)
    if statistics and format_ == "json":
        text = dumps(tables.statistics(report), indent=2)
    elif statistics:
        text = tables.statistics_to_text(report, width=width, paint=paint)
    elif format_ in DOCUMENTS:
        text = DOCUMENTS[format_](report, Severity(fail_on))
    else:
        hints = _hints(report, click.get_current_context().params)
        text = report_to_text(report, width=width, paint=paint, hints=hints)
    stream.write(text + "\n")


def _hints(report: Report, given: Mapping[str, Any]) -> Iterator[str]:
    """What to do next: look at the first violation that is in a datum of a file, keep the good datums."""
    from provenance.report import Severity
    from provenance.reports.text import count, inspect_words

    for violation in sorted(report, key=lambda found: (found.severity != Severity.ERROR, found.code)):
        if words := inspect_words(violation):
            yield f"the first of these: {shlex.join([*words, *_circumstances(given)])}"
            break
    if report.bad_datums and report.good_datums and given["write_good"] is None:
        yield f"the {count(report.good_datums, 'good datum')} alone: --write-good PATH"


def _circumstances(given: Mapping[str, Any]) -> Iterator[str]:
    """The options that make another command see what this check sees."""
    for name in ("loss", "config", "ledger", "session", "now"):
        for value in given[name] if isinstance(given[name], tuple) else (given[name],):
            if value is not None:
                yield from (f"--{name}", value.isoformat() if isinstance(value, datetime) else value)


def _stream(violations: Iterable[Violation], stream: TextIO) -> tuple[int, int]:
    """Write each violation when it is found; the numbers of errors and warnings."""
    from provenance.report import Severity
    from provenance.reports.json import violation_to_line

    found = {Severity.ERROR: 0, Severity.WARNING: 0, Severity.OFF: 0}
    for violation in violations:
        found[violation.severity] += 1
        stream.write(violation_to_line(violation) + "\n")
        stream.flush()
    return found[Severity.ERROR], found[Severity.WARNING]


def _say_unchecked(contract: Contract, **given: bool) -> None:
    """A stream of violations has no place for what was not checked."""
    from provenance.reports.text import count
    from provenance.rules import CIRCUMSTANCES, registry

    for need in (need for need, there in given.items() if not there):
        codes = [code for code in contract.severities if need in registry()[code].needs]
        if codes:
            say("note", f"{count(len(codes), 'rule')} not checked: {CIRCUMSTANCES[need]}")


def _outcome(errors: int, warnings: int) -> str:
    from provenance.reports.text import count

    return f"{'invalid' if errors else 'valid'}: {count(errors, 'error')}, {count(warnings, 'warning')}"
