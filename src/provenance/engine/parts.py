"""A check of a dataset in parts: any number of processes look at parts, and one joins what they found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from provenance.contract import Contract
from provenance.engine.arguments import refuse_examples
from provenance.engine.part import Part, join
from provenance.engine.run import Run
from provenance.engine.sources import ledger_of
from provenance.engine.split import note
from provenance.engine.verbs import EXAMPLES
from provenance.formats import MAX_LINE, FileNotes
from provenance.ledger import Ledger
from provenance.report import Report
from provenance.sequences import rfc3339


class CheckInParts:
    """What all parts of a dataset are checked by; can be pickled and sent to whoever checks one.

    The report is that of ``check`` over the whole dataset, to the byte, however it was cut: into stretches
    that follow each other, whose parts are given in their order.
    """

    def __init__(
        self,
        contract: Contract | str = "stable_reinforce",
        *,
        ledger: bool,
        session: str | None = None,
        now: datetime | str | None = None,
        loss_config: Mapping[str, Any] | None = None,
        max_examples: int = EXAMPLES,
        allow_empty: bool = False,
    ) -> None:
        """Arguments and errors are those of ``check``; ``ledger`` is whether there is one."""
        refuse_examples(max_examples)
        self._ledger = ledger
        self._settings: dict[str, Any] = {
            "contract": Contract.of(contract),
            "session": session,
            "now": now,
            "loss_config": loss_config,
            "allow_empty": allow_empty,
        }
        self._max_examples = max_examples
        # From here on the time is the same for all.
        self._settings["now"] = rfc3339(self._run(Part()).now)

    def start(self, ledger: Any = None) -> tuple[Part, Ledger | None]:
        """The part before all others, and the ledger that the parts are held against."""
        opened, faults = ledger_of(ledger, max_line=MAX_LINE)
        run = self._run(Part())
        for step in run.before(faults):
            run.tally.keep(step, self._max_examples)
        return run.part, opened

    def look(self, data: Any, ledger: Ledger | None = None) -> Part:
        """What is found in a stretch of the dataset, looked at alone.

        Args:
            data: what ``check`` takes.
            ledger: has all sequences that these datums name.
        """
        run = self._run(Part(origin=False))
        for step in run.batches(data, ledger, workers=1):
            run.tally.keep(step, self._max_examples)
        return run.part

    def notes(self, data: Any, ledger: Ledger | None = None) -> FileNotes:
        """Which datums of a stretch break an error rule, by their number in it, and why.

        Arguments are those of ``look``; what only the whole dataset tells is left out.
        """
        found = FileNotes()
        run = self._run(Part(origin=False))
        for step in run.batches(data, ledger, workers=1):
            note(step, run.tally.severity, found)
        return found

    def join(self, first: Part, second: Part) -> Part:
        """The part that two make up, the second of which follows the first; associative."""
        return self._joined(first, [second])

    def report(self, start: Part, parts: Iterable[Part]) -> Report:
        """The report of the whole dataset, from its parts in their order."""
        run = self._run(self._joined(start, parts))
        for step in run.after():
            run.tally.keep(step, self._max_examples)
        return run.report()

    def _joined(self, first: Part, others: Iterable[Part]) -> Part:
        return join(first, others, self._settings["contract"].severities, self._max_examples)

    def _run(self, part: Part) -> Run:
        return Run(**self._settings, ledger=self._ledger or None, part=part)
