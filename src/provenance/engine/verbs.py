"""The three verbs of the package."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import merge
from logging import INFO
from typing import Any, Final

from provenance._log import LOGGER, event
from provenance.batch import ValidatedBatch
from provenance.contract import Contract
from provenance.engine.arguments import refuse_examples
from provenance.engine.locate import records_in_order, violations
from provenance.engine.observe import Observer
from provenance.engine.pack import pack
from provenance.engine.run import Progress, Run
from provenance.engine.sources import size_of
from provenance.engine.split import Split
from provenance.engine.step import Step
from provenance.errors import ContractError, ValidationError
from provenance.formats import MAX_LINE
from provenance.report import Report, Severity, Violation
from provenance.rules import Batch, registry

#: Violations of each rule that a report holds.
EXAMPLES: Final = 20


def check(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
    max_examples: int = EXAMPLES,
    allow_empty: bool = False,
    max_line: int = MAX_LINE,
    write_good: str | os.PathLike[str] | None = None,
    write_bad: str | os.PathLike[str] | None = None,
    observe: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Check a dataset and report what was found.

    Args:
        data: paths (patterns are expanded, "-" is stdin), datums (models or JSON-shaped mappings), Arrow
            record batches or tables.
        contract: a Contract, or the name of a loss.
        ledger: what was sampled: a Ledger, the path or address of a database, paths of sequence files, or
            sequences. Without one, rules that need it are not checked, and the report says so.
        session: the training session; without it SES001 is not checked.
        now: the time at which sequences must not have expired, aware or RFC 3339; default is the clock's.
        loss_config: options of the loss.
        max_examples: violations of each rule that the report holds; counts are exact whatever it is.
        allow_empty: an empty dataset is fine.
        max_line: longest line of a JSONL file, in bytes.
        write_good: file that gets the datums without an error, byte for byte; a warning is no error. ``data``
            must be files, all lines of JSON or all Arrow, and this one is of the same family.
        write_bad: file that gets the datums with an error, each with a field (in Arrow files a column)
            ``provenance``: ``codes`` of the errors, ``file``, ``row``, ``line``, the first ``violations``.
            Readers pass over that field, so that a repaired file can be checked as it is. Both files appear
            when both are complete, also where they are empty.
        observe: keep distributions and the first bad datums of each rule, whole, as ``report.observations``:
            a bounded number, which does not change what is found. Every loss input is read then.
        on_progress: called after each batch.

    Raises:
        ReadError: a file cannot be read, or cannot be sorted.
        WriteError: ``write_good`` or ``write_bad`` cannot be written.
        ContractError: the contract, the time or ``max_examples`` cannot be used.
        SchemaError: ``data`` or ``ledger`` is nothing that can be checked.
    """
    refuse_examples(max_examples)
    run = Run(
        contract,
        ledger=ledger,
        session=session,
        now=now,
        loss_config=loss_config,
        allow_empty=allow_empty,
        max_line=max_line,
        on_progress=on_progress,
        read_all=observe,
    )
    observer = Observer(run.contract) if observe else None
    for step in _steps(run, data, ledger=ledger, good=write_good, bad=write_bad, max_line=max_line):
        run.tally.keep(step, max_examples)
        if observer is not None:
            observer.add(step)
        del step  # its batch, before the next one is read
    report = run.report()
    return report if observer is None else replace(report, observations=observer.observations())


