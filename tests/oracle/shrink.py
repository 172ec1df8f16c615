"""A disagreement, made small enough to read: what is not needed for it is left out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from oracle.mutate_datums import drop_position
from oracle.world import SPAN_LISTS, World


def shrunk(world: World, disagrees: Callable[[World], bool]) -> World:
    """A small world that still disagrees: what can be left out of it, piece by piece, is."""
    for datums in ([datum] for datum in world.datums):
        if disagrees(replace(world, datums=datums)):
            world = replace(world, datums=datums)
            break
    world = _without(world, "datums", disagrees)
    world = _without(world, "sequences", disagrees)
    for name in ("parameters", "config"):
        for key in list(getattr(world, name)):
            less = {k: v for k, v in getattr(world, name).items() if k != key}
            if disagrees(replace(world, **{name: less})):
                world = replace(world, **{name: less})
    for at in range(len(world.datums)):
        for cut in _cuts(world.datums[at]):
            datum = copy.deepcopy(world.datums[at])
            try:
                cut(datum)
            except (
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
            ):  # nothing there that could be left out
                continue
            smaller = replace(world, datums=[*world.datums[:at], datum, *world.datums[at + 1 :]])
            if datum != world.datums[at] and disagrees(smaller):
                world = smaller
    return world


def _without(world: World, name: str, disagrees: Callable[[World], bool]) -> World:
    """Leaves items out of a list, half of them at a time, then a quarter, down to one."""
    size = len(getattr(world, name) or ())
    while size := size // 2:
        at = 0
        while at < len(getattr(world, name)):
            items = getattr(world, name)
            smaller = replace(world, **{name: items[:at] + items[at + size :]})
            if len(items) > size and disagrees(smaller):
                world = smaller
            else:
                at += size
    return world


def _cuts(datum: Any) -> Iterator[Callable[[Any], object]]:
    """Changes that each make a datum smaller."""
    if not isinstance(datum, dict):
        return
    for name in ("datum_id", "group_id", "metadata", *SPAN_LISTS):
        yield lambda d, name=name: d.pop(name)
    for key in list(datum.get("loss_fn_inputs") or ()):
        yield lambda d, key=key: d["loss_fn_inputs"].pop(key)
    for name in SPAN_LISTS:
        for at in reversed(range(len(datum.get(name) or ()))):
            yield lambda d, name=name, at=at: d[name].pop(at)
    for at in reversed(range(40)):
        yield lambda d, at=at: drop_position(d, at)
    for at in reversed(range(9)):
        yield lambda d, at=at: d["model_input"]["chunks"].remove({"type": "encoded_text", "tokens": []})


def shown(world: World) -> str:
    """A world as text that Python reads back."""
    lines = [f"loss {world.loss!r}, session {world.session!r}, now {world.now!r}"]
    lines += [f"config {world.config!r}, parameters {world.parameters!r}"]
    lines += [f"datum {row}: {json.dumps(datum)}" for row, datum in enumerate(world.datums)]
    lines += [f"sequence {row}: {json.dumps(record)}" for row, record in enumerate(world.sequences or ())]
    return "\n".join(lines + (["no ledger"] if world.sequences is None else []))
