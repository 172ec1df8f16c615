"""The columns of an Arrow file of datums, chosen from the first of them, and datums in these columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from provenance.columns import CHUNK_KINDS, TARGETS, TEXT, Array, Ints, Mask, offsets_of
from provenance.formats._arrow_encode import Chunk, Encoded, Span, Values, refuse
from provenance.formats._arrow_schema import IGNORED, INPUT, INPUT_SPANS, INPUT_TOKENS, TARGET_SPANS

_SPAN: Final = pa.struct(
    [("type", pa.string()), ("sequence_id", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]
)


class Layout:
    """The columns that a file has, and rows in them."""

    def __init__(self, rows: Sequence[Encoded]) -> None:
        self.rows = len(rows)
        self.text_only = all(row.text_only for row in rows)
        self.labels = [label for label in IGNORED if any(label in row.labels for row in rows)]
        self.inputs: dict[str, Values] = {}
        for row in rows:
            for name, values in row.inputs.items():
                self.inputs.setdefault(name, values)
        in_range = all(_fits_int32(row.tokens) for row in rows)
        self.token = pa.int32() if in_range else pa.int64()
        tokens = pa.list_(self.token)
        self.chunk = pa.struct(
            [
                ("type", pa.string()),
                ("tokens", tokens),
                ("length", pa.int32()),
                ("data", pa.binary()),
                ("format", pa.string()),
                ("location", pa.string()),
            ]
        )
        self.schema = pa.schema(
            [
                *((label, pa.string()) for label in self.labels),
                (INPUT_TOKENS, tokens) if self.text_only else (INPUT, pa.list_(self.chunk)),
                *((name, pa.list_(_row_type(name, values))) for name, values in self.inputs.items()),
                (INPUT_SPANS, pa.list_(_SPAN)),
                (TARGET_SPANS, pa.list_(_SPAN)),
            ]
        )

    def batch(self, rows: Sequence[Encoded]) -> Any:
        """Return the rows as a record batch.

        Raises:
            SchemaError: A row does not fit the columns.
        """
        for row in rows:
            self._check(row)
        columns = [pa.array([row.labels.get(label) for row in rows], pa.string()) for label in self.labels]
        columns.append(self._model_input(rows))
        columns += [self._tensors(name, [row.inputs.get(name) for row in rows]) for name in self.inputs]
        columns += [_span_lists([row.spans[name] for row in rows]) for name in (INPUT_SPANS, TARGET_SPANS)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _check(self, row: Encoded) -> None:
        chosen = f"the columns were chosen from the first {self.rows} datums"
        if self.text_only and not row.text_only:
            raise refuse(row.number, INPUT, f"not one text chunk, and {chosen}")
        if self.token == pa.int32() and not _fits_int32(row.tokens):
            raise refuse(row.number, INPUT, f"a token id beyond int32, and {chosen}")
        for label in row.labels:
            if label not in self.labels:
                raise refuse(row.number, label, f"a new field, and {chosen}")
        for name, values in row.inputs.items():
            path = f"loss_fn_inputs.{name}"
            column = self.inputs.get(name)
            if column is None:
                raise refuse(row.number, path, f"a new loss input, and {chosen}")
            if values.integer != column.integer:
                dtypes = ("int64", "float32") if values.integer else ("float32", "int64")
                raise refuse(row.number, path, f"{dtypes[0]} in a column of {dtypes[1]}")
            if values.width != column.width:
                raise refuse(row.number, path, f"{_shape(values)} in a column of {_shape(column)}")

    def _model_input(self, rows: Sequence[Encoded]) -> Any:
        tokens = np.concatenate([row.tokens for row in rows])
        null = _joined_masks([row.null_tokens for row in rows], [len(row.tokens) for row in rows])
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
        data = (
            np.concatenate([tensor.values for tensor in given]) if given else np.zeros(0, column.values.dtype)
        )
        valid = _joined_masks(
            [_inverted(tensor.valid) for tensor in given], [len(tensor.values) for tensor in given]
        )
        values = pa.array(data, kind if column.width is None else kind.value_type, mask=valid)
        if column.width is not None:
            values = pa.FixedSizeListArray.from_arrays(values, type=kind)
        present = np.array([tensor is not None for tensor in tensors], np.bool_)
        return list_array(values, [0 if tensor is None else tensor.rows for tensor in tensors], present)


def _fits_int32(tokens: Array) -> bool:
    return not len(tokens) or bool(tokens.min() >= -(2**31) and tokens.max() < 2**31)


def _row_type(name: str, values: Values) -> Any:
    # Ids that were declared float32 need float64 to come back as the integers they are.
    kind = pa.int64() if values.integer else pa.float64() if name == TARGETS else pa.float32()
    return kind if values.width is None else pa.list_(kind, values.width)


def _shape(values: Values) -> str:
    return "(N,)" if values.width is None else f"(N, {values.width})"


def _inverted(mask: Mask | None) -> Mask | None:
    return None if mask is None else ~mask


def _joined_masks(masks: Sequence[Mask | None], lengths: Sequence[int]) -> Mask | None:
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
