"""A datum and its spans as HTML for notebooks, of bounded size however long the datum is.

A column is a position of the full sequence: input i stands at position i, target i and everything that
belongs to it at position i + 1. So in a sound datum equal tokens stand above each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final

from provenance._html import FAINT, PROMPT, SAMPLED, cell, element, table, text_of
from provenance._text import count
from provenance.models.chunks import EncodedTextChunk, ModelInput
from provenance.models.tensor import TensorData

if TYPE_CHECKING:
    from provenance.models.datum import Datum
    from provenance.models.spans import ProvenanceSpan

__all__ = ["datum_to_html", "span_to_html"]

_FIRST: Final = ("target_tokens", "logprobs", "advantages", "weights")
#: Columns of a datum that is shown whole.
_WHOLE: Final = 32
#: Of a longer one: the edges of spans that are shown, and positions before and after each.
_EDGES, _NEAR = 8, 2
#: Loss inputs that have a row each, and those whose names are told.
_ROWS, _NAMED = 6, 12
#: Characters of a name.
_NAME: Final = 40
_COLOURS: Final = {"prompt": PROMPT, "sampled": SAMPLED}
#: What stands for the positions that are not shown.
_GAP: Final = None


def span_to_html(span: ProvenanceSpan) -> str:
    """One span: its kind, the sequence, and which of its positions."""
    kind = element("b", span.type, f"{_COLOURS[span.type]};padding:.1em .5em;border-radius:.3em")
    of = "the prompt of " if span.type == "prompt" else ""
    where = f"[{span.offset:,}:{span.offset + span.length:,}] of {of}"
    sequence = element("code", text_of(repr(span.sequence_id)))
    return element("span", f"{kind} {where}{sequence}, {count(span.length, 'position')}")


def datum_to_html(datum: Datum) -> str:
    """A datum: how large it is, and its positions in columns; of a long one those at the edges of spans."""
    inputs = _in_order(datum)
    spans = [datum.model_input_spans, datum.loss_fn_input_spans]
    parts = ["no spans"] if None in spans else [count(sum(len(side or ()) for side in spans), "span")]
    length = datum.model_input.known_length
    size = "unknown length" if length is None else count(length, "position")
    named = [f"{text_of(name, _NAME)} {_kind_of(tensor)}" for name, tensor in inputs[:_NAMED]]
    if len(inputs) > _NAMED:
        named.append(f"{len(inputs) - _NAMED:,} more")
    head = f"<b>Datum</b>: {', '.join([size, *parts])}; loss inputs: {', '.join(named) or 'none'}"
    strip = "" if length is None else _strip(datum, length, inputs)
    return element("div", element("div", head) + strip)


def _in_order(datum: Datum) -> list[tuple[str, TensorData]]:
    def place(item: tuple[str, TensorData]) -> tuple[int, str]:
        name = item[0]
        return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name

    return sorted(datum.loss_fn_inputs.items(), key=place)


def _kind_of(tensor: TensorData) -> str:
    sparse = "" if tensor.sparse_crow_indices is None else "sparse "
    return f"{sparse}{tensor.dtype}[{text_of('x'.join(map(str, tensor.shape)), _NAME)}]"


def _strip(datum: Datum, length: int, inputs: Iterable[tuple[str, TensorData]]) -> str:
    vectors = [(name, t) for name, t in inputs if t.sparse_crow_indices is None and len(t.shape) == 1][:_ROWS]
    sides = [
        ("input spans", list(accumulate(s.length for s in datum.model_input_spans or ())), 0),
        ("target spans", list(accumulate(s.length for s in datum.loss_fn_input_spans or ())), 1),
    ]
    size = max([length, *(tensor.shape[0] + 1 for _, tensor in vectors)])
    edges = sorted({0, size, *(end + shift for _, ends, shift in sides for end in ends[:-1] if end < size)})
    columns = _columns(size, edges)
    rows = [_lane("position", columns, lambda p: f"{p:,}" if p < size else None, style=FAINT)]
    for (label, ends, shift), spans in zip(
        sides, (datum.model_input_spans, datum.loss_fn_input_spans), strict=True
    ):
        if spans:
            rows.append(_span_lane(label, columns, spans, ends, shift))
        if shift == 0:
            rows.append(_lane("input", columns, _tokens_of(datum.model_input)))
    rows += [_lane(text_of(name, _NAME), columns, _values_of(tensor)) for name, tensor in vectors]
    return table(rows)


def _columns(size: int, edges: Sequence[int]) -> list[int | None]:
    """The positions to show, with `_GAP` where some are left out."""
    if size <= _WHOLE:
        return list(range(size))
    shown = edges if len(edges) <= _EDGES else [*edges[: _EDGES - 2], *edges[-2:]]
    near = sorted({p for edge in shown for p in range(edge - _NEAR, edge + _NEAR) if 0 <= p < size})
    columns: list[int | None] = []
    for position in near:
        if columns and columns[-1] != position - 1:
            columns.append(_GAP)
        columns.append(position)
    return columns


def _lane(
    label: str, columns: Iterable[int | None], shown: Callable[[int], str | None], style: str = ""
) -> list[str]:
    """A row of one cell a column."""
    texts = ("…" if p is _GAP else shown(p) or "" for p in columns)
    return [cell(label, head="row"), *(cell(text, style) for text in texts)]


def _span_lane(
    label: str, columns: list[int | None], spans: Sequence[ProvenanceSpan], ends: Sequence[int], shift: int
) -> list[str]:
    """A row of one cell a span, as wide as what is shown of it."""

    def owner(position: int) -> int | None:
        index = position - shift
        return bisect_right(ends, index) if 0 <= index < ends[-1] else None

    owners: list[int | str | None] = ["…" if p is _GAP else owner(p) for p in columns]
    for i, found in enumerate(owners):
        if found == "…" and owners[i - 1] == owners[i + 1]:
            owners[i] = owners[i - 1]  # a gap within one span
    cells = []
    for found, group in groupby(owners):
        wide = len(list(group))
        if isinstance(found, int):
            span = spans[found]
            where = f"[{span.offset:,}:{span.offset + span.length:,}]"
            name = f"<b>{span.type}</b> {text_of(span.sequence_id, _NAME)}{where}"
            cells.append(cell(name, _COLOURS[span.type], columns=wide))
        else:
            cells.append(cell(found or "", columns=wide))
    return [cell(label, head="row"), *cells]


def _tokens_of(given: ModelInput) -> Callable[[int], str | None]:
    ends = list(accumulate(chunk.length for chunk in given.chunks))

    def token(position: int) -> str | None:
        if not ends or position >= ends[-1]:
            return None
        at = bisect_right(ends, position)
        chunk = given.chunks[at]
        if not isinstance(chunk, EncodedTextChunk):
            return element("i", chunk.type)
        return str(chunk.tokens[position - ends[at]])  # counted from the chunk's end

    return token


def _values_of(tensor: TensorData) -> Callable[[int], str | None]:
    def value(position: int) -> str | None:
        if not 0 < position <= tensor.shape[0]:
            return None
        number = tensor.data[position - 1].item()
        return str(number) if tensor.dtype == "int64" else f"{number:.4g}"

    return value
