"""The ``@mutation`` declaration, the registry of all mutations, and applying them by name.

A mutation is a function that breaks a dataset the way a pipeline would, at one place. What must then be
reported stands in its declaration, and the registry follows from the declarations. An incomplete one fails at
import.
"""

from __future__ import annotations

import difflib
import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from provenance import rules
from provenance.errors import SchemaError
from provenance.mutations._dataset import Dataset
from provenance.report import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a mutation changed a dataset. None: it cannot be said, or concerns all."""

    row: int | None = None
    """The datum, by its row after the change."""
    field: str | None = None
    """As reports name it: ``model_input``, a loss input, a span list, a field of a record, a loss option."""
    index: int | None = None
    """First changed element of the field: a position, a chunk or a span."""
    length: int | None = None
    """Number of changed elements from there."""
    sequence_id: str | None = None
    """The sequence whose record, or whose stretch of a datum, was changed."""

    def location(self, *, file: str | None = None, line: int | None = None) -> Location:
        """The place as reports have it."""
        return Location(
            file=file,
            row=self.row,
            line=line,
            field=self.field,
            index=self.index,
            length=self.length,
            sequence_id=self.sequence_id,
        )


Mutate: TypeAlias = Callable[[Dataset, random.Random], Place | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mutation:
    """One named fault, or a change that keeps data valid.

    It promises, of a dataset in which nothing is reported: all of ``fires`` that the contract checks are
    reported at its place, perhaps some of ``may`` as well, and nothing else.
    """

    name: str
    fires: tuple[str, ...]
    """Codes that are always reported; none where the data stay valid."""
    may: tuple[str, ...]
    """Codes that may be reported besides, depending on the place."""
    family: str
    """What it changes: the name of its module."""
    summary: str
    """What happened, for a person."""
    mutate: Mutate
    """Changes a dataset in place; None where nothing in it can be broken that way, and it is as before."""

    @property
    def pure(self) -> bool:
        """Exactly one rule is broken."""
        return len(self.fires) == 1 and not self.may


_registry: dict[str, Mutation] = {}


def mutation(*, fires: tuple[str, ...], may: tuple[str, ...] = ()) -> Callable[[Mutate], Mutate]:
    """Declare a mutation; the decorated function is its body, its name the function's with hyphens.

    The body chooses a place with the generator it is given and with nothing else. The first line of its
    docstring is the sentence that a person reads.

    Args:
        fires: codes of the rules that must report it.
        may: codes that may be reported besides.

    Raises:
        TypeError: the declaration is incomplete or contradicts another one.
    """

    def declare(function: Mutate) -> Mutate:
        name = function.__name__.replace("_", "-")
        summary = (inspect.getdoc(function) or "").split("\n", 1)[0]
        unknown = sorted({*fires, *may} - set(rules.registry()))
        for wrong, problem in (
            (name in _registry, "the name is used already"),
            (not summary.endswith("."), "the docstring needs a first line that is a sentence"),
            (bool(unknown), f"no rule has the code {', '.join(unknown)}"),
            (len({*fires, *may}) < len(fires) + len(may), "a code is named twice"),
            (bool(may) and not fires, "'may' without 'fires': does it break the data or not"),
        ):
            if wrong:
                raise TypeError(f"mutation {name}: {problem}")
        _registry[name] = Mutation(
            name=name,
            fires=fires,
            may=may,
            family=function.__module__.rpartition(".")[2],
            summary=summary,
            mutate=function,
        )
        return function

    return declare


def registry() -> Mapping[str, Mutation]:
    """All mutations by name, in the order of their declarations."""
    return MappingProxyType(_registry)


def apply(dataset: Dataset, names: Iterable[str], seed: int) -> list[tuple[Mutation, Place]]:
    """Change a dataset in place by mutations, one after the other, each at a place chosen by the seed.

    The same dataset, names and seed give the same result on every machine. A datum that an earlier mutation
    left unreadable is not chosen again.

    Args:
        dataset: is changed; ``dataset.copy()`` keeps the original.
        names: names of mutations; one that occurs twice is applied twice.
        seed: chooses the places.

    Returns:
        The mutations that were applied, in their order, and where. One that could break nothing is left out.

    Raises:
        SchemaError: a name is no mutation's; nothing was changed.
    """
    chosen = [named(name) for name in names]
    applied = []
    for number, found in enumerate(chosen):
        rng = random.Random(f"{seed}/{number}/{found.name}")  # noqa: S311 - reproducible, not secret
        place = found.mutate(dataset, rng)
        if place is not None:
            applied.append((found, place))
    return applied


def named(name: str) -> Mutation:
    """The mutation of that name; raises `SchemaError`."""
    if name in _registry:
        return _registry[name]
    near = difflib.get_close_matches(str(name), _registry, 1, 0.5)
    remedy = f"did you mean {near[0]!r}?" if near else "provenance.mutations.registry() names all"
    raise SchemaError(f"no mutation is called {name!r}, {remedy}")
