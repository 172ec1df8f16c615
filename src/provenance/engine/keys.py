"""Which sequences and records were met, as 8 bytes for each."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from provenance.columns import Mask

Keys = npt.NDArray[np.uint64]
#: The id of a sequence, or the session and the id of a record.
Name = str | tuple[str, str]
_KEY_BYTES: Final = 8


class KeySet:
    """A set of names that grows, kept as hashes."""

    def __init__(self, keys: Keys | None = None, *, lasting: bool = True) -> None:
        """A set of these hashes, or an empty one.

        Args:
            keys: What ``keys`` of a lasting set gave.
            lasting: The hashes are the same in every process. Others take a tenth of the time.
        """
        self._lasting = lasting
        self._first: Sequence[Name] = ()
        """Not hashed yet: who checks a single batch never needs it."""
        self._runs: list[Keys] = []
        """Sorted and disjoint."""
        if keys is not None:
            self._insert(keys)

    def copy(self) -> KeySet:
        """A set of its own, which shares the hashes."""
        copied = KeySet(lasting=self._lasting)
        self._hash_first()
        copied._runs = list(self._runs)
        return copied

    def add(self, names: Sequence[Name]) -> Mask:
        """Add names, all different, and tell for each whether it was there before; shape (len(names),)."""
        if not self._runs and not self._first:
            self._first = names
            return np.zeros(len(names), np.bool_)
        keys = self._hashes(names)
        before = self._has(keys)
        self._insert(keys[~before])
        return before

    def has(self, names: Sequence[Name]) -> Mask:
        """Whether each name is there; shape (len(names),)."""
        return self._has(self._hashes(names))

    def common(self, other: KeySet) -> int:
        """How many names both sets have."""
        return int(np.count_nonzero(self._has(other.keys())))

    def update(self, other: KeySet) -> None:
        """Add all that is in another set."""
        keys = other.keys()
        self._insert(keys[~self._has(keys)])

    def keys(self) -> Keys:
        """The hashes of all names, ascending."""
        self._hash_first()
        return np.sort(np.concatenate([np.zeros(0, np.uint64), *self._runs]))

    def _has(self, keys: Keys) -> Mask:
        self._hash_first()
        found = np.zeros(len(keys), np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            found |= run[at] == keys
        return found

    def _hash_first(self) -> None:
        if self._first:
            names, self._first = self._first, ()
            self._insert(self._hashes(names))

    def _insert(self, keys: Keys) -> None:
        """Add keys that are not there."""
        if not len(keys):
            return
        self._runs.append(np.sort(keys))
        # Runs at least double in size from last to first, so that there are only log(n) to search.
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            # A stable sort merges two sorted runs in one pass.
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")

    def _hashes(self, names: Sequence[Name]) -> Keys:
        if not self._lasting:
            return np.fromiter(map(hash, names), np.int64, len(names)).view(np.uint64)
        digests = b"".join(blake2b(_encoded(name), digest_size=_KEY_BYTES).digest() for name in names)
        return np.frombuffer(digests, "<u8").astype(np.uint64, copy=False)


def _encoded(name: Name) -> bytes:
    if not isinstance(name, str):
        session, sequence_id = name
        # With its length in front no session runs over into an id.
        name = f"{len(session)} {session} {sequence_id}"
    return name.encode("utf-8", "surrogatepass")
