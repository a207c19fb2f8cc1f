"""Chunks of a file worked on by several threads, and answered in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


def map_chunks(function: Callable[[int], T], num_chunks: int, threads: int) -> Iterator[T]:
    """function(0), function(1), ... in order, computed on `threads` threads a little ahead of the reader."""
    return map_in_order(function, range(num_chunks), threads)


def map_in_order(function: Callable[[Item], T], items: Iterable[Item], threads: int) -> Iterator[T]:
    """Maps items in their order on several threads; they are taken as they are needed. If the reader stops early, the
    threads finish the items that they have begun, and nobody waits for them."""
    pool = ThreadPoolExecutor(threads)
    pending: deque[Future[T]] = deque()
    waits = True
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except GeneratorExit:
        # An iterator that is part of a cycle is collected in any thread, even in one that holds a lock of `threading`
        # and would wait for itself.
        waits = False
        raise
    finally:
        pool.shutdown(waits, cancel_futures=True)
