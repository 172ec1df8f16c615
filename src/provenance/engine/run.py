"""One run of a contract over a dataset: batch after batch, with exact counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from provenance import _rfc3339
from provenance._version import __version__
from provenance.columns import Columns, Fault, distinct
from provenance.contract import Contract
from provenance.engine.evaluate import Finding, evaluate
from provenance.engine.judge import Circumstances, Judged, judge
from provenance.engine.plan import plan_of
from provenance.engine.sources import batches, ledger_of, size_of
from provenance.engine.step import Step
from provenance.errors import ContractError
from provenance.formats import MAX_LINE, objects
from provenance.ledger import Ledger
from provenance.report import Count, NotChecked, Report, Severity, Violation
from provenance.rules import History, registry
from provenance.sequences import microseconds, rfc3339


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
    """State of one run: ``steps`` judges, ``report`` sums up what the steps found."""

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
    ) -> None:
        self.contract = Contract.of(contract)
        _refuse_arguments(session, loss_config)
        self.session = session
        self.now = moment_of(now)
        self.datums = self.positions = self.bad_datums = 0
        self.unjudged = 0
        """Readable datums that no rule about content looked at though no error was reported for them."""
        self.unmeasured = 0
        """Datums that passed the gates with an image of unknown length."""
        self._plan = plan_of(self.contract, ledger=ledger is not None, session=session is not None)
        self._ledger = ledger
        self._config = dict(loss_config or {})
        self._allow_empty = allow_empty
        self._max_line = max_line
        self._on_progress = on_progress
        self._counts: dict[str, Count] = {}
        self._checked: Counter[str] = Counter()
        self._softened: Counter[str] = Counter()
        self._ambiguous = 0
        self._failed_files = False
        """A file's columns are none of a datum: how many it holds is not known."""
        self._satisfied: dict[tuple[str, str], bool] = {}
        self._file, self._bytes_read = "", 0
        self._bytes_total: int | None = None

    def steps(self, data: Any) -> Iterator[Step]:
        """Judge the ledger's files, the configuration, every batch of ``data``, and the whole dataset."""
        self._bytes_total = None if self._on_progress is None else size_of(data, self._ledger)
        on_bytes = None if self._on_progress is None else self._count_bytes
        ledger, faults = ledger_of(self._ledger, max_line=self._max_line, on_bytes=on_bytes)
        yield self._count(Step([], faults))
        circumstances = self._circumstances(ledger)
        yield self._count(Step(self._judge_config(circumstances), []))
        for columns in batches(data, max_line=self._max_line, on_bytes=on_bytes):
            yield self._count(self._judge_batch(columns, circumstances))
            del columns  # before the next batch is read
            if self._on_progress is not None:
                self._on_progress(self._progress())
        yield self._count(Step([], self._judge_dataset()))

    def _judge_batch(self, columns: Columns, circumstances: Circumstances) -> Step:
        judged = judge(columns, circumstances)
        base = int(columns.row[0]) if len(columns) else 0
        return Step(self._local(judged), [(columns.file, base, fault) for fault in columns.faults], judged)

    def severity(self, code: str) -> Severity:
        """How much a rule weighs; OFF for a silenced gate."""
        return self.contract.severities.get(code, Severity.OFF)

    def report(self, kept: list[Violation]) -> Report:
        """The report of a finished run, with the given violations as examples."""
        return Report(
            datums=self.datums,
            positions=self.positions,
            bad_datums=self.bad_datums,
            counts=self._counts,
            checked=dict(self._checked),
            violations=tuple(kept),
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
            ledger=ledger,
            session=self.session,
            now=self.now,
            history=History(),
        )

    def _judge_config(self, circumstances: Circumstances) -> list[Finding]:
        if not self._config:
            return []
        batch = circumstances.batch(objects.columns_of([]))
        batch.config = self._config
        return evaluate(batch, self._plan.config)

    def _local(self, judged: Judged) -> list[Finding]:
        """The findings of a batch without those about the dataset, which are kept for the end."""
        local = []
        for finding in judged.findings:
            if finding.rule.at != "dataset":
                local.append(finding)
            elif finding.judged:
                key = (finding.rule.code, finding.field)
                self._satisfied[key] = self._satisfied.get(key, False) or not len(finding.failing)
        return local

    def _judge_dataset(self) -> list[tuple[str | None, int, Fault]]:
        """A rule about the dataset holds if some batch satisfies it."""
        faults: list[tuple[str | None, int, Fault]] = []
        for (code, field), satisfied in self._satisfied.items():
            self._checked[code] += 1
            if not satisfied:
                faults.append((None, 0, Fault(code, None, field, registry()[code].message)))
        if "FMT005" in self.contract.severities and not self._allow_empty:
            self._checked["FMT005"] += 1
            if not self.datums and not self._failed_files:
                faults.append((None, 0, Fault("FMT005", None, "", registry()["FMT005"].message)))
        return faults

    def _count(self, step: Step) -> Step:
        """Add a step to the totals; what silenced gates found is taken out of it."""
        if not step.findings and not step.faults and step.judged is None:
            return step
        datums: dict[str, list[Any]] = {}
        for finding in step.findings:
            code = finding.rule.code
            self._checked[code] += finding.judged
            if len(finding.failing):
                datums.setdefault(code, []).append(finding.datums())
                if self.severity(code) != Severity.OFF:
                    self._counts.setdefault(code, Count()).add(finding.count())
        for _, base, fault in step.faults:
            self._failed_files |= fault.row is None and step.judged is not None
            if fault.row is not None and step.judged is not None:
                datums.setdefault(fault.code, []).append(np.array([base + fault.row]))
            if self.severity(fault.code) != Severity.OFF:
                self._counts.setdefault(fault.code, Count()).add(Count(0, 1, 1))
        failed = {code: distinct(np.concatenate(rows)) for code, rows in datums.items()}
        bad = [rows for code, rows in failed.items() if self.severity(code) == Severity.ERROR]
        for code, rows in failed.items():
            if self.severity(code) != Severity.OFF:
                self._counts[code].datums += len(rows)
            if self.severity(code) != Severity.ERROR and registry()[code].gate:
                self._softened[code] += len(rows)
        if bad:
            self.bad_datums += len(distinct(np.concatenate(bad)))
        if step.judged is not None:
            self._count_batch(step.judged, bad)
        return Step(
            [f for f in step.findings if self.severity(f.rule.code) != Severity.OFF],
            [f for f in step.faults if self.severity(f[2].code) != Severity.OFF],
            step.judged,
        )

    def _count_batch(self, judged: Judged, bad: list[Any]) -> None:
        columns = judged.columns
        self.datums += len(columns)
        self.positions += columns.positions
        measured = judged.passed.measured
        self.unmeasured += len(measured) - int(np.count_nonzero(measured))
        if judged.passed.sequences is not None:
            self._ambiguous += int(judged.passed.sequences.ambiguous.sum())
        for code in ("FMT001", "FMT002", "FMT003", "FMT004"):
            self._checked[code] += len(columns)
        passed = judged.passed.columns.row
        if len(passed) < len(columns):
            self.unjudged += len(columns) - len(distinct(np.concatenate([passed, *bad])))

    def _not_looked_at(self) -> Iterator[NotChecked]:
        for code, count in sorted(self._softened.items()):
            datums = f"{count} datum{'s' * (count != 1)}"
            yield NotChecked(
                code, f"no error in this contract; {datums} without a shape that other rules could look at"
            )
        if self._ambiguous and self.session is None:
            yield NotChecked("SEQ002", "ids that several sessions have: give the training session")
        if self.unmeasured:
            datums = f"{self.unmeasured} datum{'s' * (self.unmeasured != 1)}"
            yield NotChecked(
                "INP005",
                f"{datums} with an image without expected_tokens, taken to be as long as targets leave room",
            )

    def _count_bytes(self, file: str, count: int) -> None:
        self._file = file
        self._bytes_read += count

    def _progress(self) -> Progress:
        found = sum(count.violations for count in self._counts.values())
        return Progress(self._file, self._bytes_read, self._bytes_total, self.datums, found)


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
