"""Token ids in as few bytes as they need.

The ids of a vocabulary of 150,000 have 18 bits; four bytes each would be a third more than three. An id has
as many bytes as the widest id that was packed with it, two's complement, little-endian. How many that are
follows from the number of ids, which whoever unpacks them has to know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from provenance.columns import Array, Ints, Mask
from provenance.errors import LedgerError

__all__ = ["misfits", "pack", "unpack"]


def pack(buffers: Sequence[bytes]) -> list[bytes]:
    """Buffers of int32, little-endian, each as its packed ids; all have one width."""
    tokens = np.frombuffer(b"".join(buffers), "<i4")
    width = _width_of(tokens)
    packed = tokens.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()
    ends = np.cumsum([len(buffer) // 4 for buffer in buffers], dtype=np.int64) * width
    return [packed[a:b] for a, b in zip([0, *ends.tolist()], ends.tolist(), strict=False)]


def unpack(buffers: Sequence[bytes], counts: Ints) -> npt.NDArray[np.int32]:
    """The ids of all buffers, one after the other, in the machine's byte order.

    Args:
        buffers: what ``pack`` returned, from any number of calls.
        counts: (len(buffers),) how many ids each holds.

    Raises:
        LedgerError: a buffer does not hold so many.
    """
    if misfits(buffers, counts).any():
        raise LedgerError("damaged: the length of packed tokens does not fit their number")
    widths = _widths_of(buffers, counts)
    found = set(widths[counts > 0].tolist())
    if len(found) < 2:
        return _widened(b"".join(buffers), *(found or {4}))
    tokens = np.empty(counts.sum(), np.int32)
    for width in found:
        own = widths == width
        chosen = b"".join(buffers[i] for i in np.flatnonzero(own).tolist())
        tokens[np.repeat(own, counts)] = _widened(chosen, width)
    return tokens


def misfits(buffers: Sequence[bytes], counts: Ints) -> Mask:
    """Which buffers cannot hold so many ids, (len(buffers),)."""
    sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    widths = _widths_of(buffers, counts)
    misfit: Mask = (widths * counts != sizes) | (widths > 4) | ((widths == 0) & (counts > 0))
    return misfit


def _widths_of(buffers: Sequence[bytes], counts: Ints) -> Ints:
    """Bytes of each id of a buffer, where it holds so many."""
    sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    widths: Ints = sizes // np.maximum(counts, 1)
    return widths


def _width_of(tokens: Array) -> int:
    """Bytes that hold each of the ids."""
    if not len(tokens):
        return 1
    least, most = int(tokens.min()), int(tokens.max())
    return max(most.bit_length(), (~least).bit_length() if least < 0 else 0) // 8 + 1


def _widened(packed: bytes, width: int) -> npt.NDArray[np.int32]:
    padded = np.zeros((len(packed) // width, 4), np.uint8)
    padded[:, 4 - width :] = np.frombuffer(packed, np.uint8).reshape(-1, width)
    # The shift fills with the sign.
    tokens: npt.NDArray[np.int32] = (padded.view("<i4")[:, 0] >> 8 * (4 - width)).astype(np.int32, copy=False)
    return tokens
