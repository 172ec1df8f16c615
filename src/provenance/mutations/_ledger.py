"""The records of a dataset, as mutations look them up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from provenance.mutations._dataset import Dataset, Json
from provenance.mutations._view import Run, View, shuffled, views
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS


def records(dataset: Dataset) -> dict[str, Json]:
    """The records that are complete and alone under their id, by id."""
    found = [record for record in dataset.sequences or () if _is_complete(record)]
    ids = Counter(record["sequence_id"] for record in found)
    return {record["sequence_id"]: record for record in found if ids[record["sequence_id"]] == 1}


def _is_complete(record: Any) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("sequence_id"), str):
        return False
    lists = [record.get(name) for name in ("prompt_tokens", "tokens", "logprobs")]
    return all(isinstance(found, list) for found in lists) and len(record["tokens"]) == len(
        record["logprobs"]
    )


def recorded_runs(dataset: Dataset, rng: random.Random) -> Iterator[tuple[View, Run, Json]]:
    """Target-side sampled runs whose sequence has one complete record, in random order.

    Left out are long runs of zeros, which are a fault (VAL003) as soon as the record does not say the same.
    """
    known = records(dataset)
    for view in views(dataset, rng):
        for run in shuffled(view.sampled(), rng):
            record = known.get(run.sequence_id)
            if record is not None and not is_placeholder(dataset, record["logprobs"]):
                yield view, run, record


def is_placeholder(dataset: Dataset, logprobs: list[float]) -> bool:
    """Whether logprobs are so many zeros that they need a record that says so."""
    return len(logprobs) >= max(1, dataset.contract.parameters.placeholder_run) and not any(logprobs)


def spans_of(dataset: Dataset) -> Iterator[tuple[int, Json]]:
    """Every span of the dataset that can be read, with the row of its datum."""
    for row, datum in enumerate(dataset.datums):
        for name in (INPUT_SPANS, TARGET_SPANS):
            for span in _list_in(datum, name):
                if isinstance(span, dict) and isinstance(span.get("sequence_id"), str):
                    yield row, span


def _list_in(datum: Any, name: str) -> list[Any]:
    found = datum.get(name) if isinstance(datum, dict) else None
    return found if isinstance(found, list) else []


def prompt_sources(dataset: Dataset) -> set[str]:
    """The ids that some datum names in its prompt spans only."""
    named: set[tuple[int, str]] = set()
    sampled: set[tuple[int, str]] = set()
    for row, span in spans_of(dataset):
        (sampled if span.get("type") == "sampled" else named).add((row, span["sequence_id"]))
    return {sequence_id for _, sequence_id in named - sampled}
