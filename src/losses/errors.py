"""The exception of this package."""

from __future__ import annotations

from provenance.errors import ProvenanceError

__all__ = ["LossError"]


class LossError(ProvenanceError, ValueError):
    """A loss or a diagnostic cannot be computed from these arguments; the message says why."""
