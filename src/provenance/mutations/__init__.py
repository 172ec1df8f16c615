"""Named faults, as pipelines really make them, each at a known place of a dataset; one family a file."""

from provenance.mutations import (
    advantages,
    files,
    options,
    records,
    shapes,
    spans,
    tokens,
    values,
)
from provenance.mutations._dataset import Dataset
from provenance.mutations._mutation import Mutation, Place, apply, mutation, named, registry

__all__ = [
    "Dataset",
    "Mutation",
    "Place",
    "advantages",
    "apply",
    "files",
    "mutation",
    "named",
    "options",
    "records",
    "registry",
    "shapes",
    "spans",
    "tokens",
    "values",
]
