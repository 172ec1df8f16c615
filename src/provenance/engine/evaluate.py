"""Run rules over one batch: which elements fail, and how many were judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from provenance.columns import Ints, Mask, distinct
from provenance.loss_spec import LossSpec
from provenance.report import Count
from provenance.rules import Batch, Level, Rule, Verdict
from provenance.rules._rule import EVERY_INPUT, REQUIRED_INPUTS
from provenance.rules._sides import side_of

#: Levels whose elements do not belong to a datum.
GLOBAL_LEVELS = ("record", "dataset", "config", "file")
_NONE: Final = np.zeros(0, np.int64)


# Not frozen: a batch has one for each rule and field, and a frozen one takes three times as long to make.
@dataclass(slots=True, eq=False)
class Finding:
    """One rule's result over one field of a batch."""

    rule: Rule
    field: str
    batch: Batch
    failing: Ints
    """Numbers of the failing elements, ascending."""
    judged: int
    skipped: Ints
    """Numbers of the elements that it applies to and that were not judged, for a rule that it is given."""
    elements: Ints
    """Numbers of the judged elements, of a rule that remembers earlier batches; empty for the others."""

    def rows(self) -> Ints:
        """The datum of each failing element, as its number in the batch."""
        return rows_of(self.batch, self.rule.at, self.field, self.failing)

    def datums(self) -> Ints:
        """The distinct datums of the failing elements, as their numbers in the file."""
        return self.batch.columns.row[distinct(self.rows())]

    def naming(self) -> tuple[Ints, Ints]:
        """Of a rule about records: datums that name a failing one, by their numbers in the file, and it."""
        pairs = self.batch.pairs
        found = np.isin(pairs.sequence, self.failing).nonzero()[0]
        return self.batch.columns.row[pairs.row[found]], pairs.sequence[found]

    def first_of_runs(self) -> Ints:
        """Indices into ``failing`` at which violations start: a contiguous run of a datum, or one element."""
        if self.rule.at not in ("position", "element") or len(self.failing) < 2:
            return np.arange(len(self.failing))
        rows, places = self.rows(), self.failing
        tensor = self.batch.columns.inputs.get(self.field)
        if tensor is not None and tensor.coordinates is not None and self.rule.at == "element":
            places = tensor.coordinates[self.failing]  # stored side by side is not side by side
        breaks = (np.diff(places) != 1) | (np.diff(rows) != 0)
        return np.concatenate([[0], np.flatnonzero(breaks) + 1])

    def count(self) -> Count:
        """Violations and elements; the datums are left to whoever joins the fields of a rule."""
        return Count(0, len(self.first_of_runs()), len(self.failing))


class Evaluated(NamedTuple):
    """What rules say of a batch."""

    notable: list[Finding]
    """Those that failed somewhere, and those of rules that look at the whole dataset, whatever they found."""
    checked: dict[str, int]
    """Code -> elements that the rule judged."""


def evaluate(batch: Batch, rules: tuple[Rule, ...]) -> Evaluated:
    """Judge a batch by rules, each after those it is given."""
    notable: list[Finding] = []
    broken: dict[str, list[Finding]] = {}
    checked: dict[str, int] = {}
    names = (batch.loss, batch.inputs, tuple(batch.columns.inputs), tuple(batch.config))
    for rule, fields in _fields(rules, *names):
        in_doubt = not broken.keys().isdisjoint(rule.given)
        findings = [
            _judge(batch, rule, field, _excluded(batch, rule, field, broken) if in_doubt else None)
            for field in fields
        ]
        if findings and rule.at != "dataset":  # which is judged once, at the end
            checked[rule.code] = sum(finding.judged for finding in findings)
        if rule.remembers or rule.at == "dataset":
            notable += findings
        else:
            notable += [finding for finding in findings if len(finding.failing)]
        for finding in findings:
            if len(finding.failing) or len(finding.skipped):
                broken[rule.code] = findings
    return Evaluated(notable, checked)


@lru_cache(maxsize=64)
def _fields(
    rules: tuple[Rule, ...],
    loss: LossSpec,
    looked_at: frozenset[str] | None,
    inputs: tuple[str, ...],
    config: tuple[str, ...],
) -> list[tuple[Rule, Sequence[str]]]:
    """The fields that rules range over, in a batch with these inputs and options."""
    return [(rule, _fields_of(rule, loss, looked_at, inputs, config)) for rule in rules]


def _fields_of(
    rule: Rule,
    loss: LossSpec,
    looked_at: frozenset[str] | None,
    inputs: tuple[str, ...],
    config: tuple[str, ...],
) -> Sequence[str]:
    over = rule.over
    if rule.at == "config":
        return config if over == EVERY_INPUT else [f for f in over if f in config and f in loss.config]
    if over == EVERY_INPUT:
        # In an order that does not depend on which datum of a batch comes first.
        known = (*loss.required, *loss.optional)
        return sorted(inputs, key=lambda f: (known.index(f) if f in known else len(known), f))
    if over == REQUIRED_INPUTS:
        return [f for f in loss.required if looked_at is None or f in looked_at]
    if rule.at in ("sequence", "record"):
        return over
    # What a loss does not take is INP002's alone.
    return [f for f in over if f in _STRUCTURE or (f in inputs and loss.takes(f))]


_STRUCTURE = ("model_input", "model_input_spans", "loss_fn_input_spans")


