"""One run of a contract over a dataset: batch after batch, with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from provenance import _rfc3339
from provenance._version import __version__
from provenance.columns import Columns, Fault, Ints, distinct
from provenance.contract import Contract
from provenance.engine.evaluate import Evaluated, Finding, evaluate
from provenance.engine.judge import Circumstances, Judged, judge
from provenance.engine.keys import KeySet
from provenance.engine.locate import mentions, names_of
from provenance.engine.part import Occurrence, Part
from provenance.engine.plan import plan_of
from provenance.engine.pool import in_order
from provenance.engine.sources import batches, ledger_of, size_of, workers_for
from provenance.engine.step import Step, place_of_mention
from provenance.errors import ContractError
from provenance.formats import MAX_LINE, objects
from provenance.ledger import Ledger
from provenance.report import Count, NotChecked, Report, Severity
from provenance.rules import registry
from provenance.sequences import microseconds, rfc3339

if TYPE_CHECKING:
    from provenance.formats._arrow_pieces import Piece


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    file: str
    bytes_read: int
    bytes_total: int | None
    """Size of all files of the run; None where one of them has no size (stdin)."""
    datums: int
    violations: int


class Run:
    """One run: ``steps`` judges, ``part`` sums up what was found, and ``report`` tells it."""

    def __init__(
        self,
        contract: Contract | str,
        *,
        ledger: Any = None,
        session: str | None = None,
        now: datetime | str | None = None,
        loss_config: Mapping[str, Any] | None = None,
        allow_empty: bool = False,
        max_line: int = MAX_LINE,
        on_progress: Callable[[Progress], None] | None = None,
        part: Part | None = None,
        every_input: bool = False,
    ) -> None:
        self.contract = Contract.of(contract)
        _refuse_arguments(session, loss_config)
        self.session = session
        self.now = moment_of(now)
        self.part = Part() if part is None else part
        self._plan = plan_of(self.contract, ledger=ledger is not None, session=session is not None)
        self._inputs = None if every_input else self._plan.inputs
        self._ledger = ledger
        self._config = dict(loss_config or {})
        self._allow_empty = allow_empty
        self._max_line = max_line
        self._on_progress = on_progress
        self._on_bytes = None if on_progress is None else self._count_bytes
        self._file, self._bytes_read = "", 0
        self._bytes_total: int | None = None

    def steps(self, data: Any, *, workers: int | None = None) -> Iterator[Step]:
        """Judge the ledger's files, the configuration, every batch of ``data``, and the whole dataset.

        With one worker nothing is read before it is asked for; by default there are as many as are worth it.
        """
        self._bytes_total = None if self._on_progress is None else size_of(data, self._ledger)
        ledger, faults = ledger_of(self._ledger, max_line=self._max_line, on_bytes=self._on_bytes)
        yield from self.before(faults)
        yield from self.batches(data, ledger, workers=workers_for(data) if workers is None else workers)
        yield from self.after()

    def before(self, faults: list[tuple[str | None, int, Fault]]) -> Iterator[Step]:
        """Count the faults of the ledger's files, and judge the configuration."""
        yield self._count(Step([], faults))
        findings, checked = self._judge_config()
        yield self._count(Step(findings, [], checked=checked))

    def batches(self, data: Any, ledger: Ledger | None, *, workers: int) -> Iterator[Step]:
        """Judge every batch of ``data``."""
        circumstances = self._circumstances(ledger)
        found = batches(data, inputs=self._inputs, max_line=self._max_line, on_bytes=self._on_bytes)
        for judged in in_order(partial(_judged, circumstances), found, workers):
            while judged:
                yield self._count(judged.pop(0))  # its batch is let go before the next one
            if self._on_progress is not None:
                self._on_progress(self._progress())

    def after(self) -> Iterator[Step]:
        """Judge what only the whole dataset tells."""
        yield self._count(Step([], self._judge_dataset()))

    def severity(self, code: str) -> Severity:
        """How much a rule weighs; OFF for a silenced gate."""
        return self.contract.severities.get(code, Severity.OFF)

    def keep(self, step: Step, limit: int) -> None:
        """Keep violations of a step as examples, so that there are at most ``limit`` of each rule."""
        for code in step.codes():
            kept = self.part.examples.get(code, [])
            if len(kept) < limit or registry()[code].at == "record":  # these are in the ledger's order
                before = self.part.datums - (0 if step.judged is None else len(step.judged.columns))
                self.part.keep(code, step.examples(code, self.severity(code), limit, before=before), limit)

    def report(self) -> Report:
        """The report of a finished run."""
        return Report(
            datums=self.part.datums,
            positions=self.part.positions,
            bad_datums=self.part.bad_datums,
            counts=self.part.counts,
            checked=dict(self.part.checked),
            violations=tuple(
                example.violation
                for _, examples in sorted(self.part.examples.items())
                for example in examples
            ),
            not_checked=(*self._plan.not_checked, *self._not_looked_at()),
            severities=self.contract.severities,
            contract=self.contract.to_dict(),
            session=self.session,
            now=rfc3339(self.now),
            version=__version__,
            ruleset=self.contract.ruleset,
        )

    def _circumstances(self, ledger: Ledger | None) -> Circumstances:
        return Circumstances(
            contract=self.contract,
            gates=self._plan.gates,
            rules=self._plan.rules,
            inputs=self._inputs,
            ledger=ledger,
            session=self.session,
            now=self.now,
        )

    def _judge_config(self) -> Evaluated:
        if not self._config:
            return Evaluated([], {})
        batch = self._circumstances(None).batch(objects.columns_of([]))
        batch.config = self._config
        return evaluate(batch, self._plan.config)

    def _judge_dataset(self) -> list[tuple[str | None, int, Fault]]:
        """A rule about the dataset holds if some batch satisfies it."""
        faults: list[tuple[str | None, int, Fault]] = []
        for (code, field), satisfied in self.part.satisfied.items():
            self.part.checked[code] += 1
            if not satisfied:
                faults.append((None, 0, Fault(code, None, field, registry()[code].message)))
        if "FMT005" in self.contract.severities and not self._allow_empty:
            self.part.checked["FMT005"] += 1
            if not self.part.datums and not self.part.failed_files:
                faults.append((None, 0, Fault("FMT005", None, "", registry()["FMT005"].message)))
        return faults

    def _count(self, step: Step) -> Step:
        """Add a step to the totals; what silenced gates found is taken out of it."""
        if not step.findings and not step.faults and not step.checked and step.judged is None:
            return step
        self.part.checked.update(step.checked)
        findings = [f for f in map(self._in_dataset, step.findings) if f is not None]
        datums: dict[str, list[Ints]] = {}
        for finding in findings:
            code = finding.rule.code
            if len(finding.failing):
                datums.setdefault(code, []).append(finding.datums())
                if self.severity(code) != Severity.OFF:
                    self.part.counts.setdefault(code, Count()).add(finding.count())
        for _, base, fault in step.faults:
            self.part.failed_files |= fault.row is None and step.judged is not None
            if fault.row is not None and step.judged is not None:
                datums.setdefault(fault.code, []).append(np.array([base + fault.row]))
            if self.severity(fault.code) != Severity.OFF:
                self.part.counts.setdefault(fault.code, Count()).add(Count(0, 1, 1))
        failed = {code: distinct(np.concatenate(rows)) for code, rows in datums.items()}
        bad = [rows for code, rows in failed.items() if self.severity(code) == Severity.ERROR]
        for code, rows in failed.items():
            if self.severity(code) != Severity.OFF:
                self.part.counts[code].datums += len(rows)
            if self.severity(code) != Severity.ERROR and registry()[code].gate:
                self.part.softened[code] += len(rows)
        if bad:
            self.part.bad_datums += len(distinct(np.concatenate(bad)))
        if step.judged is not None:
            self._note_occurrences(findings, step.judged.columns, bad)
            self._count_batch(step.judged, bad)
        return Step(
            [f for f in findings if self.severity(f.rule.code) != Severity.OFF],
            [f for f in step.faults if self.severity(f[2].code) != Severity.OFF],
            step.judged,
        )

    def _in_dataset(self, finding: Finding) -> Finding | None:
        """A finding about a batch in view of the batches before; None where that is known at the end."""
        rule = finding.rule
        if rule.at == "dataset":
            self.part.checked[rule.code] -= finding.judged  # it is judged at the end
            if finding.judged:
                key = (rule.code, finding.field)
                self.part.satisfied[key] = self.part.satisfied.get(key, False) or not len(finding.failing)
            return None
        if not rule.remembers:
            return finding
        seen = self.part.seen.setdefault(rule.code, KeySet())
        if rule.at == "record":
            before = finding.elements[seen.add(names_of(finding, finding.elements))]
            failing = _without(finding.failing, before)
            self.part.failing.setdefault(rule.code, KeySet()).add(names_of(finding, failing))
            self.part.checked[rule.code] -= len(before)
            return replace(finding, failing=failing, judged=finding.judged - len(before))
        firsts = _without(finding.elements, finding.failing)
        again = firsts[seen.add(names_of(finding, firsts))]
        return replace(finding, failing=np.union1d(finding.failing, again)) if len(again) else finding

    def _note_occurrences(self, findings: list[Finding], columns: Columns, bad: list[Ints]) -> None:
        """Note, for a part that has others before it, where it first names what must be unique."""
        if self.part.origin:
            return
        bad_rows = {row for rows in bad for row in rows.tolist()}
        for finding in findings:
            if not finding.rule.unique or self.severity(finding.rule.code) == Severity.OFF:
                continue
            counted = set(finding.datums().tolist())
            noted = self.part.occurrences.setdefault(finding.rule.code, [])
            for location in mentions(finding, _without(finding.elements, finding.failing)):
                place = place_of_mention(columns, location, self.part.datums)
                noted.append(Occurrence(place, location, location.row in counted, location.row in bad_rows))

    def _count_batch(self, judged: Judged, bad: list[Ints]) -> None:
        columns, part = judged.columns, self.part
        part.datums += len(columns)
        part.positions += columns.positions
        measured = judged.passed.measured
        part.unmeasured += len(measured) - int(np.count_nonzero(measured))
        if judged.passed.sequences is not None:
            part.ambiguous |= bool(judged.passed.sequences.ambiguous.any())
        for code in ("FMT001", "FMT002", "FMT003", "FMT004"):
            part.checked[code] += len(columns)
        passed = judged.passed.columns.row
        if len(passed) < len(columns):
            part.unjudged += len(columns) - len(distinct(np.concatenate([passed, *bad])))

    def _not_looked_at(self) -> Iterator[NotChecked]:
        for code, count in sorted(self.part.softened.items()):
            datums = f"{count} datum{'s' * (count != 1)}"
            yield NotChecked(
                code, f"no error in this contract; {datums} without a shape that other rules could look at"
            )
        if self.part.ambiguous and self.session is None:
            yield NotChecked("SEQ002", "ids that several sessions have: give the training session")
        unmeasured = self.part.unmeasured
        if unmeasured:
            yield NotChecked(
                "INP005",
                f"{unmeasured} datum{'s' * (unmeasured != 1)} with an image without expected_tokens, taken "
                "to be as long as targets leave room",
            )

    def _count_bytes(self, file: str, count: int) -> None:
        self._file = file
        self._bytes_read += count

    def _progress(self) -> Progress:
        found = sum(count.violations for count in self.part.counts.values())
        return Progress(self._file, self._bytes_read, self._bytes_total, self.part.datums, found)


