"""Chunks of a file worked on by several threads, and answered in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def map_chunks(function: Callable[[int], T], num_chunks: int, threads: int) -> Iterator[T]:
    """function(0), function(1), ... in order, computed on `threads` threads a little ahead of the reader."""
    pool = ThreadPoolExecutor(threads)
    pending: deque[Future[T]] = deque()
    try:
        for chunk in range(num_chunks):
            pending.append(pool.submit(function, chunk))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
