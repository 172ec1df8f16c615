"""Faults of shape: dimensions, lengths, dtypes, inputs and chunks."""

from __future__ import annotations

import random
from typing import Final

from provenance.columns import TARGETS
from provenance.mutations._dataset import Dataset
from provenance.mutations._edit import append_token
from provenance.mutations._mutation import Place, mutation
from provenance.mutations._view import nonzero, shuffled, signal_name, views
from provenance.rules._sides import INPUT_SPANS, TARGET_SPANS

_MASK: Final = "sequence_ratio_mask"
#: Where an image lies that was not loaded.
_LOCATION: Final = "tinker://images/0.png"


@mutation(fires=("INP001",))
def loss_input_lost(dataset: Dataset, rng: random.Random) -> Place | None:
    """A loss input that the loss requires was lost on the way."""
    for view in views(dataset, rng, spare=True):
        names = [name for name in dataset.contract.loss.required if name in view.tensors]
        if names:
            name = rng.choice(names)
            del view.datum["loss_fn_inputs"][name]
            return Place(row=view.row, field=name)
    return None


@mutation(fires=("INP002",))
def mask_left_over(dataset: Dataset, rng: random.Random) -> Place | None:
    """The mask that the advantages were made with is still there."""
    if dataset.contract.loss.takes("mask"):
        return None
    for view in views(dataset, rng):
        if "mask" not in view.tensors:
            values = [float(nonzero(value)) for value in view.inputs.get(signal_name(dataset), view.tokens)]
            view.datum["loss_fn_inputs"]["mask"] = {"data": values, "dtype": "float32"}
            return Place(row=view.row, field="mask")
    return None


@mutation(fires=("INP003",))
def targets_as_floats(dataset: Dataset, rng: random.Random) -> Place | None:
    """The targets went through a tensor of floats and are declared float32."""
    if TARGETS not in dataset.contract.loss.int64 or not dataset.contract.loss.takes(TARGETS):
        return None
    for view in views(dataset, rng, spare=True):
        if view.tensors.get(TARGETS, {}).get("dtype") == "int64":
            view.tensors[TARGETS]["dtype"] = "float32"
            return Place(row=view.row, field=TARGETS)
    return None


@mutation(fires=("INP004",))
def batch_dimension_added(dataset: Dataset, rng: random.Random) -> Place | None:
    """The loss inputs kept the dimension of a batch of one: (1, N) instead of (N,)."""
    loss = dataset.contract.loss
    for view in views(dataset, rng, spare=True):
        names = [name for name in view.inputs if loss.takes(name) and max(loss.ranks_of(name)) < 2]
        for name in names:
            view.tensors[name]["shape"] = [1, len(view.tokens)]
        if names:
            return Place(row=view.row)
    return None


@mutation(fires=("INP005",))
def loss_input_truncated(dataset: Dataset, rng: random.Random) -> Place | None:
    """A loss input is one shorter than the others: it was cut where they were not."""
    loss = dataset.contract.loss
    for view in views(dataset, rng, spare=True):
        names = [name for name in view.inputs if loss.takes(name) and name != TARGETS]
        if names:
            name = rng.choice(names)
            view.inputs[name].pop()
            if view.tensors[name].get("shape") is not None:
                view.tensors[name]["shape"] = [len(view.inputs[name])]
            return Place(row=view.row, field=name)
    return None


@mutation(fires=("SPN003", "SPN004"))
def padded_right(dataset: Dataset, rng: random.Random) -> Place | None:
    """Input and loss inputs were padded on the right to a common length, and the spans were not."""
    for view in views(dataset, rng, spare=True):
        if view.spanned and view.plain and view.targets:
            for _ in range(rng.randint(1, 8)):
                append_token(view, 0, 0)
            return Place(row=view.row)
    return None


@mutation(fires=("INP006",))
def datum_empty(dataset: Dataset, rng: random.Random) -> Place | None:
    """A rollout ended before its first token and left an empty datum behind."""
    for view in views(dataset, rng, spare=True):
        if view.plain:
            view.chunks.clear()
            for values in view.inputs.values():
                values.clear()
            for tensor in view.tensors.values():
                tensor["shape"] = [0]
            if view.spanned:
                view.datum.update({INPUT_SPANS: [], TARGET_SPANS: []})
            return Place(row=view.row, field="model_input")
    return None


