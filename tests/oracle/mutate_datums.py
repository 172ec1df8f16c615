"""Faults in model_input and in datums as a whole."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from oracle.generate import token
from oracle.mutate_inputs import Mutation
from oracle.world import SPAN_LISTS, Json, World

#: No list: readers take nested lists of numbers for (N, K) data.
JUNK: tuple[Any, ...] = (True, "1", {}, {"a": 1})


def text_chunk(rng: Random, datum: Json) -> Json | None:
    chunks = [c for c in datum["model_input"]["chunks"] if c["type"] == "encoded_text" and c["tokens"]]
    return rng.choice(chunks) if chunks else None


def set_token(rng: Random, world: World, datum: Json) -> None:
    chunk = text_chunk(rng, datum)
    if chunk:
        at = rng.randrange(len(chunk["tokens"]))
        chunk["tokens"][at] = (
            token(rng)
            if rng.random() < 0.7
            else rng.choice((None, -1, -100, 2**31, 2**31 - 1, 999, 1000, 2**63, 0))
        )


def resize_text(rng: Random, world: World, datum: Json) -> None:
    chunk = text_chunk(rng, datum)
    if chunk:
        at = rng.randrange(len(chunk["tokens"]))
        if rng.random() < 0.5:
            del chunk["tokens"][at]
        else:
            chunk["tokens"].insert(at, token(rng))


def rechunk(rng: Random, world: World, datum: Json) -> None:
    chunks = datum["model_input"]["chunks"]
    at = rng.randint(0, len(chunks))
    kind = rng.random()
    if kind < 0.4:
        chunks.insert(at, {"type": "encoded_text", "tokens": []})
    elif kind < 0.6 and chunks:
        del chunks[min(at, len(chunks) - 1)]
    elif kind < 0.9 and chunks:
        chunk = chunks[min(at, len(chunks) - 1)]
        if chunk["type"] == "encoded_text" and len(chunk["tokens"]) > 1:
            cut = rng.randint(1, len(chunk["tokens"]) - 1)
            chunks.insert(min(at, len(chunks) - 1), {"type": "encoded_text", "tokens": chunk["tokens"][:cut]})
            chunk["tokens"] = chunk["tokens"][cut:]
    else:
        chunks.clear()


def to_image(rng: Random, world: World, datum: Json) -> None:
    """A piece of the text becomes an image, of its length or not."""
    chunk = text_chunk(rng, datum)
    if not chunk:
        return
    chunks = datum["model_input"]["chunks"]
    at = next(i for i, c in enumerate(chunks) if c is chunk)
    first = rng.randrange(len(chunk["tokens"]))
    last = rng.randint(first + 1, len(chunk["tokens"]))
    image = {
        "type": rng.choice(("image", "image", "image_asset_pointer")),
        "format": "jpeg",
        "expected_tokens": rng.choice((last - first, last - first, last - first + 1, None, 0)),
    }
    image["data" if image["type"] == "image" else "location"] = "aGk="
    chunks[at : at + 1] = [
        {"type": "encoded_text", "tokens": chunk["tokens"][:first]},
        image,
        {"type": "encoded_text", "tokens": chunk["tokens"][last:]},
    ]
    if rng.random() < 0.7:
        chunks[:] = [c for c in chunks if c["type"] != "encoded_text" or c["tokens"]]


def resize_image(rng: Random, world: World, datum: Json) -> None:
    images = [c for c in datum["model_input"]["chunks"] if c["type"] == "image"]
    if images:
        image = rng.choice(images)
        image["expected_tokens"] = rng.choice((None, 0, image.get("expected_tokens", 1) or 1, 4, 10**12))


# --- whole datums -------------------------------------------------------------------------------------------


def junk(rng: Random, world: World, datum: Json) -> None:
    """Something of another type anywhere, a field that is not known, or one that is missing."""
    at: Any = datum
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = rng.choice(keys)
        if key in ("metadata", "datum_id"):
            return
        if not isinstance(at[key], dict | list) or rng.random() < 0.2:
            break
        at = at[key]
    kind = rng.random()
    if kind < 0.6:
        at[key] = rng.choice((*JUNK, 1.5, None))
    elif isinstance(at, dict) and kind < 0.8:
        at["surprise"] = 1
    elif isinstance(at, dict):
        del at[key]


def repeat(rng: Random, world: World, datum: Json) -> None:
    """The datum a second time somewhere in the dataset."""
    world.datums.insert(rng.randint(0, len(world.datums)), copy.deepcopy(datum))


def drop_position(datum: Json, at: int) -> None:
    """One position less, in whatever has one; what does not fit is left as it is."""
    start = 0
    for chunk in datum["model_input"]["chunks"]:
        text = chunk["type"] == "encoded_text"
        size = len(chunk["tokens"]) if text else chunk.get("expected_tokens") or 0
        if start <= at < start + size:
            if text:
                del chunk["tokens"][at - start]
            else:
                chunk["expected_tokens"] -= 1
            break
        start += size
    for held in datum["loss_fn_inputs"].values():
        if held and at < len(held["data"]) and len(held.get("shape") or [0]) == 1:
            del held["data"][at]
            if held.get("shape"):
                held["shape"][0] -= 1
    for name in SPAN_LISTS:
        start = 0
        for span in datum.get(name) or ():
            if start <= at < start + span["length"]:
                span["length"] -= 1
                break
            start += span["length"]


def truncate(rng: Random, world: World, datum: Json) -> None:
    """Positions are cut off the end, everywhere, as a length limit does."""
    size = sum(len(c.get("tokens", ())) for c in datum["model_input"]["chunks"])
    for _ in range(rng.randint(1, 3)):
        size -= 1
        if size >= 0:
            drop_position(datum, size)


OF_CHUNKS: tuple[Mutation, ...] = (resize_text, resize_image)
OF_DATUMS: tuple[Mutation, ...] = (set_token, set_token, rechunk, to_image, repeat, truncate)
