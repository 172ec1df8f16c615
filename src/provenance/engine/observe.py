"""What a check sees beside violations: distributions, and the first bad datums of each rule, whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from provenance.columns import Columns, Ints, Spans, distinct
from provenance.contract import Contract
from provenance.engine.evaluate import GLOBAL_LEVELS, Finding, offsets
from provenance.engine.histograms import Histograms
from provenance.engine.locate import mentions
from provenance.engine.step import Step
from provenance.observations import BadDatum, Observations, Places
from provenance.report import Severity
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS

#: Datums that are kept of each rule, and of all.
OF_RULE, _OF_ALL = 3, 60
#: Entries of the longest field of a datum that is kept, and of all of these together.
LONGEST, _ROOM = 200_000, 1_000_000
#: Violations of each rule that are kept of a datum, and places of each rule and field.
_VIOLATIONS, _PLACES = 20, 20_000


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
        self._bad_datums = 0
        self._datums = 0

    def add(self, step: Step) -> None:
        """See what a step looked at, and what it found there."""
        if step.judged is None:
            return
        columns = step.judged.columns
        self._histograms.add(step.judged)
        unread = [base + fault.row for _, base, fault in step.faults if fault.row is not None]
        bad = _bad_rows(step)
        self._bad_datums += len(distinct(np.concatenate([np.array(unread, np.int64), *bad.values()])))
        for row in self._wanted(bad):
            self._keep(step, columns, int(columns.row.searchsorted(row)))
        self._datums += len(columns)

    def observations(self) -> Observations:
        """What was seen so far."""
        return Observations(
            histograms=self._histograms.histograms(),
            datums=tuple(kept.datum for kept in sorted(self._kept, key=lambda kept: kept.number)),
            omitted=self._omitted,
            bad_datums=self._bad_datums,
        )

    def _wanted(self, bad: Mapping[str, Ints]) -> Iterator[int]:
        """The next datum, by its number in the file, that breaks a rule of which few were chosen so far."""
        after = -1
        while ahead := [
            int(rows[place])
            for code, rows in bad.items()
            if self._chosen[code] < OF_RULE and (place := int(rows.searchsorted(after, "right"))) < len(rows)
        ]:
            after = min(ahead)
            yield after

    def _keep(self, step: Step, columns: Columns, number: int) -> None:
        size = _size(columns, number)
        if size > LONGEST:
            self._omitted += 1
            return
        own = step.of_datum(number)
        codes = own.codes()
        errors = [code for code in codes if self._severities[code] == Severity.ERROR]
        of_rule = min(self._chosen[code] for code in codes)
        self._chosen.update(codes)
        counts = Counter(fault.code for _, _, fault in own.faults)
        for finding in own.findings:
            counts[finding.rule.code] += finding.count().violations
        violations = [v for c in codes for v in own.violations(c, self._severities[c], _VIOLATIONS)]
        datum = BadDatum(
            columns=_alone(columns, number),
            violations=tuple(violations),
            counts=counts,
            places=tuple(places for finding in own.findings for places in _places(finding)),
        )
        self._kept.append(_Kept(not errors, of_rule, self._datums + number, size, datum))
        self._kept.sort(key=lambda kept: kept[:3])
        while len(self._kept) > _OF_ALL or sum(kept.size for kept in self._kept) > _ROOM:
            self._kept.pop()
            self._omitted += 1


def _bad_rows(step: Step) -> dict[str, Ints]:
    """The datums that break each rule, by their numbers in the file, ascending."""
    bad: dict[str, list[Ints]] = {}
    for finding in step.findings:
        if finding.rule.at not in GLOBAL_LEVELS and len(finding.failing):
            bad.setdefault(finding.rule.code, []).append(finding.datums())
    return {code: distinct(np.concatenate(rows)) for code, rows in bad.items()}


def _places(finding: Finding) -> Iterator[Places]:
    """Where a finding about one datum failed."""
    batch, code, field, at = finding.batch, finding.rule.code, finding.field, finding.rule.at
    if at == "datum":
        return
    if at == "sequence":
        named = [(place.field, place.index) for place in mentions(finding, finding.failing[:_PLACES])]
        for spans in (INPUT_SPANS, TARGET_SPANS):
            starts = np.array([number for where, number in named if where == spans], np.int64)
            if len(starts):
                yield Places(code=code, field=spans, start=starts, length=np.ones_like(starts))
        return
    runs = np.append(finding.first_of_runs(), len(finding.failing))[: _PLACES + 1]
    elements, lengths = finding.failing[runs[:-1]], np.diff(runs)
    datum = int(finding.rows()[0])
    tensor = batch.columns.inputs.get(field)
    if at == "span" and field not in (INPUT_SPANS, TARGET_SPANS):  # the positions that it covers
        starts = batch.span_starts(field)[elements] - batch.columns.offsets[datum]
        lengths = batch.spans(field).length[elements]
    elif at == "element" and tensor is not None and tensor.coordinates is not None:
        starts = tensor.coordinates[elements]
    else:
        starts = elements - offsets(batch, at, field)[datum]
    yield Places(code=code, field=field, start=starts, length=lengths)


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