@mutation(fires=("INP007",))
def signal_as_integers(dataset: Dataset, rng: random.Random) -> Place | None:
    """Advantages, weights or a mask are whole numbers in a list of Python ints, and declared int64."""
    names = [name for name in (signal_name(dataset), _MASK) if dataset.contract.loss.takes(name)]
    for view in views(dataset, rng):
        for name in shuffled([name for name in names if name in view.inputs], rng):
            if view.tensors[name]["dtype"] == "float32" and dataset.contract.parameters.advantage_limit >= 1:
                view.inputs[name][:] = [int(nonzero(v)) * (1 if v > 0 else -1) for v in view.inputs[name]]
                view.tensors[name]["dtype"] = "int64"
                return Place(row=view.row, field=name)
    return None


@mutation(fires=("INP008",))
def ratio_mask_without_a_one(dataset: Dataset, rng: random.Random) -> Place | None:
    """The mask of the sequence ratio is 0 everywhere, and a mean over nothing is NaN."""
    for view in views(dataset, rng):
        mask = view.inputs.get(_MASK)
        if mask is not None:
            mask[:] = [0.0] * len(mask)
            return Place(row=view.row, field=_MASK)
    return None


@mutation(fires=("INP009",))
def context_too_short(dataset: Dataset, rng: random.Random) -> Place | None:
    """The model that is trained has a shorter context than the longest datum."""
    found = list(views(dataset, rng))
    longest = max((len(view.tokens) for view in found), default=0)
    rows = [view.row for view in found if len(view.tokens) == longest]
    if longest < 2:
        return None
    dataset.contract = dataset.contract.with_parameters(max_tokens=longest - 1)
    return Place(row=rows[0] if len(rows) == 1 else None, field="model_input")


@mutation(fires=("TOK002",))
def empty_text_chunk(dataset: Dataset, rng: random.Random) -> Place | None:
    """A text chunk without tokens was appended, as a recipe does for a completion of one token."""
    for view in views(dataset, rng):
        view.chunks.append({"type": "encoded_text", "tokens": []})
        return Place(row=view.row, field="model_input", index=len(view.chunks) - 1, length=1)
    return None


@mutation(fires=("TOK003",))
def image_without_length(dataset: Dataset, rng: random.Random) -> Place | None:
    """An image does not say how many positions it takes."""
    for view in views(dataset, rng, spare=True):
        images = [i for i, chunk in enumerate(view.chunks) if chunk["type"] == "image"]
        if images and view.spanned:
            i = rng.choice(images)
            del view.chunks[i]["expected_tokens"]
            return Place(row=view.row, field="model_input", index=i, length=1)
    return None


@mutation(fires=("TOK004",))
def image_by_reference(dataset: Dataset, rng: random.Random) -> Place | None:
    """An image is named by its location, as for sampling, and was not loaded."""
    for view in views(dataset, rng):
        images = [i for i, chunk in enumerate(view.chunks) if chunk["type"] == "image"]
        if images:
            i = rng.choice(images)
            image = view.chunks[i]
            view.chunks[i] = {
                "type": "image_asset_pointer",
                "location": _LOCATION,
                "format": image.get("format", "png"),
                "expected_tokens": image["expected_tokens"],
            }
            return Place(row=view.row, field="model_input", index=i, length=1)
    return None


@mutation(fires=())
def text_chunk_split(dataset: Dataset, rng: random.Random) -> Place | None:
    """A text chunk stands as two, one after the other, which is legal."""
    for view in views(dataset, rng):
        places = [i for i, chunk in enumerate(view.chunks) if len(chunk.get("tokens") or ()) > 1]
        if places:
            i = rng.choice(places)
            tokens = view.chunks[i]["tokens"]
            at = rng.randrange(1, len(tokens))
            parts = [{"type": "encoded_text", "tokens": part} for part in (tokens[:at], tokens[at:])]
            view.chunks[i : i + 1] = parts
            return Place(row=view.row, field="model_input", index=i, length=2)
    return None


@mutation(fires=())
def optional_fields_null(dataset: Dataset, rng: random.Random) -> Place | None:
    """Optional fields that are not there were written as null, which is the same."""
    for view in views(dataset, rng):
        absent = [field for field in (INPUT_SPANS, TARGET_SPANS) if field not in view.datum]
        for tensor in view.tensors.values():
            tensor.setdefault("sparse_crow_indices", None)
            tensor.setdefault("sparse_col_indices", None)
        view.datum.update(dict.fromkeys(absent))
        view.datum["loss_fn_inputs"].setdefault("mask", None)
        return Place(row=view.row)
    return None
