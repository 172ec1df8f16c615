"""The SDK, or an error that says which one is needed."""

from __future__ import annotations

from provenance.errors import MissingDependencyError, ProvenanceError

__all__ = ["VERSION", "types"]

try:
    from tinker import __version__ as VERSION  # noqa: N812 - a constant, which the SDK spells its own way
    from tinker import types
except ImportError as error:
    if error.name != "tinker":
        raise
    raise MissingDependencyError("tinker", "tinker") from None

if not hasattr(types, "SampledProvenanceSpan"):
    raise ProvenanceError(
        f"tinker {VERSION} has no provenance, expected 0.27 or later: "
        "run pip install 'datum-provenance[tinker]'"
    )
