"""The SDK's datums in memory of their own, so that what was checked is what is sent.

The SDK encodes a datum after the call has returned, on a thread of its own. Until then it holds the arrays
and the memory of torch tensors that it was given, which pipelines fill again for the next batch. Its
model_input is shared: its chunks are the SDK's own, and copying them takes three times as long as the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from provenance.errors import SchemaError
from provenance.integrations.tinker._version import VERSION, types
from provenance.models._base import shorten

__all__ = ["own"]


def own(datum: Any) -> types.Datum:
    """Return the same datum with loss inputs and spans that nobody else can change.

    Raises:
        SchemaError: the SDK cannot send it: it would fail after it has numbered the request, and wait for it.
    """
    if not isinstance(datum, types.Datum):
        raise SchemaError(f"{shorten(datum)} is no datum, expected a tinker.Datum or a provenance.Datum")
    try:
        owned: types.Datum = _with(
            datum,
            loss_fn_inputs={name: _tensor(tensor) for name, tensor in datum.loss_fn_inputs.items()},
            model_input_spans=_list(datum.model_input_spans),
            loss_fn_input_spans=_list(datum.loss_fn_input_spans),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise SchemaError(f"{shorten(datum)}: tinker {VERSION} cannot send it: {error}") from error
    return owned


def _tensor(tensor: Any) -> Any:
    return _with(
        tensor,
        _numpy=np.array(tensor._numpy),  # the SDK holds none that cannot be written to
        shape=_list(tensor.shape),
        sparse_crow_indices=_list(tensor.sparse_crow_indices),
        sparse_col_indices=_list(tensor.sparse_col_indices),
    )


def _list(items: Any) -> list[Any] | None:
    return None if items is None else list(items)


def _with(held: Any, **fields: Any) -> Any:
    """The same dataclass with other fields; its constructor would convert all once more, and takes longer."""
    other = object.__new__(type(held))
    vars(other).update(vars(held), **fields)
    return other
