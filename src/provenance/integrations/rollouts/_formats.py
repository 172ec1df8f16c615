"""What a format is: a module of this package, found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol, cast

from provenance.errors import ProvenanceError

if TYPE_CHECKING:
    from datetime import datetime

    from provenance.models import Trajectory


@dataclass(frozen=True, slots=True)
class Claims:
    """What a framework's file does not say about its sequences, and whoever sampled them knows."""

    session: str | None = None
    """The session that sampled."""
    sampled_at: datetime | None = None
    """When, aware; None where the records say it."""
    record_stability_info: bool = False
    """Whether the sampling client asked for stability info."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A record, or one turn of it, that no datum can be made of."""

    reason: str
    """The kind of fault, in a few words that are the same for all of its kind."""
    detail: str = ""
    """What was found."""
    turn: str = ""
    """Where in the record, as a path; "" for the record as a whole."""
    file: str = ""
    """The importer leaves file and line to the reader."""
    line: int = 0
    """Physical line, from 1."""

    def __str__(self) -> str:
        """Write place and detail, without the reason."""
        parts = (self.file, f"line {self.line}" if self.line else "", self.turn, self.detail)
        return ": ".join(filter(None, parts))


class Importer(Protocol):
    """A module of this package that reads one format."""

    MARK: str
    """The field that every record of the format has, by which it is told from others."""
    SAYS_ALL: bool
    """Records say session, time and stability info themselves, so that nobody may claim them."""

    def read(self, record: Mapping[str, Any], claims: Claims) -> Iterator[Trajectory | Unusable]:
        """Yield the trajectory of a record, if it has one, and what cannot be used of it.

        Raises:
            RecordError, SchemaError: the record is malformed; the reader reports it as unusable.
        """
        ...


def names() -> list[str]:
    """The formats there are, sorted."""
    package = importlib.import_module(__package__)
    modules = (module.name for module in iter_modules(package.__path__))
    return sorted(name.replace("_", "-") for name in modules if not name.startswith("_"))


def importer(name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        ProvenanceError: there is none of this name.
    """
    if name not in names():
        near = get_close_matches(name, names(), n=1)
        meant = f", did you mean {near[0]!r}?" if near else f": there is {', '.join(names())}"
        raise ProvenanceError(f"{name!r} is no format of rollouts{meant}")
    return cast("Importer", importlib.import_module(f"{__package__}.{name.replace('-', '_')}"))
