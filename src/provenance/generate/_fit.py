"""Datums with the inputs that a loss requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from provenance.builder import build_datums
from provenance.columns import TARGETS
from provenance.contract import Contract
from provenance.generate._fill import NOW, SESSION
from provenance.models import Datum, TensorData, Trajectory
from provenance.models._arrays import Floats
from provenance.mutations import Dataset


def dataset(
    contract: Contract,
    found: Sequence[Trajectory],
    spans: bool,
    width: int,
    *,
    session: str = SESSION,
    now: str = NOW,
) -> Dataset:
    """The datums of trajectories, with what a loss requires, and all that was sampled."""
    built = [datum for trajectory in found for datum in build_datums(trajectory)]
    sampled = [turn.sequence for trajectory in found for turn in trajectory.turns]
    return Dataset(
        datums=[fitted(datum, contract, spans, width).model_dump(mode="json") for datum in built],
        sequences=[sequence.model_dump(mode="json") for sequence in sampled],
        contract=contract,
        session=session,
        now=now,
    )


def fitted(datum: Datum, contract: Contract, spans: bool, width: int) -> Datum:
    """A datum with the inputs that a loss requires, and with or without spans."""
    loss = contract.loss
    built = dict(datum.loss_fn_inputs)
    if loss.provenance or loss.required == tuple(built):
        inputs = built
    else:
        more = {
            "weights": built["advantages"],
            "sequence_ratio_mask": TensorData(data=_sampled(datum), dtype="float32"),
        }
        names = loss.required if loss.declared else tuple(built)
        inputs = {
            name: _input(name, contract, built | more, datum.model_input.length, width) for name in names
        }
    if spans and TARGETS in inputs and inputs[TARGETS].rows == datum.model_input.length:
        return datum if inputs is built else datum.model_copy(update={"loss_fn_inputs": inputs})
    return Datum(model_input=datum.model_input, loss_fn_inputs=inputs)


def _sampled(datum: Datum) -> Floats:
    """1 where the target was sampled, 0 elsewhere."""
    spans = datum.loss_fn_input_spans or ()
    return np.repeat([float(span.type == "sampled") for span in spans], [span.length for span in spans])


def _input(
    name: str, contract: Contract, known: Mapping[str, TensorData], positions: int, width: int
) -> TensorData:
    """One loss input of an allowed rank."""
    loss = contract.loss
    ranks, dtype = loss.ranks_of(name), "int64" if name in loss.int64 else "float32"
    rank = ranks[0] if len(ranks) == 1 else min(width, 2)
    tensor = known.get(name)
    if tensor is not None and tensor.dtype != dtype:
        tensor = None
    values = np.zeros(positions) if tensor is None else tensor.data
    if rank == 0:
        values = values[:1].reshape(())
    elif rank == 2:
        values = np.stack([values, np.zeros_like(values)], axis=1)
    return TensorData(data=values.astype(dtype), dtype="int64" if dtype == "int64" else "float32")
