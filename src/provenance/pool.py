"""Numbers that are addressed by an integer, in segments that are appended and never moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from provenance.columns import Array, Ints, Mask, any_in_rows, distinct, offsets_of, view

#: Which of several ranges, and the numbers of these.
Block = tuple[slice, Array]

_PLACE_BITS: Final = 32
#: Distance between the first addresses of two neighbouring segments of a pool.
SEGMENT: Final = 1 << _PLACE_BITS
#: Numbers and ranges that are gathered at a time. Slices of so few ranges are gone before Python's garbage
#: collector, which counts them, looks through all that the process holds.
_BLOCK: Final = 1 << 16
_RANGES: Final = 512


class Pool:
    """Numbers in segments that are appended and never moved, so that a ledger grows without copying itself.

    An address is the segment's number times 2^32 plus the place in it; the numbers of one sequence lie in one
    segment, so that address plus offset is an address.
    """

    def __init__(self, *segments: Array) -> None:
        self._segments = list(segments)

    def append(self, segment: Array) -> int:
        """Add a segment, which must not change any more, and return the address of its first number."""
        self._segments.append(segment)
        return (len(self._segments) - 1) * SEGMENT

    def copy(self) -> Pool:
        """A pool of the same segments, to which others may be appended than to this one."""
        return Pool(*self._segments)

    def slices(self, starts: Ints, lengths: Ints) -> list[Array]:
        """Views of [start, start + length), one for each."""
        segments = self._segments
        if len(segments) == 1:
            pool = segments[0]  # there may be more by now
            return [pool[a:b] for a, b in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)]
        number = (starts >> _PLACE_BITS).tolist()
        first = starts & (SEGMENT - 1)
        bounds = zip(number, first.tolist(), (first + lengths).tolist(), strict=True)
        return [segments[k][a:b] for k, a, b in bounds]

    def joined(self, starts: Ints, lengths: Ints) -> list[Array]:
        """As ``slices``, but one view for all where they follow each other without a gap."""
        if _follow_each_other(starts, lengths):
            return [self.slice(int(starts[0]), int(lengths.sum()))]
        return self.slices(starts, lengths)

    def slice(self, start: int, length: int) -> Array:
        """A view of [start, start + length)."""
        place = start & (SEGMENT - 1)
        return self._segments[start >> _PLACE_BITS][place : place + length]

    def at(self, addresses: Ints, there: Mask) -> Array:
        """One number for each address that is there, and 0 for the others."""
        numbers = np.zeros(len(addresses), np.int64)
        rows = there.nonzero()[0]
        segment = addresses[rows] >> _PLACE_BITS
        rows = rows[segment.argsort(kind="stable")]
        found, counts = np.unique(segment, return_counts=True)
        for k, (first, last) in zip(found.tolist(), pairwise(offsets_of(counts).tolist()), strict=True):
            own = rows[first:last]
            numbers[own] = self._segments[k][addresses[own] & (SEGMENT - 1)]
        return numbers

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return sum(segment.nbytes for segment in self._segments)

    def gather(self, starts: Ints, lengths: Ints) -> Array:
        """The numbers of all [start, start + length), one after the other; not to be written to."""
        if _follow_each_other(starts, lengths):
            return self.slice(int(starts[0]), int(lengths.sum()))
        # Slices are copied whole, which is several times faster than an index for every number; and as bytes,
        # of which a slice is made in half the time that an array takes.
        kind = self._segments[0].dtype
        number = (starts >> _PLACE_BITS).tolist()
        first = (starts & (SEGMENT - 1)) * kind.itemsize
        bounds = zip(number, first.tolist(), (first + lengths * kind.itemsize).tolist(), strict=True)
        bytes_of = {k: self._segments[k].view(np.uint8).data for k in set(number)}
        return view(b"".join([bytes_of[k][a:b] for k, a, b in bounds]), kind)

    def blocks(self, starts: Ints, lengths: Ints) -> Iterator[Block]:
        """What ``gather`` returns, some ranges at a time, so that it stays in the processor's cache."""
        total, count = int(lengths.sum()), len(starts)
        firsts = np.arange(0, count, _RANGES)
        if total > _BLOCK:
            full = offsets_of(lengths).searchsorted(np.arange(0, total, _BLOCK))
            firsts = distinct(np.concatenate([firsts, full]))
        for first, last in pairwise((*firsts.tolist(), count)):
            yield slice(first, last), self.gather(starts[first:last], lengths[first:last])

    def equal(self, starts: Ints, lengths: Ints, numbers: Array) -> Mask:
        """Which of these are what ``gather`` returns; shape (len(numbers),)."""
        same = np.empty(len(numbers), np.bool_)
        done = 0
        for _, own in self.blocks(starts, lengths):
            end = done + len(own)
            np.equal(own, numbers[done:end], out=same[done:end])
            done = end
        return same


def ranges_agree(one: Pool, its: Ints, other: Pool, others: Ints, lengths: Ints) -> Mask:
    """Whether a range of one pool holds the numbers of a range of another; shape (len(lengths),)."""
    agree = np.empty(len(lengths), np.bool_)
    blocks = zip(one.blocks(its, lengths), other.blocks(others, lengths), strict=True)
    for (block, left), (_, right) in blocks:
        agree[block] = ~any_in_rows(left != right, offsets_of(lengths[block]))
    return agree


def _follow_each_other(starts: Ints, lengths: Ints) -> bool:
    return len(starts) == 1 or (len(starts) > 0 and bool((starts[1:] == starts[:-1] + lengths[:-1]).all()))
