"""Locks of what threads share, in a process that forks: `new_lock`."""

from __future__ import annotations

import os
import threading
from typing import Final
from weakref import WeakKeyDictionary

#: In the order in which they were made.
_living: Final[WeakKeyDictionary[threading.RLock, None]] = WeakKeyDictionary()
_held: Final[dict[threading.RLock, None]] = {}
_forking: Final = threading.RLock()


def new_lock() -> threading.RLock:
    """A lock that no other thread holds while this process forks.

    A child would find it locked for good, since of all threads it has the one that forked. Who holds such a
    lock may wait for one that was made later, but not for one that was made before.
    """
    lock = threading.RLock()
    _living[lock] = None
    return lock


def _hold() -> None:
    _forking.acquire()
    # While one was waited for, others may have been made.
    while new := [lock for ref in _living.keyrefs() if (lock := ref()) is not None and lock not in _held]:
        for lock in new:
            lock.acquire()
            _held[lock] = None


def _release() -> None:
    while _held:
        _held.popitem()[0].release()
    _forking.release()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
