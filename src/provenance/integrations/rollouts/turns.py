"""Turns as this package writes them down: a `Trajectory` a line, for frameworks that can write one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from provenance.integrations.rollouts._formats import Claims, Unusable
from provenance.models import Trajectory

MARK: Final = "turns"
SAYS_ALL: Final = True


def read(record: Mapping[str, Any], claims: Claims) -> Iterator[Trajectory | Unusable]:  # noqa: ARG001 - the signature of all importers
    """Yield the trajectory that the record is.

    Raises:
        SchemaError: it is malformed.
    """
    yield Trajectory.model_validate(record)
