"""The spans of a datum, as the page draws and names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Final

import numpy as np

from provenance.columns import NO_SEQUENCE, PROMPT, SAMPLED, Columns, Ints
from provenance.reports._lanes import Lane

#: Colours there are for sequences; the next ones begin anew.
_COLOURS: Final = 6
_KINDS: Final = {PROMPT: "prompt", SAMPLED: "sampled"}


@dataclass(frozen=True, slots=True)
class Span:
    """A span, or a stretch of positions that no span covers."""

    label: str = ""
    """Of its sequence, then kind and offsets: ``B prompt 13:55``."""
    style: str = "none"
    """Classes: its kind, and the colour of its sequence."""
    kind: str = ""


#: What stands where no span does.
NOTHING: Final = Span()


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """The spans of one field in order; ``starts`` and ``stops``, shape (n,), are positions."""

    starts: Ints
    stops: Ints
    spans: Sequence[Span]

    def at(self, position: int) -> Span:
        """The span over a position."""
        number = int(self.stops.searchsorted(position, "right"))
        return self.spans[number] if self.spans[number:] and self.starts[number] <= position else NOTHING


#: What a field without spans has.
NO_SPANS: Final = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@dataclass(slots=True)
class Names:
    """Short names of a datum's sequences, in the order in which its spans name them."""

    columns: Columns
    numbers: dict[int, int] = field(default_factory=dict)

    def number(self, sequence: int) -> int:
        """A sequence's number, from 0."""
        return self.numbers.setdefault(sequence, len(self.numbers))

    def items(self) -> Iterable[tuple[str, str, str]]:
        """Name, class of its colour, and id of each sequence."""
        for sequence, number in self.numbers.items():
            yield _letters(number), f"s{number % _COLOURS}", self.columns.ids[sequence]


def spans_of(lane: Lane, names: Names) -> Spans:
    """The spans that a lane of spans has as bands."""
    bands = [stretch for stretch in lane.stretches if stretch.shape == "band"]
    declared = names.columns.spans(lane.field)
    spans = []
    for i in range(len(bands)):
        kind, start, length = (int(a[i]) for a in (declared.kind, declared.start, declared.length))
        word, sequence = _KINDS.get(kind, "unknown"), int(declared.sequence[i])
        if sequence == NO_SEQUENCE:
            spans.append(Span(f"? {word} {start}:{start + length}", word, word))
        else:
            number = names.number(sequence)
            style = f"{word} s{number % _COLOURS}"
            spans.append(Span(f"{_letters(number)} {word} {start}:{start + length}", style, word))
    return Spans(_edges(band.start for band in bands), _edges(band.stop for band in bands), spans)


def _edges(positions: Iterable[int]) -> Ints:
    return np.fromiter(positions, np.int64)


def _letters(number: int) -> str:
    """A, B, ... Z, AA, AB, ..."""
    letters = ""
    while number >= 0:
        number, letter = divmod(number, 26)
        letters, number = ascii_uppercase[letter] + letters, number - 1
    return letters
