"""What a check sees beside violations: distributions, and the first bad datums of each rule, whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from provenance.columns import Columns, Ints, Spans, distinct
from provenance.contract import Contract
from provenance.engine.evaluate import GLOBAL_LEVELS
from provenance.engine.histograms import Histograms
from provenance.engine.step import Step
from provenance.observations import BadDatum, Observations
from provenance.report import Severity

#: Datums that are kept of each rule, and of all.
_OF_RULE, _OF_ALL = 3, 60
#: Entries of the longest field of a datum that is kept, and of all of these together.
_LONGEST, _ROOM = 200_000, 1_000_000
#: Violations of each rule that are kept of a datum.
_VIOLATIONS: Final = 20


class _Kept(NamedTuple):
    """A bad datum; those are kept first that are least in their order."""

    warning: bool
    """It has no error."""
    of_rule: int
    """Datums that were chosen before for one of its rules, the rarest one."""
    number: int
    """In the dataset."""
    size: int
    datum: BadDatum


class Observer:
    """Sees the steps of a run in their order."""

    def __init__(self, contract: Contract) -> None:
        self._severities = contract.severities
        self._histograms = Histograms(contract.parameters.window)
        self._chosen: Counter[str] = Counter()
        self._kept: list[_Kept] = []
        self._omitted = 0
        self._datums = 0

    def add(self, step: Step) -> None:
        """See what a step looked at, and what it found there."""
        if step.judged is None:
            return
        self._histograms.add(step.judged)
        for number in self._wanted(step):
            self._keep(step, step.judged.columns, number)
        self._datums += len(step.judged.columns)

    def observations(self) -> Observations:
        """What was seen so far."""
        return Observations(
            histograms=self._histograms.histograms(),
            datums=tuple(kept.datum for kept in sorted(self._kept, key=lambda kept: kept.number)),
            omitted=self._omitted,
        )

    def _wanted(self, step: Step) -> Iterator[int]:
        """The next datum, by its number in the batch, that breaks a rule of which few were chosen so far."""
        assert step.judged is not None  # noqa: S101 - narrows a type: the caller has looked
        bad: dict[str, list[Ints]] = {}
        for finding in step.findings:
            code = finding.rule.code
            local = finding.rule.at not in GLOBAL_LEVELS and len(finding.failing)
            if local and self._chosen[code] < _OF_RULE:
                bad.setdefault(code, []).append(finding.datums())
        rows = {code: distinct(np.concatenate(of_code)) for code, of_code in bad.items()}
        after = -1
        while ahead := [
            int(of_code[place])
            for code, of_code in rows.items()
            if self._chosen[code] < _OF_RULE
            and (place := int(of_code.searchsorted(after, "right"))) < len(of_code)
        ]:
            after = min(ahead)
            yield int(step.judged.columns.row.searchsorted(after))

    def _keep(self, step: Step, columns: Columns, number: int) -> None:
        size = _size(columns, number)
        if size > _LONGEST:
            self._omitted += 1
            return
        own = step.of_datum(number)
        codes = own.codes()
        errors = [code for code in codes if self._severities[code] == Severity.ERROR]
        of_rule = min(self._chosen[code] for code in codes)
        self._chosen.update(codes)
        violations = [v for c in codes for v in own.violations(c, self._severities[c], _VIOLATIONS)]
        datum = BadDatum(columns=_alone(columns, number), violations=tuple(violations))
        self._kept.append(_Kept(not errors, of_rule, self._datums + number, size, datum))
        self._kept.sort(key=lambda kept: kept[:3])
        while len(self._kept) > _OF_ALL or sum(kept.size for kept in self._kept) > _ROOM:
            self._kept.pop()
            self._omitted += 1


def _size(columns: Columns, number: int) -> int:
    """Entries of the longest field of a datum."""
    tensors = [tensor.offsets for tensor in columns.inputs.values()]
    lists = (
        columns.offsets,
        columns.chunks.offsets,
        columns.input_spans.offsets,
        columns.target_spans.offsets,
    )
    return max(int(offsets[number + 1] - offsets[number]) for offsets in (*lists, *tensors))


def _alone(columns: Columns, number: int) -> Columns:
    """A datum that holds on to nothing of its batch, not to the ids of the others either."""
    datum = columns.take(np.array([number]))
    mentions = np.concatenate([datum.input_spans.sequence, datum.target_spans.sequence])
    named = distinct(mentions[mentions >= 0])

    def renumbered(spans: Spans) -> Spans:
        return replace(
            spans, sequence=np.where(spans.sequence < 0, spans.sequence, named.searchsorted(spans.sequence))
        )

    return replace(
        datum,
        ids=tuple(columns.ids[sequence] for sequence in named.tolist()),
        input_spans=renumbered(datum.input_spans),
        target_spans=renumbered(datum.target_spans),
    )
