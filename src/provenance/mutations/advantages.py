"""Faults of the training signal: on tokens that were not sampled, off by one, too large, or not there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from provenance.mutations._dataset import Dataset, Json
from provenance.mutations._ledger import recorded_runs
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import Run, View, nonzero, shuffled, signal_name, views

_FIELD: Final = "advantages"


def _advantages(dataset: Dataset, rng: random.Random) -> Iterator[tuple[View, list[float]]]:
    for view in views(dataset, rng):
        values = view.inputs.get(_FIELD)
        if values is not None and view.spanned:
            yield view, values


def _place(view: View, start: int, stop: int) -> Place:
    return Place(row=view.row, field=_FIELD, index=start, length=stop - start)


def _value(values: list[float]) -> float:
    """An advantage as the datum has them."""
    return next((value for value in values if nonzero(value)), 1.0)


@mutation(fires=("ADV001",), may=("ADV005",))
def advantages_shifted(dataset: Dataset, rng: random.Random) -> Place | None:
    """The advantages are off by one position, so that the token before each completion is rewarded."""
    for view, values in _advantages(dataset, rng):
        unsampled = set(view.unsampled_positions())
        hit = [
            run.start - 1
            for run in view.sampled()
            if run.start - 1 in unsampled and nonzero(values[run.start])
        ]
        if hit:
            values[:] = [*values[1:], 0.0]
            return _place(view, hit[0], hit[-1] + 1)
    return None


@mutation(fires=("ADV001",))
def advantages_on_tool_output(dataset: Dataset, rng: random.Random) -> Place | None:
    """What the environment or a tool said between two turns is rewarded like what the model said."""
    for view, values in _advantages(dataset, rng):
        added = [run for run in view.trained if run.kind == "prompt" and run.start and run.length]
        if added:
            run = rng.choice(added)
            values[run.start : run.stop] = [_value(values)] * run.length
            return _place(view, run.start, run.stop)
    return None


@mutation(fires=("ADV001",))
def advantages_everywhere(dataset: Dataset, rng: random.Random) -> Place | None:
    """One advantage was written to every position, without a mask."""
    for view, values in _advantages(dataset, rng):
        prompt = view.unsampled_positions()
        # A run that had no advantage may be of a sequence that must not have one.
        if prompt and all(nonzero(values[i]) for run in view.sampled() for i in range(run.start, run.stop)):
            values[:] = [_value(values)] * len(values)
            return _place(view, prompt[0], prompt[-1] + 1)
    return None


@mutation(fires=("ADV001",))
def advantage_residue(dataset: Dataset, rng: random.Random) -> Place | None:
    """A prompt token has an advantage of 1e-9, what rounding left where two numbers should have cancelled."""
    for view, values in _advantages(dataset, rng):
        prompt = view.unsampled_positions()
        if prompt:
            i = rng.choice(prompt)
            values[i] = 1e-9
            return _place(view, i, i + 1)
    return None


@mutation(fires=("ADV002",))
def without_stability_info(dataset: Dataset, rng: random.Random) -> Place | None:
    """A sequence was sampled by a client that did not ask for stability info."""
    for view, run, record in recorded_runs(dataset, rng):
        values = view.inputs.get(_FIELD, [])[run.start : run.stop]
        if record.get("record_stability_info") is True and any(map(nonzero, values)):
            record["record_stability_info"] = False
            return Place(field=_FIELD, sequence_id=run.sequence_id)
    return None


@mutation(fires=("ADV003",))
def no_signal(dataset: Dataset, rng: random.Random) -> Place | None:
    """Every group had constant rewards, and there is no signal in the whole dataset."""
    name = signal_name(dataset)
    found = list(views(dataset, rng))
    # All or none: a single value that is left is a signal.
    if len(found) < len(dataset.datums) or not all(_is_numeric(view.tensors.get(name)) for view in found):
        return None
    tensors = [view.tensors[name] for view in found]
    if not any(nonzero(value) for tensor in tensors for value in tensor["data"]):
        return None
    for tensor in tensors:
        tensor["data"][:] = [type(value)(0) for value in tensor["data"]]
    return Place(field=name)


def _is_numeric(tensor: Json | None) -> bool:
    return tensor is not None and all(type(value) in (int, float) for value in tensor["data"])


@mutation(fires=("ADV004",))
def advantage_of_tiny_deviation(dataset: Dataset, rng: random.Random) -> Place | None:
    """An advantage was divided by the standard deviation of rewards that differ by rounding only."""
    limit = dataset.contract.parameters.advantage_limit
    for view, values in _advantages(dataset, rng):
        places = [i for run in view.sampled() for i in range(run.start, run.stop) if nonzero(values[i])]
        if places and limit < 1e30:
            i = rng.choice(places)
            values[i] = 74 * max(limit, 1.0) * (1 if values[i] > 0 else -1)
            return _place(view, i, i + 1)
    return None


@mutation(fires=("ADV005",))
def stop_token_without_advantage(dataset: Dataset, rng: random.Random) -> Place | None:
    """The stop token was left out of the mask, so that the model does not learn to stop."""
    for view, values in _advantages(dataset, rng):
        for run in shuffled(view.sampled(at_least=2), rng):
            if _is_bare_without_last(values, run):
                values[run.stop - 1] = 0.0
                return _place(view, run.start, run.stop)
    return None


def _is_bare_without_last(values: list[float], run: Run) -> bool:
    return nonzero(values[run.stop - 1]) and any(map(nonzero, values[run.start : run.stop - 1]))
