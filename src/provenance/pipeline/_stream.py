"""A stream of datums or batches that is checked as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from logging import WARNING
from typing import Any, Literal

import numpy as np

from provenance._log import event
from provenance.engine.arguments import moment_of
from provenance.engine.run import Run
from provenance.engine.step import Step
from provenance.errors import ContractError, ProvenanceError
from provenance.models._base import shorten
from provenance.pipeline._batches import Datums, given_back, in_batches, rows_of, taken
from provenance.pipeline._checker import Checker
from provenance.pipeline._steps import refuse
from provenance.report import Report


class CheckedStream:
    """The good datums of a stream, checked as it is read.

    A datum leaves as it came, and a batch (what `Checker` takes) as a batch of those of its datums that are
    good, if there are any. Sequences are remembered, so that a later datum which trains on one again breaks
    SEQ010. Each iteration reads ``source`` anew, and remembers nothing of the one before.
    """

    def __init__(
        self,
        source: Iterable[Any],
        checker: Checker,
        *,
        on_error: Literal["raise", "skip"] = "raise",
        at_once: int = 64,
        on_report: Callable[[Report], object] | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            source: gives datums, or batches of them.
            checker: judges.
            on_error: ``raise`` a `ValidationError` at the first error, with its place; or ``skip`` the datum,
                which the report counts. An error that is no datum's is told by the report alone then.
            at_once: datums that are read before the first of them is handed on; one by one they cost
                some twenty times as much. Batches are handed on one by one.
            on_report: called at the end with the report, in the process that reads the stream.

        Raises:
            ContractError: ``on_error`` or ``at_once`` is none of these.

        The iterator raises:
            ValidationError: an error, where ``on_error`` is ``raise``.
            SchemaError: the columns of a batch are not those of datums.
        """
        if on_error not in ("raise", "skip"):
            raise ContractError(f"on_error is {shorten(on_error)}, expected 'raise' or 'skip'")
        if at_once < 1:
            raise ContractError(f"at_once is {at_once!r}, expected 1 or more")
        self._source, self._checker = source, checker
        self._skips, self._at_once, self._on_report = on_error == "skip", at_once, on_report
        self._run: Run | None = None

    @property
    def report(self) -> Report:
        """The report of what the last iteration has read so far.

        Rows count the datums of the stream. What only all of it can tell is in the report when it has ended.

        Raises:
            ProvenanceError: this process has read nothing of it.
        """
        if self._run is None:
            raise ProvenanceError(
                "no report: this process has not read the stream; the one that does calls on_report with it"
            )
        return self._run.report()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_run": None}

    def __iter__(self) -> Iterator[Any]:
        run = self._run = self._checker._start()
        for step in run.before(self._checker._faults):
            self._keep(run, step)
        for batch in in_batches(self._source, self._at_once):
            run.now = moment_of(self._checker._settings["now"])
            rows, good = taken(batch), [np.zeros(0, np.bool_)]
            for step, mask in self._checker._judged(run, rows, before=run.part.datums):
                self._keep(run, step)
                good.append(mask)
            passed = np.concatenate(good)
            if skipped := int((~passed).sum()):
                event(WARNING, "datums skipped", datums=skipped, of=len(passed))
            if not passed.any():
                continue
            left = given_back(rows_of(rows, passed), batch)
            if isinstance(batch, Datums):
                yield from left
            else:
                yield left
        for step in run.after():
            self._keep(run, step)
        if self._on_report is not None:
            self._on_report(run.report())

    def _keep(self, run: Run, step: Step) -> None:
        run.tally.keep(step, self._checker._max_examples)
        if not self._skips:
            refuse(run, step)
