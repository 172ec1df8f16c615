"""The two span lists of an Arrow batch, and the sequence ids that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from provenance.columns import NO_SEQUENCE, OTHER_KIND, Mask, Spans
from provenance.formats._arrow_arrays import NULL_TEXT, field_of, integers, lists_of, texts, validity
from provenance.formats._datums import SPAN_KINDS
from provenance.formats._problem import shown


def spans_of(columns: tuple[Any, Any], readable: Mask) -> tuple[tuple[Spans, Spans], tuple[str, ...]]:
    """Read both span lists of the readable datums, and the ids that ``Spans.sequence`` points at."""
    numbers: dict[str, int] = {}
    first, second = (_spans(column, readable, numbers) for column in columns)
    return (first, second), tuple(numbers)


def _spans(column: Any, readable: Mask, numbers: dict[str, int]) -> Spans:
    lists = lists_of(column, readable)
    raw = _RawSpans(lists.elements)
    # Python sees each distinct id of the batch once, and no span.
    named = [numbers.setdefault(word, len(numbers)) for word in raw.sequence.values]
    kinds = [SPAN_KINDS.get(word, OTHER_KIND) for word in raw.kind.values]
    return Spans(
        present=lists.present,
        offsets=lists.offsets,
        kind=np.array([*kinds, OTHER_KIND], np.uint8)[raw.kind.codes],
        sequence=np.array([*named, NO_SEQUENCE], np.int64)[raw.sequence.codes],
        start=raw.start,
        length=raw.length,
        notes=raw.notes(),
    )


class _RawSpans:
    """The spans of a batch as their Arrow struct has them, s in all; what a null had is 0 or no text."""

    def __init__(self, struct: Any) -> None:
        self.exists = validity(struct)
        self.kind = texts(field_of(struct, "type"), self.exists)
        self.sequence = texts(field_of(struct, "sequence_id"), self.exists)
        start, _ = integers(field_of(struct, "offset"))
        length, self.length_valid = integers(field_of(struct, "length"))
        if self.exists is not None:
            start, length = np.where(self.exists, start, 0), np.where(self.exists, length, 0)
        self.start, self.length = start, length

    def notes(self) -> dict[int, str]:
        """Span -> why it has no sound value, worded as for a datum of JSON."""
        found: dict[int, list[str]] = {}
        for failing, reason in self._checks():
            for span in np.flatnonzero(failing).tolist():
                found.setdefault(span, []).append(reason if isinstance(reason, str) else reason(span))
        return {span: ", ".join(reasons) for span, reasons in sorted(found.items())}

    def _checks(self) -> Iterator[tuple[Mask, str | Callable[[int], str]]]:
        exists: Mask | bool = True
        if self.exists is not None:
            exists = self.exists
            yield ~self.exists, "the span is null"
        yield exists & (self.kind.codes == NULL_TEXT), "type is null"
        unknown = np.array([*(word not in SPAN_KINDS for word in self.kind.values), False])
        yield unknown[self.kind.codes], lambda span: f"type is {shown(self.kind.word(span))}"
        yield exists & (self.sequence.codes == NULL_TEXT), "sequence_id is null"
        if self.length_valid is not None:
            yield exists & ~self.length_valid, "length is null"
