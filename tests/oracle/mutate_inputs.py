"""Faults in loss inputs: values at the edge of every tolerance, shapes, dtypes, inputs that come and go."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from random import Random

import numpy as np

from oracle.generate import token
from oracle.world import PARAMETERS, TARGETS, Json, World

#: A fault of one datum; it may look for others of the world, and does nothing where it does not apply.
Mutation = Callable[[Random, World, Json], None]
NUMBERS = (
    math.nan, math.inf, -math.inf, None, 0.0, -0.0, 1e-9, 1e-46, -1e-46, 1e39, -3.5e38, 0.25, -0.25, 0.5, 1.0,
    -1.0, 1e-4, 1.0001e-4, 1, 0, -1, 100.0, -100.0, 100.001, -101.0, 2.5, 2.5000005, 10**30, 10**400,
)  # fmt: skip
IDS = (
    -100, -1, 0, 1, 22, 999, 1000, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 13.0, 13.5, math.nan, None,
)  # fmt: skip


def up(value: float, steps: int) -> float:
    """The float32 that lies some steps from a value."""
    at = np.float32(value)
    for _ in range(abs(steps)):
        at = np.nextafter(at, np.float32(math.copysign(math.inf, steps)))
    return float(at)


def some_tensor(rng: Random, datum: Json) -> Json | None:
    tensors = [
        t for t in datum["loss_fn_inputs"].values() if isinstance(t, dict) and isinstance(t.get("data"), list)
    ]
    return rng.choice(tensors) if tensors else None


def set_value(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held and held["data"]:
        held["data"][rng.randrange(len(held["data"]))] = rng.choice(
            IDS if held["dtype"] == "int64" else NUMBERS
        )


def set_some_values(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held and held["data"]:
        value = rng.choice(IDS if held["dtype"] == "int64" else NUMBERS)
        first = rng.randrange(len(held["data"]))
        for at in range(first, min(first + rng.randint(1, 4), len(held["data"]))):
            held["data"][at] = value


def set_target(rng: Random, world: World, datum: Json) -> None:
    held = datum["loss_fn_inputs"].get(TARGETS)
    if held and held["data"]:
        held["data"][rng.randrange(len(held["data"]))] = token(rng)


def shift_tensor(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held and held["data"]:
        data, step = held["data"], rng.choice((1, -1))
        held["data"] = data[step:] + data[:step]


def flatten_tensor(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held:
        held["data"] = [rng.choice((0.0, 0.0, -0.0, 0, 1.0))] * len(held["data"])


def edge_advantage(rng: Random, world: World, datum: Json) -> None:
    """Advantages of a span are cut or set at its first or last token."""
    advantages, spans = datum["loss_fn_inputs"].get("advantages"), datum.get("loss_fn_input_spans")
    if not advantages or not advantages["data"] or not spans:
        return
    last = -1
    for span in spans:
        last += span["length"]
        if span["type"] == "sampled" and 0 <= last < len(advantages["data"]) and rng.random() < 0.7:
            first = max(last - span["length"] + 1, 0)
            advantages["data"][min(rng.choice((first, last)), last)] = rng.choice((0.0, -0.0, 1.0))


def limit_value(rng: Random, world: World, datum: Json) -> None:
    """An advantage or a logprob a float32 step around its limit."""
    name, limit = rng.choice((("advantages", "advantage_limit"), ("logprobs", "tolerance")))
    held = datum["loss_fn_inputs"].get(name)
    if held and held["data"]:
        edge = world.parameters.get(limit, PARAMETERS[limit])
        at = rng.randrange(len(held["data"]))
        held["data"][at] = up(edge, rng.choice((-1, 0, 1))) * (
            -1 if name == "advantages" and rng.random() < 0.5 else 1
        )


def near_record(rng: Random, world: World, datum: Json) -> None:
    """A logprob as far from the recorded one as is just allowed, or a float32 step more."""
    held = datum["loss_fn_inputs"].get("logprobs")
    if not held or not held["data"]:
        return
    at = rng.randrange(len(held["data"]))
    if not isinstance(held["data"][at], float):
        return
    absolute, relative = world.parameters.get("logprob_abs", 1e-3), world.parameters.get("logprob_rel", 2**-7)
    recorded = held["data"][at]
    allowed = (
        (recorded - absolute) / (1 - relative)
        if rng.random() < 0.5
        else recorded + absolute - relative * recorded
    )
    held["data"][at] = up(allowed, rng.choice((-2, -1, 0, 1, 2))) if math.isfinite(allowed) else allowed


def far_from_record(rng: Random, world: World, datum: Json) -> None:
    """All logprobs moved by about the mean distance that is allowed."""
    held = datum["loss_fn_inputs"].get("logprobs")
    if held:
        by = world.parameters.get("foreign_logprobs", 0.5) * rng.choice((1.0, 1.0, 1.001, 0.999, 2.0))
        held["data"] = [v - by if isinstance(v, float) else v for v in held["data"]]


# --- tensors ------------------------------------------------------------------------------------------------


def resize_tensor(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if not held:
        return
    if rng.random() < 0.5 and held["data"]:
        held["data"].pop(rng.choice((0, -1)))
    else:
        held["data"].append(held["data"][-1] if held["data"] else 0)
    if rng.random() < 0.6 and len(held.get("shape") or ()) == 1:
        held["shape"] = [len(held["data"])]


def reshape_tensor(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held:
        n = len(held["data"])
        held["shape"] = rng.choice(
            (
                None,
                [],
                [n],
                [1, n],
                [n, 1],
                [n + 1],
                [n - 1],
                [-1],
                [-n],
                [n, 1, 1],
                [2, n // 2],
                [n, 0],
                [0, n],
                [0],
            )
        )


def redeclare_tensor(rng: Random, world: World, datum: Json) -> None:
    held = some_tensor(rng, datum)
    if held:
        held["dtype"] = rng.choice(("int64", "float32", "float64", "bfloat16", "int32", "", "Int64"))
        if rng.random() < 0.5:
            held["data"] = [int(v) if isinstance(v, float) and math.isfinite(v) else v for v in held["data"]]


def integers(rng: Random, world: World, datum: Json) -> None:
    """A list of Python ints where floats belong, which becomes int64."""
    names = [n for n, t in datum["loss_fn_inputs"].items() if t and n != TARGETS]
    if names:
        held = datum["loss_fn_inputs"][rng.choice(names)]
        held["dtype"] = "int64"
        held["data"] = [int(v) if isinstance(v, float) and math.isfinite(v) else v for v in held["data"]]


def drop_tensor(rng: Random, world: World, datum: Json) -> None:
    inputs = datum["loss_fn_inputs"]
    if inputs:
        name = rng.choice(sorted(inputs))
        if rng.random() < 0.5:
            del inputs[name]
        else:
            inputs[name] = None


def add_tensor(rng: Random, world: World, datum: Json) -> None:
    inputs = datum["loss_fn_inputs"]
    name = rng.choice(
        ("mask", "weights", "advantages", "logprobs", "clip_low_threshold", "sequence_ratio_mask", "x.y")
    )
    source = some_tensor(rng, datum)
    if name not in inputs and source:
        inputs[name] = copy.deepcopy(source)
        if rng.random() < 0.5:
            inputs[name] = {"data": [0.0] * len(source["data"]), "dtype": "float32"}


def break_sparse(rng: Random, world: World, datum: Json) -> None:
    sparse = [t for t in datum["loss_fn_inputs"].values() if t and t.get("sparse_crow_indices")]
    if not sparse:
        return
    held = rng.choice(sparse)
    numbers = held[rng.choice(("sparse_crow_indices", "sparse_col_indices", "shape"))]
    kind = rng.random()
    if kind < 0.2:
        del held[rng.choice(("sparse_crow_indices", "sparse_col_indices", "shape"))]
    elif numbers and kind < 0.8:
        numbers[rng.randrange(len(numbers))] += rng.choice((-1, 1, 5))
    elif numbers:
        numbers.pop()


OF_VALUES: tuple[Mutation, ...] = (
    *(set_value, set_value, set_some_values, set_target, shift_tensor, flatten_tensor),
    *(edge_advantage, edge_advantage, limit_value, near_record, near_record, far_from_record),
)
OF_TENSORS: tuple[Mutation, ...] = (
    *(resize_tensor, reshape_tensor, redeclare_tensor, integers, drop_tensor, add_tensor),
    *(break_sparse, break_sparse),
)
