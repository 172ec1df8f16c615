"""The columns of an Arrow file of datums, which grow with what the datums need, and datums in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import CHUNK_KINDS, TARGETS, TEXT, Array, Ints, Mask, offsets_of
from provenance.formats._arrow_encode import Chunk, Encoded, Span, Values
from provenance.formats._arrow_schema import INPUT, INPUT_SPANS, INPUT_TOKENS, STRUCTURE, TARGET_SPANS
from provenance.formats._datums import LABELS
from provenance.formats._json import dumps
from provenance.formats._problem import RowError

_SPAN: Final = pa.struct(
    [("type", pa.string()), ("sequence_id", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]
)
_JSON: Final = {b"encoding": b"json"}


@dataclass(slots=True)
class _Input:
    """The column of a loss input."""

    integer: bool
    width: int | None
    """K of (N, K), None for (N,); of the first tensor, where they vary."""
    varies: bool = False
    """K differs between datums, so that each row of a tensor is a list of its own length."""
    empty: bool = False
    """Some tensor has no row, whose K nothing but the column's type can tell."""


class Layout:
    """The columns that the datums so far need, and datums in them."""

    def __init__(self) -> None:
        self.text_only = True
        self.token = pa.int32()
        self.labels: dict[str, Any] = {}
        """Name -> field."""
        self.inputs: dict[str, _Input] = {}

    def admit(self, row: Encoded) -> None:
        """Let the columns grow by what a datum needs.

        Raises:
            RowError: The datum does not fit into one file with those before it.
        """
        self.text_only = self.text_only and row.text_only
        if not _fits_int32(row.tokens):
            self.token = pa.int64()
        for label, value in row.labels.items():
            field = pa.field(label, pa.string() if isinstance(value, str) else pa.int64())
            if self.labels.setdefault(label, field).type != field.type:
                self.labels[label] = as_json(label)
        for name, values in row.inputs.items():
            column = self.inputs.get(name)
            if column is None:
                if name in STRUCTURE:
                    taken = "has the name of another column, so that Arrow cannot hold it"
                    raise RowError(row.number, f"loss_fn_inputs.{name}", taken)
                column = self.inputs[name] = _Input(values.integer, values.width)
            else:
                problem = _misfit(values, column)
                if problem is not None:
                    raise RowError(row.number, f"loss_fn_inputs.{name}", problem)
                column.varies = column.varies or values.width != column.width
            column.empty = column.empty or not values.rows

    @property
    def chunk(self) -> Any:
        """The type of a chunk."""
        return pa.struct(
            [
                ("type", pa.string()),
                ("tokens", pa.list_(self.token)),
                ("length", pa.int32()),
                ("data", pa.binary()),
                ("format", pa.string()),
                ("location", pa.string()),
            ]
        )

    @property
    def schema(self) -> Any:
        """The columns."""
        tokens = (INPUT_TOKENS, pa.list_(self.token)) if self.text_only else (INPUT, pa.list_(self.chunk))
        return pa.schema(
            [
                *(self.labels[label] for label in LABELS if label in self.labels),
                tokens,
                *((name, pa.list_(_row_type(name, column))) for name, column in self.inputs.items()),
                (INPUT_SPANS, pa.list_(_SPAN)),
                (TARGET_SPANS, pa.list_(_SPAN)),
            ]
        )

    def batch(self, rows: Sequence[Encoded]) -> Any:
        """Return datums that were admitted as a record batch."""
        schema = self.schema
        columns = [
            _label_column(self.labels[label], [row.labels.get(label) for row in rows])
            for label in LABELS
            if label in self.labels
        ]
        columns.append(self._model_input(rows))
        columns += [self._tensors(name, [row.inputs.get(name) for row in rows]) for name in self.inputs]
        columns += [_span_lists([row.spans[name] for row in rows]) for name in (INPUT_SPANS, TARGET_SPANS)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _model_input(self, rows: Sequence[Encoded]) -> Any:
        tokens = np.concatenate([row.tokens for row in rows])
        null = joined_masks([row.null_tokens for row in rows], [len(row.tokens) for row in rows])
        values = pa.array(tokens, self.token, mask=null)
        if self.text_only:
            return list_array(values, [len(row.tokens) for row in rows])
        chunks: list[Chunk] = [chunk for row in rows for chunk in row.chunks]
        is_text = np.array([chunk.kind == TEXT for chunk in chunks], np.bool_)
        fields = [
            pa.array([CHUNK_KINDS[chunk.kind] for chunk in chunks], pa.string()),
            list_array(values, [chunk.tokens for chunk in chunks], is_text),
            pa.array([chunk.length for chunk in chunks], pa.int32()),
            pa.array([chunk.data for chunk in chunks], pa.binary()),
            pa.array([chunk.format for chunk in chunks], pa.string()),
            pa.array([chunk.location for chunk in chunks], pa.string()),
        ]
        struct = pa.StructArray.from_arrays(fields, fields=list(self.chunk))
        return list_array(struct, [len(row.chunks) for row in rows])

    def _tensors(self, name: str, tensors: Sequence[Values | None]) -> Any:
        column = self.inputs[name]
        kind = _row_type(name, column)
        given = [tensor for tensor in tensors if tensor is not None]
        data = np.concatenate([tensor.values for tensor in given]) if given else np.zeros(0, np.int64)
        valid = joined_masks(
            [_inverted(tensor.valid) for tensor in given], [len(tensor.values) for tensor in given]
        )
        values = pa.array(data, kind if column.width is None else kind.value_type, mask=valid)
        if column.varies:
            widths = [np.zeros(0, np.int64), *(np.full(t.rows, t.width, np.int64) for t in given)]
            values = list_array(values, np.concatenate(widths))
        elif column.width is not None:
            values = pa.FixedSizeListArray.from_arrays(values, type=kind)
        present = np.array([tensor is not None for tensor in tensors], np.bool_)
        return list_array(values, [0 if tensor is None else tensor.rows for tensor in tensors], present)


def as_json(label: str) -> Any:
    """The field of a label that is a string in some datums and an integer in others: as JSON text."""
    return pa.field(label, pa.string(), metadata=_JSON)


def is_json(field: Any) -> bool:
    """Tell whether a field is one that `as_json` has made."""
    return bool(field.metadata) and _JSON.items() <= field.metadata.items()


def _label_column(field: Any, values: Sequence[str | int | None]) -> Any:
    if is_json(field):
        values = [None if value is None else dumps(value).decode() for value in values]
    return pa.array(values, field.type)


def _fits_int32(tokens: Array) -> bool:
    return not len(tokens) or bool(tokens.min() >= -(2**31) and tokens.max() < 2**31)


def _misfit(values: Values, column: _Input) -> str | None:
    """Why a column cannot hold a tensor."""
    if values.integer != column.integer:
        given, held = ("int64", "float32") if values.integer else ("float32", "int64")
        return f"{given} in a column of {held}"
    if values.width == column.width and not column.varies:
        return None
    if values.width is None or column.width is None:
        return f"{_shape(values.width)} in a column of {_shape(column.width)}"
    if column.empty or not values.rows:
        return f"{_shape(values.width)} in a column of another width, which a tensor without rows needs"
    return None


def _row_type(name: str, column: _Input) -> Any:
    # Ids that were declared float32 need float64 to come back as the integers they are.
    kind = pa.int64() if column.integer else pa.float64() if name == TARGETS else pa.float32()
    if column.varies:
        return pa.list_(kind)
    return kind if column.width is None else pa.list_(kind, column.width)


def _shape(width: int | None) -> str:
    return "(N,)" if width is None else f"(N, {width})"


def _inverted(mask: Mask | None) -> Mask | None:
    return None if mask is None else ~mask


def joined_masks(masks: Sequence[Mask | None], lengths: Sequence[int]) -> Mask | None:
    """Concatenate masks, (length,) each; None stands for all False."""
    if all(mask is None for mask in masks):
        return None
    parts = zip(masks, lengths, strict=True)
    return np.concatenate([np.zeros(length, np.bool_) if mask is None else mask for mask, length in parts])


def list_array(values: Any, lengths: Sequence[int] | Ints, present: Mask | None = None) -> Any:
    """Return a list array of n rows over the values; rows that are not present, (n,), are null."""
    offsets = pa.array(offsets_of(np.array(lengths, np.int64)).astype(np.int32))
    mask = None if present is None or present.all() else pa.array(~present)
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(values.type), mask=mask)


def _span_lists(lists: Sequence[list[Span | None] | None]) -> Any:
    spans = [span for given in lists for span in given or ()]
    columns = zip(*(span or (None,) * 4 for span in spans), strict=True) if spans else ((),) * 4
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SPAN, strict=True)]
    null = np.array([span is None for span in spans], np.bool_)
    mask = pa.array(null) if null.any() else None
    struct = pa.StructArray.from_arrays(arrays, fields=list(_SPAN), mask=mask)
    present = np.array([given is not None for given in lists], np.bool_)
    return list_array(struct, [len(given or ()) for given in lists], present)
