"""Room for images that do not say how many positions they take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenance.columns import TARGETS, UNKNOWN_LENGTH, Columns, Ints, offsets_of


def with_room(columns: Columns) -> Columns:
    """Give images of unknown length the positions that loss inputs leave for them, where there are no spans.

    Without spans such an image is fine (TOK003), and everything but its length can be checked. The room goes
    to the first of a datum's images; their chunks still have no length.
    """
    unknown = (columns.chunks.length == UNKNOWN_LENGTH).nonzero()[0]
    if not len(unknown):
        return columns
    row, first = np.unique(np.searchsorted(columns.chunks.offsets, unknown, "right") - 1, return_index=True)
    spanned = columns.input_spans.present[row] | columns.target_spans.present[row]
    row, chunk = row[~spanned], unknown[first[~spanned]]
    room = np.maximum(_rows(columns)[row] - np.diff(columns.offsets)[row], 0)
    # Only chunks of known length are before the first of unknown length.
    before = offsets_of(columns.chunks.length.clip(0))
    at = columns.offsets[row] + before[chunk] - before[columns.chunks.offsets[row]]
    added = np.zeros(len(columns), np.int64)
    added[row] = room
    places = np.repeat(at, room)
    text = np.ones(columns.positions, np.bool_) if columns.text is None else columns.text
    null = columns.null_tokens
    return replace(
        columns,
        offsets=columns.offsets + offsets_of(added),
        tokens=np.insert(columns.tokens, places, -1),
        text=np.insert(text, places, False),
        null_tokens=None if null is None else np.insert(null, places, False),
    )


def _rows(columns: Columns) -> Ints:
    """(n,): rows of each datum's loss inputs, by its targets if it has them; 0 where none can be trusted.

    Rows without values are none to go by: a shape of a few bytes can claim any number of them.
    """
    rows = np.zeros(len(columns), np.int64)
    for name in sorted(
        columns.inputs, key=lambda name: (name == TARGETS, name)
    ):  # targets come last, and stay
        tensor = columns.inputs[name]
        usable = tensor.present & tensor.sound & (tensor.rank > 0) & (tensor.width > 0)
        rows[usable] = tensor.rows[usable]
    return rows