def _judge(batch: Batch, rule: Rule, field: str, excluded: Mask | None) -> Finding:
    if rule.judge is None:
        raise TypeError(f"rule {rule.code} has no body")
    if excluded is not None and rule.at == "config" and excluded.all():  # an option may be anything
        return Finding(rule, field, batch, _NONE, 0, np.zeros(1, np.int64), _NONE)
    result = rule.judge(batch, field)
    valid, applies = result if isinstance(result, Verdict) else (result, None)
    skipped = _NONE
    if excluded is not None:
        skipped = (excluded if applies is None else excluded & applies).nonzero()[0]
        applies = ~excluded if applies is None else applies & ~excluded
    failing = _NONE if valid is None else (~valid if applies is None else applies > valid).nonzero()[0]
    judged = size(batch, rule.at, field) if applies is None else int(np.count_nonzero(applies))
    elements = _NONE
    if rule.remembers:
        elements = np.arange(judged) if applies is None else applies.nonzero()[0]
    return Finding(rule, field, batch, failing, judged, skipped, elements)


def size(batch: Batch, level: Level, field: str) -> int:
    """Number of elements of a level."""
    if level == "sequence":
        return len(batch.pairs.row)
    if level == "record":
        return len(batch.table)
    if level in ("dataset", "config", "file"):
        return 1
    if level == "datum":
        return len(batch.columns)
    return int(offsets(batch, level, field)[-1])


def offsets(batch: Batch, level: Level, field: str) -> Ints:
    """Where each datum's elements start, for the levels between a datum and its positions."""
    if level == "chunk":
        return batch.columns.chunks.offsets
    if level == "span":
        return batch.spans(field).offsets
    if level == "element" and field in batch.columns.inputs:
        return batch.tensor(field).offsets
    return batch.columns.offsets


def rows_of(batch: Batch, level: Level, field: str, elements: Ints) -> Ints:
    """The datum each element belongs to."""
    if level == "datum":
        return elements
    if level == "sequence":
        return batch.pairs.row[elements]
    if level in GLOBAL_LEVELS:
        return np.zeros(0, np.int64)
    rows: Ints = np.searchsorted(offsets(batch, level, field), elements, "right") - 1
    return rows


def _excluded(batch: Batch, rule: Rule, field: str, found: Mapping[str, list[Finding]]) -> Mask | None:
    """Elements that are not judged because a rule that this one is given does not hold; None for none.

    A rule that was not judged itself does not hold either; but gates are judged whatever else was not.
    """
    excluded: Mask | None = None
    for code in rule.given:
        for finding in _relevant(found.get(code, []), field):
            for failing in (finding.failing,) if rule.gate else (finding.failing, finding.skipped):
                if len(failing):
                    more = _project(batch, replace(finding, failing=failing), rule.at, field)
                    excluded = more if excluded is None else excluded | more
    return excluded


def _relevant(findings: list[Finding], field: str) -> list[Finding]:
    """The findings that bear on a field: its own; else those of its side of the datum; else all."""
    own = [f for f in findings if f.field == field]
    if own or not findings:
        return own
    if findings[0].rule.at in ("sequence", "record", "datum"):
        return findings
    return [f for f in findings if side_of(f.field) == side_of(field)] or findings


def _project(batch: Batch, finding: Finding, level: Level, field: str) -> Mask:
    """The elements of a level that a failing element of another level touches."""
    failing, at = finding.failing, finding.rule.at
    touched = np.zeros(size(batch, level, field), np.bool_)
    same_side = side_of(finding.field) == side_of(field)
    if at == level and (
        finding.field == field
        or level in ("datum", "sequence")
        or (level in ("position", "span") and same_side)
    ):
        touched[failing] = True
    elif at in ("sequence", "record") and level in ("span", "position"):
        of_span = batch.pairs.of_input_span if side_of(field) == "input" else batch.pairs.of_target_span
        if at == "record":
            of_span = batch.spans(field).sequence
        spans = np.isin(of_span, failing)
        return spans if level == "span" else batch.over_spans(field, spans)
    elif at == "span" and level == "position" and same_side:
        spans = np.zeros(len(batch.spans(field).kind), np.bool_)
        spans[failing] = True
        return batch.over_spans(field, spans)
    elif at in ("position", "element") and level in ("position", "span") and same_side:
        positions = _positions(batch, finding)
        if level == "position":
            touched[positions] = True
        else:
            starts = batch.span_starts(field)
            ends = starts + batch.spans(field).length
            touched = np.searchsorted(positions, starts) < np.searchsorted(positions, ends)
    elif at in ("position", "element") and level == "span" and side_of(field) == "target":
        return batch.any_in_contexts(batch.mark(_positions(batch, finding)))
    elif level not in GLOBAL_LEVELS:
        rows = np.zeros(len(batch.columns), np.bool_)
        rows[finding.rows()] = True
        touched = rows[rows_of(batch, level, field, np.arange(len(touched)))]
    return touched


def _positions(batch: Batch, finding: Finding) -> Ints:
    """The positions of failing elements, ascending."""
    if finding.rule.at == "element" and finding.field in batch.columns.inputs:
        of_element = batch.position_of_elements(finding.field)
        if of_element is not None:
            return distinct(of_element[finding.failing])
    return finding.failing


def failed_datums(batch: Batch, findings: Iterable[Finding]) -> Mask:
    """(n,): the datum fails one of the findings."""
    failed = np.zeros(len(batch.columns), np.bool_)
    for finding in findings:
        if len(finding.failing) and finding.rule.at not in GLOBAL_LEVELS:
            failed[finding.rows()] = True
    return failed
