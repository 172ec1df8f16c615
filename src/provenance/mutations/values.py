"""Faults of numbers: logprobs that were lost, shifted or recomputed, and what narrow floats do."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np

from provenance.mutations._dataset import Dataset
from provenance.mutations._edit import set_values
from provenance.mutations._ledger import is_placeholder, recorded_runs
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import Run, View, nonzero, shuffled, signal_name, views

#: What a placeholder of the wrong kind looks like: a probability of 1.
_PROBABILITY = 1.0


def _logprob_runs(dataset: Dataset, rng: random.Random) -> Iterator[tuple[View, Run, list[float]]]:
    """Recorded runs with their logprobs, which are the recorded ones in a valid dataset."""
    for view, run, record in recorded_runs(dataset, rng):
        logprobs = view.inputs.get("logprobs")
        if logprobs is not None and run.offset == 0 and run.length == len(record["tokens"]):
            yield view, run, logprobs[run.start : run.stop]


def _place(view: View, run: Run) -> Place:
    return Place(
        row=view.row, field="logprobs", index=run.start, length=run.length, sequence_id=run.sequence_id
    )


def _tolerance(dataset: Dataset, logprob: float) -> float:
    """How far another value may be from a logprob before SEQ006 reports it, about."""
    parameters = dataset.contract.parameters
    return parameters.logprob_abs + parameters.logprob_rel * abs(logprob)


def _differs(dataset: Dataset, given: float, recorded: float) -> bool:
    """Whether SEQ006 reports the difference, whatever rounding does to it."""
    return abs(given - recorded) > 1.001 * max(_tolerance(dataset, given), _tolerance(dataset, recorded))


def _is_foreign(dataset: Dataset, given: list[float], recorded: list[float]) -> bool:
    """Whether SEQ012 reports the difference, whatever rounding does to it."""
    parameters = dataset.contract.parameters
    if len(given) < max(1, parameters.foreign_run):
        return False
    total = sum(abs(a - b) for a, b in zip(given, recorded, strict=True))
    return total / len(given) > 1.001 * parameters.foreign_logprobs


@mutation(fires=("SEQ006", "SEQ012", "VAL003"))
def logprobs_zero_filled(dataset: Dataset, rng: random.Random) -> Place | None:
    """The sampler was not asked for logprobs, and zeros were written in their place."""
    for view, run, logprobs in _logprob_runs(dataset, rng):
        zeros = [0.0] * run.length
        if (
            is_placeholder(dataset, zeros)
            and _is_foreign(dataset, zeros, logprobs)
            and any(_differs(dataset, 0.0, value) for value in logprobs)
        ):
            set_values(view.inputs["logprobs"], run.start, zeros)
            return _place(view, run)
    return None


@mutation(fires=("VAL003",))
def logprobs_rounded_to_zero(dataset: Dataset, rng: random.Random) -> Place | None:
    """A run of which the model was all but certain lost its small logprobs, and all of them are 0."""
    small = -min(
        dataset.contract.parameters.logprob_abs / 2, dataset.contract.parameters.foreign_logprobs / 2
    )
    if not nonzero(small):
        return None
    for view, run, record in recorded_runs(dataset, rng):
        if "logprobs" in view.inputs and run.offset == 0 and run.length == len(record["tokens"]):
            zeros = [0.0] * run.length
            if is_placeholder(dataset, zeros):
                record["logprobs"] = [small] * run.length
                set_values(view.inputs["logprobs"], run.start, zeros)
                return _place(view, run)
    return None


@mutation(fires=("SEQ006",), may=("SEQ012",))
def logprobs_shifted(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs of a run are off by one position."""
    for view, run, logprobs in _logprob_runs(dataset, rng):
        shifted = [*logprobs[1:], logprobs[0]]
        if any(_differs(dataset, a, b) for a, b in zip(shifted, logprobs, strict=True)):
            set_values(view.inputs["logprobs"], run.start, shifted)
            return _place(view, run)
    return None


@mutation(fires=("SEQ006", "SEQ012"))
def logprobs_of_another_sequence(dataset: Dataset, rng: random.Random) -> Place | None:
    """A run carries the logprobs of another sequence."""
    others = [logprobs for _, _, logprobs in _logprob_runs(dataset, rng)]
    for view, run, logprobs in _logprob_runs(dataset, rng):
        for other in others:
            foreign = other[: run.length]
            if (
                len(foreign) == run.length
                and _is_foreign(dataset, foreign, logprobs)
                and any(_differs(dataset, a, b) for a, b in zip(foreign, logprobs, strict=True))
                and not is_placeholder(dataset, foreign)
            ):
                set_values(view.inputs["logprobs"], run.start, foreign)
                return _place(view, run)
    return None