def iter_violations(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
    allow_empty: bool = False,
    max_line: int = MAX_LINE,
    write_good: str | os.PathLike[str] | None = None,
    write_bad: str | os.PathLike[str] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Generator[Violation, None, Report]:
    """Every violation of a dataset, found as it is read; arguments and errors as for ``check``.

    ``write_good`` and ``write_bad`` appear when the last violation was taken.

    Returns:
        An iterator, whose value at its end (that of ``yield from``) is the report, without examples.
    """
    run = Run(
        contract,
        ledger=ledger,
        session=session,
        now=now,
        loss_config=loss_config,
        allow_empty=allow_empty,
        max_line=max_line,
        on_progress=on_progress,
    )
    steps = _steps(run, data, ledger=ledger, good=write_good, bad=write_bad, max_line=max_line)
    for step in steps:
        yield from _by_row(step, run.tally.severity)
        del step  # its batch, before the next one is read
    return run.report()


def _by_row(step: Step, severity: Callable[[str], Severity]) -> Iterator[Violation]:
    """The violations of a step, each made when it is taken: one datum may have a million."""
    faults = replace(step, findings=[])
    streams: list[Iterable[Violation]] = []
    for code in step.codes():
        streams.append(faults.violations(code, severity(code), None))
        for finding in step.findings:
            if finding.rule.code == code:
                ordered = records_in_order(finding)[1] if finding.rule.at == "record" else finding
                streams.append(violations(ordered, severity(code)))
    return merge(*streams, key=_row)


def _row(violation: Violation) -> int:
    """The number of the datum in its file; what is in none comes before."""
    row = violation.location.row
    return -1 if row is None or registry()[violation.code].at == "record" else row


def _steps(
    run: Run,
    data: Any,
    *,
    ledger: Any,
    good: str | os.PathLike[str] | None,
    bad: str | os.PathLike[str] | None,
    max_line: int,
) -> Iterator[Step]:
    """The steps of a run, after which the files that it has read are sorted where that is asked for."""
    started = time.monotonic()
    event(INFO, "check started", loss=run.contract.loss.name, rules=len(run.contract.severities))
    if good is None and bad is None:
        yield from run.steps(data)
    else:
        split = Split(data, good, bad, ledger)
        for step in run.steps(split.paths):
            split.add(step, run.tally.severity)
            yield step
            del step  # its batch, before the next one is read
        split.write(max_line)
    _tell_end(run, data, started)


def _tell_end(run: Run, data: Any, started: float) -> None:
    if not LOGGER.isEnabledFor(INFO):
        return
    found = {Severity.ERROR: 0, Severity.WARNING: 0}
    for code, count in run.part.counts.items():
        found[run.contract.severities[code]] += count.violations
    event(
        INFO,
        "check finished",
        valid=not found[Severity.ERROR],
        datums=run.part.datums,
        bad_datums=run.part.bad_datums,
        positions=run.part.positions,
        errors=found[Severity.ERROR],
        warnings=found[Severity.WARNING],
        bytes=size_of(data),
        since=started,
    )


def validate(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    loss_config: Mapping[str, Any] | None = None,
) -> ValidatedBatch:
    """Check datums and pack them for a loss; arguments as for ``check``.

    Returns:
        A batch that keeps every error rule of the contract. Warnings do not refuse it.

    Raises:
        ValidationError: an error was found, or a datum could not be judged; ``report`` says which and where.
        ContractError: the contract has rules about the ledger or the session, and none was given.
    """
    run, report, passed = accepted(
        data, contract, ledger=ledger, session=session, now=now, loss_config=loss_config
    )
    if run.part.unmeasured:
        raise ValidationError(
            f"{run.part.unmeasured} of {report.datums} datums have an image of unknown length, and cannot be "
            "packed: set its expected_tokens",
            report,
        )
    return pack(passed, run.contract, session, run.now)


def accepted(
    data: Any,
    contract: Contract | str,
    *,
    ledger: Any,
    session: str | None,
    now: datetime | str | None,
    loss_config: Mapping[str, Any] | None,
) -> tuple[Run, Report, list[Batch]]:
    """Check datums as `validate` does, without packing them: the run, its report, and what passed."""
    run = Run(contract, ledger=ledger, session=session, now=now, loss_config=loss_config, every_input=True)
    needed = {need for code in run.contract.severities for need in registry()[code].needs}
    for need, given in (("ledger", ledger), ("session", session)):
        if need in needed and given is None:
            raise ContractError(
                f"the {run.contract.loss.name} contract needs a {need}: validate(..., {need}=...)"
            )
    passed: list[Batch] = []
    for step in run.steps(data):
        run.tally.keep(step, EXAMPLES)
        if step.judged is not None:
            passed.append(step.judged.passed)
    report = run.report()
    if not report.valid:
        first = next(v for v in report.violations if v.severity == "error")
        broken = f"{report.bad_datums} of {report.datums} datums break"
        if not report.bad_datums:
            broken = "the ledger, the options or the dataset as a whole break"
        raise ValidationError(
            f"{broken} the {run.contract.loss.name} contract "
            f"({report.errors} error{'s' * (report.errors != 1)}); the first is {first}",
            report,
        )
    if run.part.unjudged:
        raise ValidationError(
            f"{run.part.unjudged} of {report.datums} datums could not be judged under this contract; "
            "report.not_checked says why",
            report,
        )
    return run, report, passed
