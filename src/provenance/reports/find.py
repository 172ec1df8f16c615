"""Find one datum in data of any size, with what the engine says about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from provenance.columns import NO_SEQUENCE, Columns
from provenance.contract import Contract
from provenance.engine import Progress
from provenance.engine.locate import violations
from provenance.engine.run import Run
from provenance.engine.step import Step
from provenance.errors import ReadError
from provenance.formats._io import MAX_LINE, name_of, read_lines
from provenance.report import Count, Report, Severity, Violation

__all__ = ["FoundDatum", "find_datum"]

#: Violations of each rule that the report of a datum holds.
_EXAMPLES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDatum:
    """One datum and what was found in it."""

    columns: Columns
    """The datum, a batch of one."""
    report: Report
    """About this datum and the records that it names. The rules that were checked, or not, are those of the
    whole run that found it."""
    line: bytes | None = None
    """The line of its file, where that could not be read as a datum and can be read again."""


def find_datum(
    data: Any,
    contract: Contract | str = "stable_reinforce",
    *,
    row: int | None = None,
    line: int | None = None,
    ledger: Any = None,
    session: str | None = None,
    now: datetime | str | None = None,
    max_line: int = MAX_LINE,
    on_progress: Callable[[Progress], None] | None = None,
) -> FoundDatum:
    """Find a datum by its row, from 0, or its line, from 1; else the first with an error, else the first.

    Reading ends with the batch that holds it. The datums before it are judged too, since some rules look
    back. The other arguments are those of ``engine.check``.

    Raises:
        ReadError: there is no such datum, or a file cannot be read.
        ContractError: the contract or the time cannot be used.
        SchemaError: ``data`` or ``ledger`` is nothing that can be checked.
    """
    run = Run(
        contract,
        ledger=ledger,
        session=session,
        now=now,
        max_line=max_line,
        on_progress=on_progress,
        read_all=True,
    )
    records: list[Violation] = []
    found: _Alone | None = None
    last: Columns | None = None
    for step in run.steps(data, workers=1):
        if step.judged is None:
            continue
        columns = step.judged.columns
        if not len(columns):
            _refuse_faulty(columns)
            continue
        for finding in step.findings:
            if finding.rule.at == "record":
                records += violations(finding, run.tally.severity(finding.rule.code))
        number = _first_bad(step, run) if row is None and line is None else _number_of(columns, row, line)
        if number is not None:
            return _report(run, _alone(step, number, run), records, max_line)
        if found is None:
            found = _alone(step, 0, run)
        last = columns.take(np.array([len(columns) - 1]))
        if line is not None and last.line is not None and int(last.line[0]) > line:
            break
        del step, columns  # before the next batch is read
    name = name_of(os.fspath(data)) if isinstance(data, str | os.PathLike) else "data"
    if found is None or last is None:
        raise ReadError(name, "holds no datum")
    if row is not None or line is not None:
        raise ReadError(last.file or name, _absence(last, row, line))
    return _report(run, found, records, max_line)


@dataclass(frozen=True, slots=True)
class _Alone:
    """A datum taken out of its batch."""

    columns: Columns
    violations: list[Violation]
    counts: dict[str, Count]


def _refuse_faulty(columns: Columns) -> None:
    """Raise for a file that has no datums because its columns are none of a datum."""
    for fault in columns.faults:
        place = f"{fault.field}: " if fault.field else ""
        raise ReadError(columns.file, f"no datum of it can be read: {place}{fault.message}")


def _number_of(columns: Columns, row: int | None, line: int | None) -> int | None:
    """The wanted datum's number in its batch, None where it is not there."""
    if row is None and columns.line is None:
        raise ReadError(columns.file or "data", "has no lines, give --row (from 0) instead of --line")
    places, wanted = (columns.line, line) if row is None else (columns.row, row)
    numbers = np.flatnonzero(places == wanted)
    return int(numbers[0]) if len(numbers) else None


def _absence(last: Columns, row: int | None, line: int | None) -> str:
    if line is None:
        return f"no row {row}: the last one read is row {last.row[0]} (rows count from 0)"
    assert last.line is not None  # noqa: S101 - narrows a type: data without lines were refused before
    where = f"the last datum is in line {last.line[0]}" if int(last.line[0]) < line else "the line is blank"
    return f"no datum in line {line}: {where}"


def _first_bad(step: Step, run: Run) -> int | None:
    """The number of a batch's first datum with an error."""
    assert step.judged is not None  # noqa: S101 - narrows a type: the caller has looked
    bad = np.isin(step.judged.columns.row, step.bad_datums(run.tally.severity))
    return int(bad.argmax()) if bad.any() else None


def _alone(step: Step, number: int, run: Run) -> _Alone:
    """A datum with its violations, which are exactly those that the whole batch gave."""
    assert step.judged is not None  # noqa: S101 - narrows a type: the caller has looked
    own = step.of_datum(number)
    counts: dict[str, Count] = {}
    for finding in own.findings:
        counts.setdefault(finding.rule.code, Count(1, 0, 0)).add(finding.count())
    for _, _, fault in own.faults:
        counts.setdefault(fault.code, Count(1, 0, 0)).add(Count(0, 1, 1))
    severity = run.tally.severity
    kept = [v for code in own.codes() for v in own.violations(code, severity(code), _EXAMPLES)]
    return _Alone(step.judged.columns.take(np.array([number])), kept, counts)


def _report(run: Run, found: _Alone, records: list[Violation], max_line: int) -> FoundDatum:
    columns = found.columns
    sequences = {*columns.input_spans.sequence.tolist(), *columns.target_spans.sequence.tolist()}
    ids = {columns.ids[sequence] for sequence in sequences if sequence != NO_SEQUENCE}
    named = [violation for violation in records if violation.location.sequence_id in ids]
    for violation in named:
        found.counts.setdefault(violation.code, Count()).add(Count(0, 1, 1))
    severity = run.tally.severity
    bad = any(count.datums and severity(code) == Severity.ERROR for code, count in found.counts.items())
    return FoundDatum(
        columns=columns,
        report=replace(
            run.report(),
            datums=1,
            positions=columns.positions,
            bad_datums=int(bad),
            counts=found.counts,
            violations=(*found.violations, *named),
        ),
        line=None if columns.readable[0] else _line_of(columns, max_line),
    )


def _line_of(columns: Columns, max_line: int) -> bytes | None:
    if columns.file is None or columns.line is None or not Path(columns.file).is_file():
        return None
    lines = read_lines(columns.file, max_line=max_line)
    return next((line.data for line in lines if line.number == int(columns.line[0])), None)
