"""What was found in a part of a dataset. Parts that follow each other are joined: counts stay exact."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from provenance._text import quoted
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


def _place(example: Example) -> tuple[int | str, ...]:
    return example.place


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
        kept = self.examples.setdefault(code, [])
        for example in examples:  # mostly behind all that are there
            insort(kept, example, key=_place)
        del kept[limit:]

    def keeps(self, code: str, example: Example) -> bool:
        """Whether it is kept already."""
        kept, place = self.examples.get(code, []), example.place
        return example in kept[bisect_left(kept, place, key=_place) : bisect_right(kept, place, key=_place)]

    def violations(self) -> tuple[Violation, ...]:
        """The violations that are kept, by code and in the order of the data."""
        return tuple(example.violation for _, kept in sorted(self.examples.items()) for example in kept)


def join(first: Part, others: Iterable[Part], severities: Mapping[str, Severity], limit: int) -> Part:
    """The part that parts make up, each of which follows those before it and was looked at without them.

    Joining is associative, and takes work for what is in the parts, not for how many there are. What those
    before would have changed in a part is made good: a record counts once, and what must be unique is held
    against all that came before. Datums without a file are numbered through.

    Args:
        first: is not changed, nor are the others.
        others: parts that are no origin, taken one by one.
        severities: those of the contract.
        limit: examples of each rule to keep.
    """
    joined = Part(origin=first.origin)
    for part in chain([first], others):
        _add(joined, part, severities, limit)
    return joined


def _add(joined: Part, part: Part, severities: Mapping[str, Severity], limit: int) -> None:
    """Add the part that follows, of which nothing that can change is taken over."""
    before = joined.datums
    joined.datums += part.datums
    joined.positions += part.positions
    joined.bad_datums += part.bad_datums
    joined.unjudged += part.unjudged
    joined.unmeasured += part.unmeasured
    joined.ambiguous |= part.ambiguous
    joined.unknown |= part.unknown
    joined.conflicting |= part.conflicting
    joined.failed_files |= part.failed_files
    joined.checked.update(part.checked)
    joined.softened.update(part.softened)
    for key, holds in part.satisfied.items():
        joined.satisfied[key] = holds or joined.satisfied.get(key, False)
    for code, count in part.counts.items():
        joined.counts.setdefault(code, Count()).add(count)
    for file, found in part.files.items():
        joined.files.setdefault(file, FileCount()).add(found)
    for code, examples in part.examples.items():
        new = [e for e in examples if not (code in part.failing and joined.keeps(code, e))]
        joined.keep(code, [_after(before, example) for example in new], limit)
    _count_records_once(joined, part)
    _hold_against(joined, part, before, severities, limit)
    for mine, its in ((joined.seen, part.seen), (joined.failing, part.failing)):
        for code, keys in its.items():
            if code in mine:
                mine[code].update(keys)
            else:
                mine[code] = keys.copy()


def _count_records_once(joined: Part, part: Part) -> None:
    """Take back what was counted of records that came before; the joined part has not seen this one's yet."""
    for code, keys in part.seen.items():
        if code in joined.seen and registry()[code].at == "record":
            joined.checked[code] -= joined.seen[code].common(keys)
    for code, keys in part.failing.items():
        if code in joined.failing and code in joined.counts:
            common = joined.failing[code].common(keys)
            joined.counts[code].add(Count(0, -common, -common))


def _hold_against(
    joined: Part, part: Part, before: int, severities: Mapping[str, Severity], limit: int
) -> None:
    """Count what is unique in the part and came before as well; its sequences have not been added yet."""
    new: dict[str, list[Occurrence]] = {}
    newly_bad: dict[int, str | None] = {}
    for code, occurrences in part.occurrences.items():
        ids = [str(occurrence.location.sequence_id) for occurrence in occurrences]
        there = joined.seen[code].has(ids) if code in joined.seen else [False] * len(ids)
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
        joined.keep(code, [_after(before, example) for example in examples], limit)
    joined.bad_datums += len(newly_bad)
    for file in newly_bad.values():
        if file is not None:
            joined.files[file].bad_datums += 1
    if joined.origin:
        return
    for code, occurrences in new.items():
        joined.occurrences.setdefault(code, []).extend(
            Occurrence(
                place=(before + occurrence.place[0], occurrence.place[1]),
                location=_moved(before, occurrence.location),
                counted=occurrence.counted,
                bad=occurrence.bad or occurrence.place[0] in newly_bad,
            )
            for occurrence in occurrences
        )


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
    message = rule.message.format(id=quoted(occurrence.location.sequence_id))
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
