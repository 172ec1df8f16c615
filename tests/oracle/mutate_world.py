"""Faults in the ledger and in the circumstances, and the mix of faults that a world gets."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from datetime import timedelta
from random import Random

from oracle.generate import time_text, token
from oracle.mutate_datums import OF_CHUNKS, OF_DATUMS, junk
from oracle.mutate_inputs import OF_TENSORS, OF_VALUES, up
from oracle.mutate_spans import OF_SPANS, break_span
from oracle.world import CONFIG_KEYS, PARAMETERS, Json, World, moment

#: After these a datum may have no shape that another fault could be made in.
OF_TYPES = (junk, break_span)
OF_SHAPES = OF_TENSORS + OF_CHUNKS
OF_CONTENT = OF_VALUES + OF_DATUMS + OF_SPANS
MICROSECOND = timedelta(microseconds=1)


def _of(world: World, name: str) -> float:
    return world.parameters.get(name, PARAMETERS[name])


# --- records ------------------------------------------------------------------------------------------------


def age_record(rng: Random, world: World, record: Json) -> None:
    """A record at the very edge of the window, of the margin, or of the skew."""
    now, used = moment(world.now), timedelta(seconds=_of(world, "window"))
    if rng.random() < 0.3:
        used -= timedelta(seconds=_of(world, "margin"))
    elif rng.random() < 0.3:
        used = -timedelta(seconds=_of(world, "skew"))
    at = time_text(now - used + rng.choice((-1, 0, 0, 1)) * rng.choice((MICROSECOND, timedelta(seconds=1))))
    earlier = time_text(moment(at) - timedelta(days=rng.choice((0, 1, 40))))
    record["sampled_at"], record["last_used_at"] = rng.choice(
        ((at, None), (at, at), (earlier, at), (at, earlier))
    )


def rewrite_record(rng: Random, world: World, record: Json) -> None:
    tokens = record[rng.choice(("tokens", "prompt_tokens"))]
    kind = rng.random()
    if kind < 0.4 and tokens:
        tokens[rng.randrange(len(tokens))] = token(rng)
    elif kind < 0.5 and tokens:
        tokens[rng.randrange(len(tokens))] = -1 if tokens is record["prompt_tokens"] else 0
    elif kind < 0.75 and tokens:
        tokens.pop(rng.choice((0, -1)))
        if tokens is record["tokens"] and rng.random() < 0.7 and record["logprobs"]:
            record["logprobs"].pop()
    else:
        tokens.append(token(rng))
        if tokens is record["tokens"] and rng.random() < 0.7:
            record["logprobs"].append(-1.0)


def rescore_record(rng: Random, world: World, record: Json) -> None:
    logprobs = record["logprobs"]
    kind = rng.random()
    if kind < 0.2:
        record["logprobs"] = [0.0] * len(logprobs)
    elif kind < 0.35 and logprobs:
        logprobs.pop()
    elif kind < 0.4:
        logprobs.append(-0.5)
    elif logprobs:
        edge = up(_of(world, "tolerance"), rng.choice((0, 1)))
        logprobs[rng.randrange(len(logprobs))] = rng.choice(
            (math.nan, math.inf, -math.inf, edge, edge, 0.25, -0.125, -9.0, -0.0)
        )


def resample_record(rng: Random, world: World, record: Json) -> None:
    name = rng.choice(("temperature", "top_p", "top_k", "policy_version", "record_stability_info"))
    record[name] = rng.choice(
        {
            "temperature": (None, 0.7, 0.0, 1.0, 1.0000001),
            "top_p": (None, 0.95, 1.0),
            "top_k": (None, 0, -1, 1, 50),
            "policy_version": (None, "0", "3", "6", "-2", "step-3", ""),
            "record_stability_info": (False, False, True),
        }[name]
    )


def rename_record(rng: Random, world: World, record: Json) -> None:
    if rng.random() < 0.4:
        record["session_id"] = "session-2"
    elif rng.random() < 0.3:
        record["sequence_id"] += " "
    elif world.sequences and len(world.sequences) > 1:
        world.sequences.remove(record)


def repeat_record(rng: Random, world: World, record: Json) -> None:
    """The record again: the same, with another content, or of another session."""
    other = copy.deepcopy(record)
    kind = rng.random()
    if kind < 0.25:
        other["session_id"] = "session-2"
    elif kind < 0.6:
        rng.choice((rewrite_record, rescore_record))(rng, world, other)
    assert world.sequences is not None
    world.sequences.insert(rng.randint(0, len(world.sequences)), other)


RECORD_MUTATIONS = (
    age_record, age_record, rewrite_record, rescore_record, resample_record, rename_record, repeat_record,
)  # fmt: skip

# --- circumstances ------------------------------------------------------------------------------------------

CONFIGS = {
    "kl_coeff": (0, 0.0, 0.02, -0.0, -1e-9, 1, True, "0.01", math.nan, math.inf, None, 10**400, [0.1]),
    "clip_low_threshold": (0.8, 0.0, 1.2, 1.5, -1.0, 1, False, math.nan, None, "0.8"),
    "clip_high_threshold": (1.2, 1.28, 0.28, 1.0, 1, 0.8, 4.0, math.inf, True, None, "1.2"),
    "beta": (0.05, 0, -1.0, math.nan, -math.inf, True, None),
    "loss_id": ("mine", 3),
    "kl_coef": (0.01,),
}


def circumstances(rng: Random, world: World) -> World:
    """Other options of the loss, another session, another time."""
    own = CONFIG_KEYS.get(world.loss, ())
    config = {
        name: rng.choice(values)
        for name, values in CONFIGS.items()
        if rng.random() < (0.5, 0.05)[name not in own]
    }
    world = replace(world, config=config)
    if rng.random() < 0.1:
        world = replace(world, session=rng.choice(("session-2", "session-3", None)))
    if rng.random() < 0.1:
        seconds = rng.choice((-7200, -300, 1, 79200, 86400, 90000))
        world = replace(world, now=time_text(moment(world.now) + timedelta(seconds=seconds)))
    return world


def without_signal(rng: Random, world: World) -> None:
    """No advantage and no weight is anything but zero."""
    for datum in world.datums:
        for name, held in (
            datum["loss_fn_inputs"].items() if isinstance(datum.get("loss_fn_inputs"), dict) else ()
        ):
            if (
                name in ("advantages", "weights")
                and isinstance(held, dict)
                and isinstance(held.get("data"), list)
            ):
                held["data"] = [rng.choice((0.0, -0.0, 1e-46)) for _ in held["data"]]


def mutated(rng: Random, world: World) -> World:
    """The world with up to three faults in most of its datums, and some in its ledger and circumstances."""
    world = circumstances(rng, world)
    for datum in list(world.datums):
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
            kind = rng.random()
            family = OF_TYPES if kind < 0.03 else OF_SHAPES if kind < 0.12 else OF_CONTENT
            rng.choice(family)(rng, world, datum)
            if family is OF_TYPES:
                break
    if world.sequences:
        for record in rng.sample(world.sequences, len(world.sequences) // 3):
            rng.choice(RECORD_MUTATIONS)(rng, world, record)
    if rng.random() < 0.05:
        without_signal(rng, world)
    return replace(world, datums=[]) if rng.random() < 0.01 else world
