"""Faults of the file, and of the dataset as a whole."""

from __future__ import annotations

import random

from provenance.formats._json import dumps
from provenance.mutations._dataset import Dataset, copied
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import views


@mutation(fires=("FMT001",))
def line_truncated(dataset: Dataset, rng: random.Random) -> Place | None:
    """A writer was killed, and half of a line is missing."""
    for view in views(dataset, rng, spare=True):
        line = dumps(view.datum)
        dataset.lines[view.row] = line[: rng.randrange(1, len(line))]
        return Place(row=view.row)
    return None


@mutation(fires=("FMT002",))
def line_not_utf8(dataset: Dataset, rng: random.Random) -> Place | None:
    """A line was written as Latin-1, and a letter in it is no UTF-8."""
    for view in views(dataset, rng, spare=True):
        line = dumps(view.datum | {"metadata": "?"})
        dataset.lines[view.row] = line.replace(b'"?"', "é".encode("latin-1").join([b'"', b'"']))
        return Place(row=view.row)
    return None


@mutation(fires=("FMT003",))
def key_twice(dataset: Dataset, rng: random.Random) -> Place | None:
    """Objects were merged as text, and a line names a key twice."""
    for view in views(dataset, rng, spare=True):
        dataset.lines[view.row] = dumps(view.datum)[:-1] + b', "loss_fn_inputs": {}}'
        return Place(row=view.row)
    return None


@mutation(fires=("FMT004",))
def text_for_a_list(dataset: Dataset, rng: random.Random) -> Place | None:
    """A list of numbers went through a table of text and is a string."""
    for view in views(dataset, rng, spare=True):
        texts = [chunk for chunk in view.chunks if "tokens" in chunk]
        if texts:
            chunk = rng.choice(texts)
            chunk["tokens"] = str(chunk["tokens"])
            return Place(row=view.row)
    return None


@mutation(fires=("FMT005",))
def no_datums(dataset: Dataset, rng: random.Random) -> Place | None:
    """An earlier step failed, and the dataset is empty."""
    if not dataset.datums:
        return None
    dataset.datums.clear()
    dataset.lines.clear()
    return Place()


@mutation(fires=("SEQ010",))
def datum_repeated(dataset: Dataset, rng: random.Random) -> Place | None:
    """A datum was written twice."""
    for view in views(dataset, rng):
        if view.sampled():
            dataset.datums.append(copied(view.datum))
            return Place(row=len(dataset.datums) - 1)
    return None


@mutation(fires=())
def datums_reordered(dataset: Dataset, rng: random.Random) -> Place | None:
    """The datums are in another order."""
    rows = list(range(len(dataset.datums)))
    order = rng.sample(rows, len(rows))
    datums = [dataset.datums[row] for row in order]
    lines = {new: dataset.lines[old] for new, old in enumerate(order) if old in dataset.lines}
    if (datums, lines) == (dataset.datums, dataset.lines):  # the same order, or of equal datums
        return None
    dataset.datums[:], dataset.lines = datums, lines
    return Place()
