"""One run of a contract over a dataset: batch after batch, with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from provenance._version import __version__
from provenance.columns import Columns, Fault
from provenance.contract import Contract
from provenance.engine.arguments import moment_of, refuse_arguments
from provenance.engine.evaluate import Evaluated, evaluate
from provenance.engine.judge import Circumstances, judge
from provenance.engine.part import Part
from provenance.engine.plan import plan_of
from provenance.engine.sources import batches, ledger_of, size_of, workers_for
from provenance.engine.step import Step
from provenance.engine.tally import Tally
from provenance.engine.threads import in_order
from provenance.formats import MAX_LINE, objects
from provenance.ledger import Ledger
from provenance.report import NotChecked, Report, Severity
from provenance.rules import registry
from provenance.sequences import rfc3339

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
        read_all: bool = False,
    ) -> None:
        """``every_input``: judge also loss inputs that no rule needs; ``read_all``: read them, no more."""
        self.contract = Contract.of(contract)
        refuse_arguments(session, loss_config)
        self.session = session
        self.now = moment_of(now)
        self.part = Part() if part is None else part
        self.tally = Tally(self.contract, self.part)
        self._plan = plan_of(self.contract, ledger=ledger is not None, session=session is not None)
        self._inputs = None if every_input else self._plan.inputs
        self._read = None if read_all else self._inputs
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
        yield self.tally.count(Step([], faults))
        findings, checked = self._judge_config()
        yield self.tally.count(Step(findings, [], checked=checked))

    def batches(self, data: Any, ledger: Ledger | None, *, workers: int) -> Iterator[Step]:
        """Judge every batch of ``data``."""
        circumstances = self._circumstances(ledger)
        found = batches(data, inputs=self._read, max_line=self._max_line, on_bytes=self._on_bytes)
        for judged in in_order(partial(_judged, circumstances), found, workers):
            while judged:
                yield self.tally.count(judged.pop(0))  # its batch is let go before the next one
            if self._on_progress is not None:
                self._on_progress(self._progress())

    def after(self) -> Iterator[Step]:
        """Judge what only the whole dataset tells."""
        yield self.tally.count(Step([], self._judge_dataset()))

    def report(self) -> Report:
        """The report of a finished run."""
        return Report(
            datums=self.part.datums,
            positions=self.part.positions,
            bad_datums=self.part.bad_datums,
            counts=self.part.counts,
            checked={code: n for code, n in self.part.checked.items() if code in self.contract.severities},
            violations=self.part.violations(),
            not_checked=(*self._plan.not_checked, *self._not_looked_at()),
            severities=self.contract.severities,
            contract=self.contract.to_dict(),
            session=self.session,
            now=rfc3339(self.now),
            version=__version__,
            ruleset=self.contract.ruleset,
            files=self.part.files,
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

    def _not_looked_at(self) -> Iterator[NotChecked]:
        for code, count in sorted(self.part.softened.items()):
            datums = f"{count} datum{'s' * (count != 1)}"
            yield NotChecked(
                code, f"no error in this contract; {datums} without a shape that other rules could look at"
            )
        if self.part.ambiguous and self.session is None:
            yield NotChecked("SEQ002", "ids that several sessions have: give the training session")
        for found, ids, rule in (
            (self.part.ambiguous and self.session is not None, "that several other sessions have", "SES001"),
            (self.part.unknown, "that the ledger does not hold", "SEQ001"),
            (self.part.conflicting, "whose records conflict", "SEQ008"),
        ):
            if found and self.contract.severities.get(rule) != Severity.ERROR:
                yield NotChecked("SEQ002", f"ids {ids}, where {rule} is no error in this contract")
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
