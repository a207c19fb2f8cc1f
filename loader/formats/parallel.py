"""Maps a function over the chunks of a file on several threads, with the results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


def map_chunks(function: Callable[[int], T], num_chunks: int, threads: int) -> Iterator[T]:
    """Yields function(0), function(1), ... function(num_chunks - 1) in order, computed on `threads` threads a little
    ahead of the caller."""
    return map_in_order(function, range(num_chunks), threads)


def map_in_order(function: Callable[[Item], T], items: Iterable[Item], threads: int) -> Iterator[T]:
    """Yields function(item) for each item, in order, computed on `threads` threads. At most 2 * threads + 1 items are
    submitted ahead of the caller.

    If the caller stops early, the threads finish the items that they have begun, and nobody waits for them. Raises
    ValueError in a forked process, which has none of the threads.
    """
    executor = ThreadPoolExecutor(threads)
    pending: deque[Future[T]] = deque()
    wait_for_threads = True
    owner_pid = os.getpid()
    try:
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
                _check_process(owner_pid)
        while pending:
            yield pending.popleft().result()
            _check_process(owner_pid)
    except GeneratorExit:
        # An iterator that is part of a cycle is collected in any thread, even in one that holds a lock of `threading`
        # and would wait for itself.
        wait_for_threads = False
        raise
    finally:
        executor.shutdown(wait_for_threads, cancel_futures=True)


def _check_process(owner_pid: int) -> None:
    """Raises ValueError in a forked process."""
    if os.getpid() != owner_pid:
        raise ValueError("what is being read was opened in another process, whose threads are not here: open it here")
