"""Distributions of what a check sees: the values of batches, counted between fixed edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from provenance.columns import Array, Columns, Floats, Mask, Tensor, lengths_of
from provenance.engine.judge import Judged
from provenance.observations import Histogram
from provenance.rules import Batch

_Edges = npt.NDArray[np.float64]

#: The loss inputs whose values are counted.
_INPUTS: Final = ("logprobs", "advantages")
#: The smallest float32 above 0: a bin from 0 to it holds zeros, and nothing else.
_LEAST: Final = 2.0**-149


def _magnitudes(exponent: int, most: float) -> list[float]:
    """Six a decade, from a power of ten on, and none above ``most``."""
    steps = [float(f"{digits}e{e}") for e in range(exponent, 3) for digits in (1, 1.5, 2, 3, 5, 7)]
    return [step for step in steps if step <= most]


def _from_zero(exponent: int, most: float) -> _Edges:
    return np.array([*(-step for step in reversed(_magnitudes(exponent, most))), 0.0, _LEAST])


def _around_zero(exponent: int, most: float) -> _Edges:
    return np.array([*_from_zero(exponent, most), *_magnitudes(exponent, most)])


def _lengths() -> _Edges:
    # Between two powers of two lies a third number, so that no bin is without an integer.
    return np.array(
        [1, *(n for power in range(1, 20) for n in (2**power, 3 * 2 ** (power - 1))), 2**20], float
    )


_FIXED: Final[Mapping[str, _Edges]] = {
    "logprobs": _from_zero(-3, 20),
    "log_ratios": _around_zero(-4, 10),
    "advantages": _around_zero(-3, 100),
    "lengths": _lengths(),
}


class Histograms:
    """Histograms of a dataset, which grow batch by batch."""

    def __init__(self, window: float) -> None:
        """``window``: seconds that a sequence may be trained on; ages are counted up to twice that."""
        ages = np.arange(97) / 48 * max(window, 1.0)
        self._edges: Mapping[str, _Edges] = {**_FIXED, "ages": ages}
        # Below, each bin, above, unusable.
        self._counts = {name: np.zeros(len(edges) + 2, np.int64) for name, edges in self._edges.items()}

    def add(self, judged: Judged) -> None:
        """Count the values of the datums that passed the gates."""
        if not len(judged.passed.columns):
            return
        batch = _sound(judged)
        self._count("lengths", batch.lengths)
        trained = _trained(batch)
        for name in _INPUTS:
            has = _one_a_position(batch, name)
            if has is not None:
                chosen = trained if has.all() else trained & has.repeat(batch.lengths)
                self._count(name, batch.at_positions(name)[chosen])
        if batch.sequences is not None:
            self._count("ages", _ages(batch))
            self._count("log_ratios", _log_ratios(batch))

    def histograms(self) -> dict[str, Histogram]:
        """The histograms of all that has values."""
        return {
            name: Histogram(
                edges=self._edges[name].copy(),
                counts=counts[1:-2].copy(),
                below=int(counts[0]),
                above=int(counts[-2]),
                unusable=int(counts[-1]),
            )
            for name, counts in self._counts.items()
            if counts.any()
        }

    def _count(self, name: str, values: Array) -> None:
        edges, counts = self._edges[name], self._counts[name]
        usable = np.isfinite(values)
        if not usable.all():
            counts[-1] += len(values) - np.count_nonzero(usable)
            values = values[usable]
        if values.dtype == np.float32:
            bins = _in_float32(edges).searchsorted(values, "right")
        else:
            bins = edges.searchsorted(values, "right")
        counts[:-1] += np.bincount(bins, minlength=len(counts) - 1)


def _in_float32(edges: _Edges) -> Floats:
    """The smallest float32 from each edge on, which parts float32 values as the edge does."""
    rounded = edges.astype(np.float32)
    return np.where(rounded < edges, np.nextafter(rounded, np.float32(np.inf)), rounded)


def _sound(judged: Judged) -> Batch:
    """The datums that passed the gates, with the inputs that are counted, and NaN for their nulls.

    A contract may leave these inputs aside. Then datums go whose values are not one for each position.
    """
    passed, read = judged.passed, judged.columns
    columns = passed.columns
    names = [name for name in _INPUTS if name in read.inputs and passed.loss.takes(name)]
    if any(name not in columns.inputs for name in names):
        rows = read.row.searchsorted(columns.row)
        columns = replace(columns, inputs={name: read.inputs[name].take(rows) for name in names})
    sound = np.ones(len(columns), np.bool_)
    for name in names:
        tensor = columns.inputs[name]
        sound &= ~tensor.present | (tensor.rank != 1) | _fits(tensor, columns)
    if not sound.all():
        columns = columns.take(sound.nonzero()[0])
    if any(columns.inputs[name].valid is not None for name in names):
        columns = replace(columns, inputs={name: _with_nan(columns.inputs[name]) for name in names})
    if columns is passed.columns:
        return passed
    return Batch(columns, passed.loss, passed.parameters, sequences=passed.sequences, now=passed.now)


def _fits(tensor: Tensor, columns: Columns) -> Mask:
    """(n,): as many values as positions."""
    fits: Mask = lengths_of(tensor.offsets) == lengths_of(columns.offsets)
    return fits


def _with_nan(tensor: Tensor) -> Tensor:
    if tensor.valid is None:
        return tensor
    return replace(tensor, values=np.where(tensor.valid, tensor.values, np.float32(np.nan)), valid=None)


def _one_a_position(batch: Batch, name: str) -> Mask | None:
    """(n,): the datum has the input, with a value for each position; None where the loss does not take it."""
    tensor = batch.columns.inputs.get(name)
    if tensor is None or not batch.loss.takes(name):
        return None
    has: Mask = tensor.present & (tensor.rank == 1) & _fits(tensor, batch.columns)
    return has


def _trained(batch: Batch) -> Mask:
    """(p,): the target was sampled. Where no spans say that: it has an advantage."""
    if batch.all_spanned:
        return batch.sampled
    has = _one_a_position(batch, "advantages")
    if has is None:
        return batch.sampled
    trained: Mask = batch.at_positions("advantages") != 0
    trained &= (has & ~batch.spanned).repeat(batch.lengths)
    return batch.sampled | trained


def _ages(batch: Batch) -> _Edges:
    """Seconds since its last use of each sequence that a sampled span of a datum names."""
    table = batch.table
    named = batch.pairs.sequence[batch.pairs.sampled & batch.recorded_pairs]
    # Times that lie further apart than int64 holds do not wrap around in floats.
    last = np.maximum(table.sampled_at, table.last_used_at)[named].astype(np.float64)
    ages: _Edges = (batch.now - last) / 1e6
    return ages


def _log_ratios(batch: Batch) -> Floats:
    """Given minus recorded logprob of each sampled target that has both."""
    has = _one_a_position(batch, "logprobs")
    if has is None:
        return np.zeros(0, np.float32)
    differences = batch.claims.logprob_differences
    if has.all() and differences.identical:
        return np.zeros(int(differences.length.sum()), np.float32)
    with np.errstate(invalid="ignore"):
        ratios: Floats = differences.given - differences.recorded
    return ratios if has.all() else ratios[has.repeat(batch.lengths)[differences.position]]
