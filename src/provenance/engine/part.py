"""What was found in a part of a dataset. Parts that follow each other are joined: counts stay exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from provenance.engine.keys import KeySet
from provenance.report import Count, FileCount, Location, Severity, Violation
from provenance.rules import registry

#: Place in the order of a dataset of what is about no datum of it.
NOWHERE = (-1,)


class Example(NamedTuple):
    """A violation, and what it is sorted by among those of its rule."""

    place: tuple[int | str, ...]
    """Of a datum its number in the part, of a record its place in the ledger."""
    violation: Violation


class Occurrence(NamedTuple):
    """The first place in a part at which a rule for what is unique met a sequence."""

    place: tuple[int, int]
    """Number of the datum in the part, and of the span."""
    location: Location
    counted: bool = False
    """The datum counts among those that break the rule, because of another sequence."""
    bad: bool = False
    """The datum counts among the bad ones."""


@dataclass(slots=True)
class Part:
    """Exact totals of a stretch of a dataset, and the first violations of each rule."""

    origin: bool = True
    """Nothing of the dataset comes before it."""
    datums: int = 0
    positions: int = 0
    bad_datums: int = 0
    unjudged: int = 0
    """Readable datums that no rule about content looked at though no error was reported for them."""
    unmeasured: int = 0
    """Datums that passed the gates with an image of unknown length."""
    ambiguous: bool = False
    """An id belongs to several sessions, and none of these is the training session."""
    unknown: bool = False
    """An id is not in the ledger."""
    conflicting: bool = False
    """An id has records in the ledger that conflict."""
    failed_files: bool = False
    """A file's columns are none of a datum: how many it holds is not known."""
    counts: dict[str, Count] = field(default_factory=dict)
    files: dict[str, FileCount] = field(default_factory=dict)
    """File -> what was found in its datums."""
    checked: Counter[str] = field(default_factory=Counter)
    softened: Counter[str] = field(default_factory=Counter)
    """Code of a gate that is no error -> datums that failed it."""
    satisfied: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Code and field of a rule about the dataset -> some batch satisfies it."""
    seen: dict[str, KeySet] = field(default_factory=dict)
    """Code -> the records it has judged, or the sequences that must be unique."""
    failing: dict[str, KeySet] = field(default_factory=dict)
    """Code of a rule about records -> those that break it."""
    occurrences: dict[str, list[Occurrence]] = field(default_factory=dict)
    """Code -> the first occurrence of each sequence that must be unique; none are kept in an origin."""
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def keep(self, code: str, examples: Iterable[Example], limit: int) -> None:
        """Keep the first ``limit`` violations of a rule, among those that are there and these."""
        kept = [*self.examples.get(code, ()), *examples]
        self.examples[code] = sorted(kept, key=lambda example: example.place)[:limit]

    def violations(self) -> tuple[Violation, ...]:
        """The violations that are kept, by code and in the order of the data."""
        return tuple(example.violation for _, kept in sorted(self.examples.items()) for example in kept)


def join(first: Part, second: Part, severities: Mapping[str, Severity], limit: int) -> Part:
    """The part that two make up, the second of which follows the first and was looked at without it.

    Joining is associative. What the first would have changed in the second is made good: a record counts
    once, and what must be unique is held against all that came before. Datums without a file are numbered
    through.

    Args:
        first: is not changed, nor is the second.
        second: a part that is no origin.
        severities: those of the contract.
        limit: examples of each rule to keep.
    """
    joined = Part(
        origin=first.origin,
        datums=first.datums + second.datums,
        positions=first.positions + second.positions,
        bad_datums=first.bad_datums + second.bad_datums,
        unjudged=first.unjudged + second.unjudged,
        unmeasured=first.unmeasured + second.unmeasured,
        ambiguous=first.ambiguous or second.ambiguous,
        unknown=first.unknown or second.unknown,
        conflicting=first.conflicting or second.conflicting,
        failed_files=first.failed_files or second.failed_files,
        checked=first.checked.copy(),
        softened=first.softened.copy(),
        satisfied=dict(first.satisfied),
    )
    joined.checked.update(second.checked)
    joined.softened.update(second.softened)
    for key, holds in second.satisfied.items():
        joined.satisfied[key] = holds or joined.satisfied.get(key, False)
    for part in (first, second):
        for code, count in part.counts.items():
            joined.counts.setdefault(code, Count()).add(count)
        for file, found in part.files.items():
            joined.files.setdefault(file, FileCount()).add(found)
        for mine, its in ((joined.seen, part.seen), (joined.failing, part.failing)):
            for code, keys in its.items():
                if code in mine:
                    mine[code].update(keys)
                else:
                    mine[code] = keys.copy()
    _count_records_once(joined, first, second)
    for code, examples in first.examples.items():
        joined.keep(code, examples, limit)
    for code, examples in second.examples.items():
        known = joined.examples.get(code, []) if code in second.failing else ()
        others = (example for example in examples if example not in known)
        joined.keep(code, [_after(first.datums, example) for example in others], limit)
    _hold_against(joined, first, second, severities, limit)
    return joined


def _count_records_once(joined: Part, first: Part, second: Part) -> None:
    for code, keys in second.seen.items():
        if code in first.seen and registry()[code].at == "record":
            joined.checked[code] -= first.seen[code].common(keys)
    for code, keys in second.failing.items():
        if code in first.failing and code in joined.counts:
            common = first.failing[code].common(keys)
            joined.counts[code].add(Count(0, -common, -common))


def _hold_against(
    joined: Part, first: Part, second: Part, severities: Mapping[str, Severity], limit: int
) -> None:
    """Count what is unique in the second part and in the first as well."""
    new: dict[str, list[Occurrence]] = {}
    newly_bad: dict[int, str | None] = {}
    for code, occurrences in second.occurrences.items():
        ids = [str(occurrence.location.sequence_id) for occurrence in occurrences]
        there = first.seen[code].has(ids) if code in first.seen else [False] * len(ids)
        repeated = [occurrence for occurrence, known in zip(occurrences, there, strict=True) if known]
        counted = {occurrence.place[0] for occurrence in repeated if not occurrence.counted}
        new[code] = [
            occurrence._replace(counted=occurrence.counted or occurrence.place[0] in counted)
            for occurrence, known in zip(occurrences, there, strict=True)
            if not known
        ]
        if not repeated:
            continue
        if severities[code] == Severity.ERROR:
            newly_bad |= {o.place[0]: o.location.file for o in repeated if not o.bad}
        joined.counts.setdefault(code, Count()).add(Count(len(counted), len(repeated), len(repeated)))
        _count_in_files(joined, code, repeated)
        examples = [_of_occurrence(code, severities[code], occurrence) for occurrence in repeated]
        joined.keep(code, [_after(first.datums, example) for example in examples], limit)
    joined.bad_datums += len(newly_bad)
    for file in newly_bad.values():
        if file is not None:
            joined.files[file].bad_datums += 1
    if first.origin:
        return
    joined.occurrences = dict(first.occurrences)
    for code, occurrences in new.items():
        joined.occurrences[code] = first.occurrences.get(code, []) + [
            Occurrence(
                place=(first.datums + occurrence.place[0], occurrence.place[1]),
                location=_moved(first.datums, occurrence.location),
                counted=occurrence.counted,
                bad=occurrence.bad or occurrence.place[0] in newly_bad,
            )
            for occurrence in occurrences
        ]


def _count_in_files(joined: Part, code: str, repeated: Iterable[Occurrence]) -> None:
    counted: set[int] = set()
    for occurrence in repeated:
        datum, file = occurrence.place[0], occurrence.location.file
        if file is not None:
            new = not occurrence.counted and datum not in counted
            joined.files[file].counts.setdefault(code, Count()).add(Count(int(new), 1, 1))
            counted.add(datum)


def _of_occurrence(code: str, severity: Severity, occurrence: Occurrence) -> Example:
    rule = registry()[code]
    message = rule.message.format(id=repr(occurrence.location.sequence_id))
    return Example(
        occurrence.place,
        Violation(
            code=code, name=rule.name, severity=severity, location=occurrence.location, message=message
        ),
    )


def _after(datums: int, example: Example) -> Example:
    """The example in a part that has so many datums before it."""
    number, *rest = example.place
    if not isinstance(number, int) or number < 0:  # about a record, or no datum at all
        return example
    location = _moved(datums, example.violation.location)
    return Example((datums + number, *rest), replace(example.violation, location=location))


def _moved(datums: int, location: Location) -> Location:
    """Rows of files are numbered by file, and others in the order of the dataset."""
    if location.file is not None or location.row is None:
        return location
    return replace(location, row=datums + location.row)