@mutation(fires=("SEQ006", "SEQ012"))
def logprobs_of_another_model(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs of a run are those of another model, to which its tokens are far less likely."""
    for view, run, logprobs in _logprob_runs(dataset, rng):
        less = [1.5 * value - 2.0 for value in logprobs]
        if _is_foreign(dataset, less, logprobs) and _differs(dataset, less[0], logprobs[0]):
            set_values(view.inputs["logprobs"], run.start, less)
            return _place(view, run)
    return None


@mutation(fires=("SEQ006",))
def logprobs_recomputed(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs of a run were recomputed by another engine: close to the sampler's, and not those."""
    for view, run, logprobs in _logprob_runs(dataset, rng):
        close = [value - 2 * _tolerance(dataset, value) for value in logprobs]
        limit = dataset.contract.parameters.foreign_logprobs
        near = all(abs(a - b) < limit for a, b in zip(close, logprobs, strict=True))
        if near and any(_differs(dataset, a, b) for a, b in zip(close, logprobs, strict=True)):
            set_values(view.inputs["logprobs"], run.start, close)
            return _place(view, run)
    return None


@mutation(fires=("SEQ012",))
def logprobs_biased(dataset: Dataset, rng: random.Random) -> Place | None:
    """All logprobs of a run are a little too low: each within its tolerance, their mean beyond its own."""
    for view, run, logprobs in _logprob_runs(dataset, rng):
        lower = [value - 0.9 * _tolerance(dataset, value) for value in logprobs]
        if _is_foreign(dataset, lower, logprobs):
            set_values(view.inputs["logprobs"], run.start, lower)
            return _place(view, run)
    return None


@mutation(fires=("VAL002",), may=("SEQ012",))
def logprobs_negated(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs are negated: negative log likelihoods were stored."""
    tolerance = 1.001 * dataset.contract.parameters.tolerance
    for view in views(dataset, rng):
        logprobs = view.inputs.get("logprobs", [])
        if any(-value > tolerance for value in logprobs):
            logprobs[:] = [-value for value in logprobs]
            return Place(row=view.row, field="logprobs", index=0, length=len(logprobs))
    return None


@mutation(fires=("VAL002",))
def prompt_logprobs_are_probabilities(dataset: Dataset, rng: random.Random) -> Place | None:
    """The placeholder on a prompt is the probability 1 where it should be the logprob 0."""
    for view in views(dataset, rng):
        logprobs, places = view.inputs.get("logprobs"), view.unsampled_positions()
        if logprobs is not None and places and dataset.contract.parameters.tolerance < _PROBABILITY:
            for i in places:
                logprobs[i] = _PROBABILITY
            return Place(row=view.row, field="logprobs", index=places[0], length=places[-1] + 1 - places[0])
    return None


@mutation(fires=("VAL001",))
def logprob_null(dataset: Dataset, rng: random.Random) -> Place | None:
    """A logprob is null, which the official client turns into NaN."""
    return _replace_logprob(dataset, rng, None)


@mutation(fires=("VAL001",))
def logprob_nan(dataset: Dataset, rng: random.Random) -> Place | None:
    """A logprob is NaN, which a null became on the way."""
    return _replace_logprob(dataset, rng, math.nan)


def _replace_logprob(dataset: Dataset, rng: random.Random, value: float | None) -> Place | None:
    for view in views(dataset, rng):
        logprobs: list[float | None] | None = view.inputs.get("logprobs")
        if logprobs is not None:
            i = rng.randrange(len(logprobs))
            logprobs[i] = value
            return Place(row=view.row, field="logprobs", index=i, length=1)
    return None


@mutation(fires=("VAL001",))
def half_precision_overflow(dataset: Dataset, rng: random.Random) -> Place | None:
    """A value of the training signal overflowed in float16 and is infinite."""
    name = signal_name(dataset)
    for view in views(dataset, rng):
        places = [i for i, value in enumerate(view.inputs.get(name, ())) if nonzero(value)]
        if places:
            i = rng.choice(places)
            view.inputs[name][i] = math.copysign(math.inf, view.inputs[name][i])
            return Place(row=view.row, field=name, index=i, length=1)
    return None


@mutation(fires=())
def logprobs_in_bfloat16(dataset: Dataset, rng: random.Random) -> Place | None:
    """The logprobs went through bfloat16 and back, which the tolerances admit."""
    for view in views(dataset, rng):
        logprobs = view.inputs.get("logprobs", [])
        rounded = _bfloat16(logprobs)
        within = (
            abs(a - b) <= 0.99 * _tolerance(dataset, b)
            and abs(a - b) < dataset.contract.parameters.foreign_logprobs
            for a, b in zip(rounded, logprobs, strict=True)
        )
        if rounded != logprobs and all(within):
            logprobs[:] = rounded
            return Place(row=view.row, field="logprobs", index=0, length=len(logprobs))
    return None


def _bfloat16(values: list[float]) -> list[float]:
    """Numbers rounded to the upper half of a float32, ties to even."""
    bits = np.array(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    found: list[float] = rounded.astype(np.uint32).view(np.float32).tolist()
    return found


@mutation(fires=())
def floats_written_short(dataset: Dataset, rng: random.Random) -> Place | None:
    """Numbers were written with as many digits as float32 needs, which reads back as the same float32."""
    for view in views(dataset, rng):
        for name in shuffled(sorted(view.inputs), rng):
            values = view.inputs[name]
            if view.tensors[name]["dtype"] != "float32":
                continue
            short = [float(str(np.float32(value))) for value in values]
            if short != values:
                values[:] = short
                return Place(row=view.row, field=name, index=0, length=len(values))
    return None


@mutation(fires=())
def zeros_negative(dataset: Dataset, rng: random.Random) -> Place | None:
    """The zeros of the training signal are -0.0, as a product with a negative number leaves them."""
    name = signal_name(dataset)
    for view in views(dataset, rng):
        values = view.inputs.get(name, [])
        if view.inputs.get(name) and view.tensors[name]["dtype"] == "float32":
            signed = [-0.0 if value == 0 else value for value in values]
            if any(value == 0 and math.copysign(1, value) > 0 for value in values):
                values[:] = signed
                return Place(row=view.row, field=name, index=0, length=len(values))
    return None
