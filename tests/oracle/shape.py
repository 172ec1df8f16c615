"""Whether a datum has a shape at all: FMT004, INP001-INP006, TOK003, SPN001, SPN003-SPN005."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from oracle.datum import NO_TEXT, Claim, Plain, Span, Tensor
from oracle.mistyped import is_there, mistyped
from oracle.world import (
    CLIP,
    INPUT_SPANS,
    REQUIRED,
    SPAN_LISTS,
    TARGET_SPANS,
    TARGETS,
    Json,
    float32,
    is_integer,
    takes,
)

Fault = tuple[str, str | None, int | None, str | None]
"""Code, field, index (of a span or chunk), sequence id."""


def shape(datum: Any, row: int, loss: str) -> tuple[list[Fault], Plain | None]:
    """The gates that a datum fails, or the datum as the other rules see it."""
    faults: list[Fault] = [("FMT004", path, None, None) for path in mistyped(datum)]
    if faults:
        return faults, None
    chunks = datum["model_input"]["chunks"]
    given = {name: tensor for name, tensor in datum["loss_fn_inputs"].items() if is_there(tensor)}
    has_spans = any(datum.get(name) is not None for name in SPAN_LISTS)

    faults += [("INP001", name, None, None) for name in REQUIRED[loss] if name not in given]
    taken = {name: tensor for name, tensor in given.items() if loss == "custom" or name in takes(loss)}
    faults += [("INP003", n, None, None) for n, t in taken.items() if not _dtype_fits(n, t, loss)]
    wrong_rank = {n for n, t in taken.items() if not _rank_fits(t, loss)}
    faults += [("INP004", name, None, None) for name in wrong_rank]

    held = [len(c["tokens"]) if c["type"] == "encoded_text" else c.get("expected_tokens") for c in chunks]
    unknown = [i for i, positions in enumerate(held) if positions is None]
    if has_spans:
        faults += [("TOK003", "model_input", i, None) for i in unknown]
    # Without spans, an image that does not say its length has what the loss inputs leave for it.
    length = sum(positions or 0 for positions in held)
    room = max(_rows(given) - length, 0) if unknown and not has_spans else 0
    length += room
    if length == 0 and not unknown:
        faults.append(("INP006", "model_input", None, None))
    judged = not (unknown and has_spans)
    wrong_length = {
        name
        for name, tensor in taken.items()
        if name not in wrong_rank and judged and _shape_of(tensor) and _shape_of(tensor)[0] != length
    }
    faults += [("INP005", name, None, None) for name in wrong_length]

    spans: dict[str, list[Span]] | None = None
    if has_spans:
        there = [name for name in SPAN_LISTS if datum.get(name) is not None]
        if len(there) == 1:
            faults.append(("SPN001", TARGET_SPANS, None, None))
        spans = {}
        for name in there:
            broken = [i for i, span in enumerate(datum[name]) if not _is_span(span)]
            for i in broken:
                named = (datum[name][i] or {}).get("sequence_id")
                faults.append(("SPN005", name, i, named if isinstance(named, str) else None))
            if broken:
                continue
            spans[name] = _placed(datum[name])
            covered = sum(span.length for span in spans[name])
            if name == INPUT_SPANS:
                if judged and not wrong_length and covered != length:
                    faults.append(("SPN003", name, None, None))
            elif TARGETS in given and not wrong_rank and covered != _shape_of(given[TARGETS])[0]:
                faults.append(("SPN004", name, None, None))
    if faults:
        return faults, None
    plain = Plain(
        row=row,
        tokens=[
            token
            for i, chunk in enumerate(chunks)
            for token in _positions(chunk) + [NO_TEXT] * (room if [i] == unknown[:1] else 0)
        ]
        if loss != "custom"
        else [],
        length=length,
        measured=not unknown,
        chunks=chunks,
        inputs={name: _tensor(tensor) for name, tensor in given.items()},
        spans=spans,
    )
    for name, listed in (spans or {}).items():
        plain.claims[name] = [
            Claim(span.kind, span.sequence_id, span.offset + k, i)
            for i, span in enumerate(listed)
            for k in range(span.length)
        ]
    return [], plain


def _dtype_fits(name: str, tensor: Json, loss: str) -> bool:
    dtype = tensor["dtype"]
    if dtype not in ("int64", "float32"):
        return False
    if dtype == "int64" and not all(v is None or _fits_int64(v) for v in tensor["data"]):
        return False
    if name == TARGETS:
        return dtype == "int64"
    return loss == "custom" or dtype == "float32" or name not in ("logprobs", *CLIP)


def _fits_int64(value: float) -> bool:
    return (is_integer(value) or value.is_integer()) and -(2**63) <= value < 2**63


def _shape_of(tensor: Json) -> tuple[int, ...]:
    stated = tensor.get("shape")
    return (len(tensor["data"]),) if stated is None else tuple(stated)


def _rows(given: dict[str, Json]) -> int:
    """Rows of the targets, or of the last other input by name; those without values are none."""
    rows = 0
    for name in sorted(given, key=lambda name: (name == TARGETS, name)):
        size = _shape_of(given[name])
        if size and _rank_fits(given[name], "custom") and math.prod(size[1:]) > 0:
            rows = size[0]
    return rows


def _rank_fits(tensor: Json, loss: str) -> bool:
    allowed = (0, 1, 2) if loss == "custom" else (1, 2) if loss == "cross_entropy" else (1,)
    rows = _shape_of(tensor)
    if len(rows) not in allowed or any(size < 0 for size in rows):
        return False
    crow, columns = tensor.get("sparse_crow_indices"), tensor.get("sparse_col_indices")
    if crow is None and columns is None:
        return math.prod(rows) == len(tensor["data"])
    return (
        crow is not None
        and columns is not None
        and len(rows) == 2
        and len(crow) == rows[0] + 1
        and crow[0] == 0
        and all(a <= b for a, b in pairwise(crow))
        and crow[-1] == len(columns) == len(tensor["data"])
        and all(0 <= column < rows[1] for column in columns)
        and all(sorted({*columns[a:b]}) == columns[a:b] for a, b in pairwise(crow))
    )


def _is_span(span: Json | None) -> bool:
    if span is None:
        return False
    offset = span.get("offset")
    return (
        span.get("type") in ("prompt", "sampled")
        and isinstance(span.get("sequence_id"), str)
        and span["sequence_id"] != ""
        and (offset is None or (is_integer(offset) and 0 <= offset < 2**63))
        and is_integer(span.get("length"))
        and 0 <= span["length"] < 2**63
    )


def _placed(spans: list[Json]) -> list[Span]:
    placed, start = [], 0
    for span in spans:
        placed.append(Span(span["type"], span["sequence_id"], span.get("offset") or 0, span["length"], start))
        start += span["length"]
    return placed


def _tensor(tensor: Json) -> Tensor:
    values = [
        None if value is None else float32(value) if tensor["dtype"] == "float32" else int(value)
        for value in tensor["data"]
    ]
    size = _shape_of(tensor)
    crow = tensor.get("sparse_crow_indices")
    if crow is not None:
        cells = [
            (i, tensor["sparse_col_indices"][at])
            for i in range(size[0])
            for at in range(crow[i], crow[i + 1])
        ]
    else:
        columns = size[1] if len(size) == 2 else 1
        cells = [divmod(at, columns) for at in range(len(values))]
    return Tensor(tensor["dtype"], size, values, cells)


def _positions(chunk: Json) -> list[Any]:
    return (
        chunk["tokens"]
        if chunk["type"] == "encoded_text"
        else [NO_TEXT] * (chunk.get("expected_tokens") or 0)
    )