def _without(elements: Ints, others: Ints) -> Ints:
    """The elements that are none of the others, ascending."""
    return np.setdiff1d(elements, others, assume_unique=True) if len(others) else elements


def _judged(circumstances: Circumstances, found: Columns | Piece[Columns]) -> list[Step]:
    """Judge a batch, or read a piece and judge its batches; in any thread."""
    steps = []
    for columns in [found] if isinstance(found, Columns) else found.read():
        judged = judge(columns, circumstances)
        if columns.file is not None:  # while it waits others are judged
            judged.passed.forget()
        base = int(columns.row[0]) if len(columns) else 0
        faults = [(columns.file, base, fault) for fault in columns.faults]
        steps.append(Step(judged.findings, faults, judged, judged.checked))
    return steps


def _refuse_arguments(session: object, loss_config: object) -> None:
    if session is not None and (not isinstance(session, str) or not session):
        raise ContractError(f"the training session is {session!r}, expected its id")
    if loss_config is not None and not isinstance(loss_config, Mapping):
        raise ContractError(f"loss_config is {loss_config!r}, expected a mapping of options to values")


def moment_of(now: datetime | str | None) -> int:
    """A time as microseconds since 1970 UTC; None is the clock's.

    Raises:
        ContractError: it has no offset from UTC, or is no RFC 3339 time.
    """
    if now is None:
        return microseconds(datetime.now(UTC))
    if isinstance(now, str):
        text = now
        try:
            now = _rfc3339.parse(text)
        except ValueError as error:
            raise ContractError(f"time {text!r} does not exist: {error}") from None
        if now is None or now.utcoffset() is None:
            raise ContractError(f"time {text!r} is not RFC 3339 with an offset, such as 2026-01-31T12:00:00Z")
    if not isinstance(now, datetime):
        raise ContractError(f"time is {now!r}, expected a datetime or RFC 3339 text")
    if now.utcoffset() is None:
        raise ContractError(f"time {now.isoformat()!r} has no offset from UTC")
    try:
        return microseconds(now.astimezone(UTC))
    except OverflowError:
        raise ContractError(f"time {now.isoformat()!r} is out of range") from None
