"""Compares two batches by what they say, not by how they say it."""

from __future__ import annotations

import numpy as np

from provenance.columns import NO_SEQUENCE, Columns, Spans, Tensor


def assert_same_columns(a: Columns, b: Columns, *, places: bool = False) -> None:
    """Fail unless both batches hold the same datums.

    Two forms of one thing are equal: a mask that is None and one that is all True (or all False, for nulls),
    coordinates that are None and those of a dense tensor, a loss input that no datum has and none at all,
    any order of ``ids``, any integer dtype of ``tokens``. What an absent input or an invalid value holds does
    not count.
    Faults are compared by row and code, notes by their key; with ``places`` also ``row``, ``line``,
    ``file`` and the faults' fields.
    """
    assert len(a) == len(b)
    _equal(a.readable, b.readable, "readable")
    _equal(a.offsets, b.offsets, "offsets")
    _equal(a.tokens, b.tokens, "tokens")
    _equal(_filled(a.text, a.positions, True), _filled(b.text, b.positions, True), "text")
    _equal(
        _filled(a.null_tokens, a.positions, False), _filled(b.null_tokens, b.positions, False), "null_tokens"
    )
    for name in ("offsets", "kind", "length"):
        _equal(getattr(a.chunks, name), getattr(b.chunks, name), f"chunks.{name}")
    assert _names(a) == _names(b)
    for name in _names(a):
        _same_tensor(a.inputs[name], b.inputs[name], name)
    _same_spans(a, b, "model_input_spans")
    _same_spans(a, b, "loss_fn_input_spans")
    assert {(f.row, f.code) for f in a.faults} == {(f.row, f.code) for f in b.faults}
    if places:
        _equal(a.row, b.row, "row")
        assert (a.line is None) == (b.line is None)
        if a.line is not None and b.line is not None:
            _equal(a.line, b.line, "line")
        assert a.file == b.file
        assert {(f.row, f.field, f.line) for f in a.faults} == {(f.row, f.field, f.line) for f in b.faults}


def _names(columns: Columns) -> list[str]:
    return sorted(name for name, tensor in columns.inputs.items() if tensor.present.any())


def _same_tensor(a: Tensor, b: Tensor, name: str) -> None:
    _equal(a.present, b.present, f"{name}.present")
    for attribute in ("declared", "rank", "rows", "width", "sound"):
        _equal(getattr(a, attribute)[a.present], getattr(b, attribute)[b.present], f"{name}.{attribute}")
    _equal(a.offsets, b.offsets, f"{name}.offsets")
    assert a.values.dtype == b.values.dtype, name
    valid = _filled(a.valid, len(a.values), True)
    _equal(valid, _filled(b.valid, len(b.values), True), f"{name}.valid")
    _equal(a.values[valid], b.values[valid], f"{name}.values")
    if a.values.dtype.kind == "f":
        signed = valid & ~np.isnan(a.values)
        _equal(np.signbit(a.values[signed]), np.signbit(b.values[signed]), f"{name}: signs of zeros")
    _equal(_coordinates(a), _coordinates(b), f"{name}.coordinates")
    assert set(a.notes) == set(b.notes), name


def _same_spans(a: Columns, b: Columns, field: str) -> None:
    left, right = a.spans(field), b.spans(field)
    for name in ("present", "offsets", "kind", "start", "length"):
        _equal(getattr(left, name), getattr(right, name), f"{field}.{name}")
    assert _ids(a, left) == _ids(b, right), field
    assert set(left.notes) == set(right.notes), field


def _ids(columns: Columns, spans: Spans) -> list[str | None]:
    return [None if i == NO_SEQUENCE else columns.ids[i] for i in spans.sequence.tolist()]


def _coordinates(tensor: Tensor) -> np.ndarray:
    if tensor.coordinates is not None:
        return tensor.coordinates
    return np.arange(len(tensor.values)) - np.repeat(tensor.offsets[:-1], np.diff(tensor.offsets))


def _filled(mask: np.ndarray | None, size: int, default: bool) -> np.ndarray:
    return np.full(size, default) if mask is None else mask


def _equal(a: np.ndarray, b: np.ndarray, what: str) -> None:
    np.testing.assert_array_equal(a, b, err_msg=what)
