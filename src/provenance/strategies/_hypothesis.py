"""The library that these strategies are for, which not everybody has."""

from provenance.errors import MissingDependencyError

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingDependencyError("hypothesis", "testing") from None

__all__ = ["st"]
