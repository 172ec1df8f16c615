"""Faults of the loss's options."""

from __future__ import annotations

import random
from typing import Final

from provenance.mutations._dataset import Dataset
from provenance.mutations._mutation import Place, mutation

#: Options that are numbers.
_NUMBERS: Final = ("kl_coeff", "clip_low_threshold", "clip_high_threshold", "beta")
_LOW, _HIGH = "clip_low_threshold", "clip_high_threshold"


@mutation(fires=("CFG001",))
def option_is_true(dataset: Dataset, rng: random.Random) -> Place | None:
    """A switch was given for a number: True, which some clients would take for 1.0."""
    numbers = [name for name in dataset.contract.loss.config if name in _NUMBERS]
    if not numbers:
        return None
    name = rng.choice(numbers)
    dataset.loss_config[name] = True
    return Place(field=name)


@mutation(fires=("CFG002",))
def option_misspelt(dataset: Dataset, rng: random.Random) -> Place | None:
    """An option is misspelt, and its default stays in force."""
    name = rng.choice(dataset.contract.loss.config or _NUMBERS)
    dataset.loss_config[f"{name}_"] = 0.5
    return Place(field=f"{name}_")


@mutation(fires=("CFG003",))
def epsilon_as_threshold(dataset: Dataset, rng: random.Random) -> Place | None:
    """The clip thresholds are distances from 1, as papers state them, where ratios are expected."""
    if _HIGH not in dataset.contract.loss.config:
        return None
    dataset.loss_config |= {_LOW: 0.2, _HIGH: 0.28}
    return Place(field=_HIGH)
