"""Pack datums that passed a contract into a ValidatedBatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from provenance.batch import ValidatedBatch
from provenance.columns import SAMPLED, Array, offsets_of
from provenance.contract import Contract
from provenance.errors import SchemaError
from provenance.rules import Batch

#: In place of K, of a tensor of one dimension.
_FLAT: Final = -1


def pack(batches: Sequence[Batch], contract: Contract, session: str | None, now: int) -> ValidatedBatch:
    """Join batches that passed.

    Raises:
        SchemaError: a loss input is there in some datums only, or its (N, K) tensors differ in K.
    """
    first_position = offsets_of(np.array([batch.columns.positions for batch in batches], np.int64))
    names = dict.fromkeys(name for batch in batches for name in batch.columns.inputs)
    ids: list[str] = []
    versions: list[str | None] = []
    starts, lengths = [], []
    for batch, first in zip(batches, first_position[:-1], strict=True):
        spans = batch.columns.target_spans
        chosen = np.flatnonzero((spans.kind == SAMPLED) & (spans.length > 0))
        starts.append(batch.target_starts[chosen] + first)
        lengths.append(spans.length[chosen])
        sequences = spans.sequence[chosen].tolist()
        ids += [batch.columns.ids[sequence] for sequence in sequences]
        known = batch.sequences
        versions += [None if known is None else known.policy_version[sequence] for sequence in sequences]
    return ValidatedBatch._pack(
        contract=contract,
        session=session,
        now=now,
        tokens=_join([batch.columns.tokens.astype(np.int32) for batch in batches], np.int32),
        cu_seqlens=offsets_of(_join([batch.lengths for batch in batches], np.int64)),
        inputs={name: _input(name, batches) for name in names},
        sampled=_join([batch.sampled for batch in batches], np.bool_),
        sequence_ids=tuple(ids),
        sequence_starts=_join(starts, np.int64),
        sequence_lengths=_join(lengths, np.int64),
        policy_versions=tuple(versions),
    )


def _join(parts: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts])


def _input(name: str, batches: Sequence[Batch]) -> Array:
    parts = []
    for batch in batches:
        tensor = batch.columns.inputs.get(name)
        if tensor is None or not tensor.present.all():
            raise SchemaError(f"loss input {name!r} is there in some datums of the batch only")
        widths = np.unique(np.where(tensor.rank > 1, tensor.width, _FLAT))
        if len(widths) > 1 or (tensor.rank == 0).any():
            raise SchemaError(f"loss input {name!r} has tensors of different shapes, which cannot be packed")
        width = int(widths[0]) if len(widths) else _FLAT
        values = tensor.values
        if tensor.coordinates is not None:
            values = np.zeros(int((tensor.rows * tensor.width).sum()), tensor.values.dtype)
            first = offsets_of(tensor.rows * tensor.width)[:-1]
            values[np.repeat(first, np.diff(tensor.offsets)) + tensor.coordinates] = tensor.values
        parts.append(values if width == _FLAT else values.reshape(int(tensor.rows.sum()), width))
    if len({part.shape[1:] for part in parts}) > 1:
        raise SchemaError(f"loss input {name!r} has tensors of different shapes, which cannot be packed")
    return np.concatenate(parts)
