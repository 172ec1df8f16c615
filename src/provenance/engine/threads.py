"""Work on the items of a stream with all cores: in their order, a few at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """``map(work, items)`` in so many threads, each of which is at most one item ahead of what was taken.

    The items are drawn in the calling thread, and a stream of one is worked on there. NumPy and Arrow let
    other threads run while they compute. What a stream gave before it failed is worked on first.
    """
    errors: list[Exception] = []
    stream = _until_error(items, errors)
    drawn = deque(islice(stream, min(workers, 2)))
    rest = chain(_emptied(drawn), stream)
    if len(drawn) < 2:
        yield from map(work, rest)
        if errors:
            raise errors.pop()
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="provenance")
    ahead: deque[Future[R]] = deque()
    try:
        for item in rest:
            if len(ahead) == workers:
                yield ahead.popleft().result()
            ahead.append(pool.submit(work, item))
            del item
        while ahead:
            yield ahead.popleft().result()
        if errors:
            raise errors.pop()
    finally:
        pool.shutdown(cancel_futures=True)


def _until_error(items: Iterable[T], errors: list[Exception]) -> Iterator[T]:
    """The items until their stream fails, and why it did."""
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 - whoever takes the items raises it
        errors.append(error)


def _emptied(items: deque[T]) -> Iterator[T]:
    while items:
        yield items.popleft()
