"""Turn failing elements into violations: where each one is, and what to say about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from provenance._text import quoted
from provenance.columns import SAMPLED, Ints
from provenance.engine.evaluate import Finding, offsets, rows_of
from provenance.engine.keys import Name
from provenance.report import Location, Severity, Violation
from provenance.rules import Batch
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS, side_of


def violations(
    finding: Finding, severity: Severity, limit: int | None = None, *, runs: Sequence[int] | None = None
) -> Iterator[Violation]:
    """The violations of a finding in order: at most ``limit``, or those of the runs with these numbers."""
    starts = finding.first_of_runs()
    ends = np.append(starts[1:], len(finding.failing))[: len(starts)]
    rows = finding.rows()
    chosen = slice(limit) if runs is None else np.array(runs, np.int64)
    for start, end in zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True):
        row = int(rows[start]) if len(rows) else -1
        yield _violation(finding, int(finding.failing[start]), end - start, row, severity)


def failing_in(finding: Finding, row: int) -> Ints:
    """The failing elements of one datum, by its number in the file."""
    batch, at = finding.batch, finding.rule.at
    number = int(batch.columns.row.searchsorted(row))
    if number == len(batch.columns) or batch.columns.row[number] != row:
        return finding.failing[:0]
    if at == "datum":
        bounds = np.array([number, number + 1])
    elif at == "sequence":
        bounds = batch.pairs.row.searchsorted([number, number + 1])
    else:
        bounds = offsets(batch, at, finding.field)[number : number + 2]
    first, last = finding.failing.searchsorted(bounds).tolist()
    return finding.failing[first:last]


def records_in_order(finding: Finding) -> tuple[list[tuple[str, int, str, str]], Finding]:
    """Where the failing records are in the ledger, ascending, and the finding with its records so ordered."""
    table = finding.batch.table
    placed = sorted(
        (
            (table.file[i] or "", int(table.row[i]), str(table.session_id[i]), str(table.sequence_id[i])),
            i,
        )
        for i in finding.failing.tolist()
    )
    ordered = np.array([record for _, record in placed], np.int64)
    return [place for place, _ in placed], replace(finding, failing=ordered)


def names_of(finding: Finding, elements: Ints) -> list[Name]:
    """What tells the sequences, or the records, of a finding apart: the id, of records with the session."""
    batch = finding.batch
    if finding.rule.at == "record":
        table = batch.table
        return list(
            zip(table.session_id[elements].tolist(), table.sequence_id[elements].tolist(), strict=True)
        )
    return [batch.columns.ids[i] for i in batch.pairs.sequence[elements].tolist()]


def mentions(finding: Finding, pairs: Ints) -> Iterator[Location]:
    """Where datums mention sequences, for pairs of the two."""
    for pair, row in zip(pairs.tolist(), rows_of(finding.batch, "sequence", "", pairs).tolist(), strict=True):
        yield _locate(finding, pair, 1, row)[0]


def _violation(finding: Finding, element: int, length: int, row: int, severity: Severity) -> Violation:
    rule, batch, field = finding.rule, finding.batch, finding.field
    location, span = _locate(finding, element, length, row)
    values: dict[str, Any] = {
        "field": field,
        "value": _value(finding, element),
        "id": quoted(location.sequence_id),
    }
    if rule.detail is not None:
        values |= rule.detail(batch, field, element)
    message = rule.message.format(**values)
    if span is not None and rule.at == "span" and field in (INPUT_SPANS, TARGET_SPANS):
        if location.sequence_id is not None:
            message += f" (sequence {quoted(location.sequence_id)})"
    elif span is not None:
        message += f" ({_span_words(batch, field, span)})"
    return Violation(code=rule.code, name=rule.name, severity=severity, location=location, message=message)


def _locate(finding: Finding, element: int, length: int, row: int) -> tuple[Location, int | None]:
    """The place of a violation, and the span (on the field's side) that it lies under."""
    batch, field, at = finding.batch, finding.field, finding.rule.at
    if row < 0:
        return _record(batch, field, element) if at == "record" else Location(field=field or None), None
    columns = batch.columns
    datum = Location(
        file=columns.file,
        row=int(columns.row[row]),
        line=None if columns.line is None else int(columns.line[row]),
        field=field,
    )
    if at == "sequence":
        return _mention(batch, element, row, datum), None
    if at == "chunk":
        return replace(datum, index=element - int(columns.chunks.offsets[row]), length=1), None
    if at == "span":
        return _span(batch, element, row, datum), element
    if at == "datum":
        return datum, None
    position, index = _position(batch, at, field, element, row)
    span = _span_at(batch, field, position, row)
    sequence = None if span is None else _id(batch, field, span)
    return replace(datum, index=index, length=length, sequence_id=sequence), span


def _span(batch: Batch, span: int, row: int, datum: Location) -> Location:
    """A span of one of the lists, or the positions of another field that it covers."""
    spans, field = batch.spans(datum.field or ""), datum.field or ""
    sequence = _id(batch, field, span)
    if field in (INPUT_SPANS, TARGET_SPANS):
        return replace(datum, index=span - int(spans.offsets[row]), length=1, sequence_id=sequence)
    start = int(batch.span_starts(field)[span] - batch.columns.offsets[row])
    return replace(datum, index=start, length=int(spans.length[span]), sequence_id=sequence)


def _position(batch: Batch, at: str, field: str, element: int, row: int) -> tuple[int, int | tuple[int, int]]:
    """The position of an element in the batch, and its index in the datum's field."""
    first = int(batch.columns.offsets[row])
    if at == "position" or field not in batch.columns.inputs:
        return element, element - first
    tensor = batch.tensor(field)
    within = element - int(tensor.offsets[row])
    if tensor.coordinates is not None:
        within = int(tensor.coordinates[element])
    width = max(int(tensor.width[row]), 1)
    index = (within // width, within % width) if int(tensor.rank[row]) > 1 else within
    return first + within // width, index


def _span_at(batch: Batch, field: str, position: int, row: int) -> int | None:
    """The span, on a field's side, that covers a position; None without one."""
    spans, starts = batch.spans(field), batch.span_starts(field)
    for span in range(int(spans.offsets[row]), int(spans.offsets[row + 1])):
        if starts[span] <= position < starts[span] + spans.length[span]:
            return span
    return None


def _id(batch: Batch, field: str, span: int) -> str | None:
    sequence = int(batch.spans(field).sequence[span])
    return batch.columns.ids[sequence] if sequence >= 0 else None


def _span_words(batch: Batch, field: str, span: int) -> str:
    spans = batch.spans(field)
    row = int(np.searchsorted(spans.offsets, span, "right")) - 1
    kind = "sampled" if spans.kind[span] == SAMPLED else "prompt"
    return f"{kind} span {span - int(spans.offsets[row])} of sequence {quoted(_id(batch, field, span))}"


def _mention(batch: Batch, pair: int, row: int, datum: Location) -> Location:
    """A datum's first mention of a sequence, among the targets where it is named there."""
    sequence = int(batch.pairs.sequence[pair])
    named = replace(datum, sequence_id=batch.columns.ids[sequence])
    for field in (TARGET_SPANS, INPUT_SPANS):
        spans = batch.spans(field)
        start, stop = spans.offsets[row : row + 2].tolist()
        mentions = np.flatnonzero(spans.sequence[start:stop] == sequence)
        # Where sampled spans name it, these are what the rule is about.
        sampled = mentions[spans.kind[start:stop][mentions] == SAMPLED]
        if len(mentions):
            index = int(sampled[0] if len(sampled) else mentions[0])
            return replace(named, field=field, index=index, length=1)
    return named


def _record(batch: Batch, field: str, record: int) -> Location:
    table = batch.table
    line = int(table.line[record])
    row = int(table.row[record])
    return Location(
        # Of a list of records, so that its row is not taken for a datum's.
        file=table.file[record] or ("ledger" if row >= 0 else None),
        row=row if row >= 0 else None,
        line=line or None,
        field=field,
        sequence_id=table.sequence_id[record],
    )


def _value(finding: Finding, element: int) -> str | None:
    """The failing element's value, as a person writes it; None for levels that have none."""
    batch, field, at = finding.batch, finding.field, finding.rule.at
    if at == "config":
        return repr(batch.config[field])
    if at == "element" and field in batch.columns.inputs:
        return str(batch.tensor(field).values[element])
    if at in ("element", "position"):
        if side_of(field) == "input":
            return str(batch.columns.tokens[element])
        if field in batch.columns.inputs:
            return str(batch.at_positions(field)[element])
    return None
