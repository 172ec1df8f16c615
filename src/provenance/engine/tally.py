"""Add what steps found to a part: exact counts, and what the batches before change in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from provenance.columns import Columns, Ints, distinct
from provenance.contract import Contract
from provenance.engine.evaluate import GLOBAL_LEVELS, Finding
from provenance.engine.judge import Judged
from provenance.engine.keys import KeySet
from provenance.engine.locate import mentions, names_of
from provenance.engine.part import Occurrence, Part
from provenance.engine.step import Step, place_of_mention
from provenance.report import Count, FileCount, Severity
from provenance.rules import registry

#: What readers find, in every datum that they read.
_READ: Final = ("FMT001", "FMT002", "FMT003", "FMT004")


class Tally:
    """The part of a run, which grows step by step."""

    def __init__(self, contract: Contract, part: Part) -> None:
        self.part = part
        self._severities = contract.severities
        self._judged: dict[frozenset[str], frozenset[str]] = {}

    def severity(self, code: str) -> Severity:
        """How much a rule weighs; OFF for a silenced gate."""
        return self._severities.get(code, Severity.OFF)

    def keep(self, step: Step, limit: int) -> None:
        """Keep violations of a step as examples, so that there are at most ``limit`` of each rule."""
        # Faults of whole files come first, and records are in the ledger's order.
        first = {fault.code for _, _, fault in step.faults if fault.row is None}
        for code in step.codes():
            kept = self.part.examples.get(code, [])
            if len(kept) < limit or code in first or registry()[code].at == "record":
                before = self.part.datums - (0 if step.judged is None else len(step.judged.columns))
                self.part.keep(code, step.examples(code, self.severity(code), limit, before=before), limit)

    def count(self, step: Step) -> Step:
        """Add a step to the totals; what silenced gates found is taken out of it."""
        if not step.findings and not step.faults and not step.checked and step.judged is None:
            return step
        self.part.checked.update(step.checked)
        findings = [f for f in map(self._in_dataset, step.findings) if f is not None]
        records = [f for f in step.findings if f.rule.at == "record" and len(f.failing)]
        file = None if step.judged is None else step.judged.columns.file
        datums: dict[str, list[Ints]] = {}
        for finding in findings:
            code = finding.rule.code
            if len(finding.failing):
                datums.setdefault(code, []).append(finding.datums())
                if self.severity(code) != Severity.OFF:
                    self._add(code, finding.count(), None if finding.rule.at in GLOBAL_LEVELS else file)
        for _, base, fault in step.faults:
            self.part.failed_files |= fault.row is None and step.judged is not None
            if fault.row is not None and step.judged is not None:
                datums.setdefault(fault.code, []).append(np.array([base + fault.row]))
            if self.severity(fault.code) != Severity.OFF:
                self._add(fault.code, Count(0, 1, 1), file)
        failed = {code: distinct(np.concatenate(rows)) for code, rows in datums.items()}
        bad = [rows for code, rows in failed.items() if self.severity(code) == Severity.ERROR]
        bad += [f.naming()[0] for f in records if self.severity(f.rule.code) == Severity.ERROR]
        for code, rows in failed.items():
            if len(rows) and self.severity(code) != Severity.OFF:  # findings about records have none
                self._add(code, Count(datums=len(rows)), file)
            if self.severity(code) != Severity.ERROR and registry()[code].gate:
                self.part.softened[code] += len(rows)
        bad_datums = len(distinct(np.concatenate(bad))) if bad else 0
        self.part.bad_datums += bad_datums
        if step.judged is not None:
            self._count_file(step.judged, bad_datums)
            self._note_occurrences(findings, step.judged.columns, bad)
            self._count_batch(step.judged, bad)
        return Step(
            [f for f in findings if self.severity(f.rule.code) != Severity.OFF],
            [f for f in step.faults if self.severity(f[2].code) != Severity.OFF],
            step.judged,
            records=[f for f in records if self.severity(f.rule.code) != Severity.OFF],
        )

    def _add(self, code: str, found: Count, file: str | None) -> None:
        self.part.counts.setdefault(code, Count()).add(found)
        if file is not None:
            in_file = self.part.files.setdefault(file, FileCount())
            in_file.counts.setdefault(code, Count()).add(found)

    def _count_file(self, judged: Judged, bad_datums: int) -> None:
        file = judged.columns.file
        if file is None:
            return
        codes = frozenset(code for code, elements in judged.checked.items() if elements).union(_READ)
        in_file = self.part.files.setdefault(file, FileCount())
        in_file.add(FileCount(len(judged.columns), bad_datums, {}, codes))
        # One set for all the files that have these.
        in_file.judged = self._judged.setdefault(in_file.judged, in_file.judged)

    def _in_dataset(self, finding: Finding) -> Finding | None:
        """A finding about a batch in view of the batches before; None where that is known at the end."""
        rule = finding.rule
        if rule.at == "dataset":
            if finding.judged:
                key = (rule.code, finding.field)
                self.part.satisfied[key] = self.part.satisfied.get(key, False) or not len(finding.failing)
            return None
        if not rule.remembers:
            return finding
        seen = self._keys(self.part.seen, rule.code)
        if rule.at == "record":
            before = finding.elements[seen.add(names_of(finding, finding.elements))]
            failing = _without(finding.failing, before)
            self._keys(self.part.failing, rule.code).add(names_of(finding, failing))
            self.part.checked[rule.code] -= len(before)
            return replace(finding, failing=failing, judged=finding.judged - len(before))
        firsts = _without(finding.elements, finding.failing)
        again = firsts[seen.add(names_of(finding, firsts))]
        return replace(finding, failing=np.union1d(finding.failing, again)) if len(again) else finding

    def _keys(self, of: dict[str, KeySet], code: str) -> KeySet:
        # What follows another part is joined, maybe by another process.
        return of.setdefault(code, KeySet(lasting=not self.part.origin))

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
        found = judged.passed.sequences
        if found is not None:
            part.ambiguous |= bool(found.ambiguous.any())
            part.unknown |= not found.known.all()
            part.conflicting |= bool(found.conflicting.any())
        for code in _READ:
            part.checked[code] += len(columns)
        passed = judged.passed.columns.row
        if len(passed) < len(columns):
            part.unjudged += len(columns) - len(distinct(np.concatenate([passed, *bad])))


def _without(elements: Ints, others: Ints) -> Ints:
    """The elements that are none of the others, ascending."""
    return np.setdiff1d(elements, others, assume_unique=True) if len(others) else elements
