"""Work on several threads, answered in order."""

from __future__ import annotations

import gc
import threading

import pytest

from loader.formats.parallel import map_in_order
from tests.support.wait import wait_for


@pytest.mark.parametrize("threads", [1, 3])
def test_answers_come_in_the_order_of_the_items(threads: int) -> None:
    assert list(map_in_order(lambda item: item * item, range(100), threads)) == [item * item for item in range(100)]


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_one_that_is_left_alone_is_collected_without_waiting_for_its_threads(in_a_cycle: bool) -> None:
    """Python collects it in any thread, and that one may hold what its threads wait for."""
    begun, held, waited = threading.Event(), threading.Event(), []

    def work(item: int) -> int:
        if item > 0:
            begun.set()
            waited.append(held.wait(10))
        return item

    results = map_in_order(work, range(100), threads=1)
    assert next(results) == 0
    assert begun.wait(60)
    if in_a_cycle:
        cycle = [results]
        cycle.append(cycle)  # type: ignore[arg-type]
        del cycle
    del results
    gc.collect()
    held.set()
    wait_for(lambda: bool(waited), "the thread")
    assert waited == [True]  # what had begun is finished, what had not is not begun


def test_an_error_comes_in_its_turn() -> None:
    def work(item: int) -> int:
        if item == 5:
            raise ValueError("the fifth")
        return item

    results = map_in_order(work, range(100), threads=3)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="the fifth"):
        next(results)
