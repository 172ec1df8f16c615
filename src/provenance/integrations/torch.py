"""A checked stream as a dataset for torch's DataLoader. Needs the extra ``losses``.

Raises:
    MissingDependencyError: torch is not installed.
"""

from __future__ import annotations

from typing import Any

from provenance.errors import MissingDependencyError
from provenance.pipeline import CheckedStream

try:
    from torch.utils.data import IterableDataset
except ImportError:
    raise MissingDependencyError("torch", "losses") from None

__all__ = ["CheckedDataset"]


class CheckedDataset(CheckedStream, IterableDataset[Any]):
    """A `CheckedStream` that a DataLoader takes; ``source`` may be a dataset of torch that gives datums.

    Each worker has a copy, reads its share of ``source``, if that deals them out, and checks it alone: a
    sequence that two workers give is no repetition to either, and each calls ``on_report`` with a report of
    its own. A `CheckedStream` around the DataLoader checks what all workers give as one stream.
    """
