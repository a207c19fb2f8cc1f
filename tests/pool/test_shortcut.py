"""Words in shared memory and bells: what is read there belongs to the attempt, and the life, that it is taken for."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.shm import bells
from pool.shm.bells import Bell
from pool.shm.shortcut import FINISHED_WORDS, CoordinatorEnd, Words, WorkerEnd


@pytest.fixture
def made() -> Iterator[dict[str, int]]:
    descriptors = bells.make(2)
    yield descriptors
    for fd in descriptors.values():
        os.close(fd)


def words() -> Words:
    return np.zeros(FINISHED_WORDS, np.int64)


def is_rung(fd: int) -> bool:
    try:
        return os.eventfd_read(fd) > 0
    except BlockingIOError:
        return False


@given(attempt=st.integers(1, 1 << 50), loss=st.floats(allow_nan=True))
def test_attempt_and_loss_arrive_bit_for_bit(attempt: int, loss: float) -> None:
    finished, version = words(), np.zeros(1, np.int64)
    descriptors = bells.make(1)
    try:
        WorkerEnd(Peer(WORKER), finished, version, descriptors).finish(attempt, loss)
        its_attempt, its_loss = CoordinatorEnd(1, [finished], version, descriptors).finished(0)
    finally:
        for fd in descriptors.values():
            os.close(fd)
    assert its_attempt == attempt
    assert its_loss == loss or (math.isnan(its_loss) and math.isnan(loss))


def test_half_of_a_new_entry_is_taken_for_none(made: dict[str, int]) -> None:
    finished = words()
    end = CoordinatorEnd(1, [finished], np.zeros(1, np.int64), made)
    WorkerEnd(Peer(WORKER), finished, np.zeros(1, np.int64), made).finish(7, 0.5)
    whole = finished.copy()
    for changed in range(FINISHED_WORDS):
        finished[:] = whole
        finished[changed] += 1
        assert end.finished(0) == (0, 0.0)
    finished[:] = whole
    assert end.finished(0) == (7, 0.5)


def test_before_the_first_one_there_is_none(made: dict[str, int]) -> None:
    version = np.zeros(1, np.int64)
    assert CoordinatorEnd(1, [words()], version, made).finished(0)[0] == 0
    assert WorkerEnd(Peer(WORKER), words(), version, made).newest(1) == -1


def test_a_version_counts_for_the_life_that_published_it_only(made: dict[str, int]) -> None:
    version = np.zeros(1, np.int64)
    worker = WorkerEnd(Peer(WORKER), words(), version, made)
    for life, number in ((1, 0), (1, 41), (2, 40), (3, (1 << 40) - 1)):
        CoordinatorEnd(life, [words(), words()], version, made).publish(number)
        assert [worker.newest(other) for other in (life - 1, life, life + 1)] == [-1, number, -1]


def test_who_has_news_rings_for_those_who_wait(made: dict[str, int]) -> None:
    version = np.zeros(1, np.int64)
    CoordinatorEnd(1, [words(), words()], version, made).publish(0)
    assert [is_rung(made[name]) for name in ("coordinator.0", "worker.0", "worker.1")] == [False, True, True]
    WorkerEnd(Peer(WORKER, 1), words(), version, made).finish(1, 0.0)
    assert [is_rung(made[name]) for name in ("coordinator.0", "worker.0", "worker.1")] == [True, False, False]


def test_whoever_waits_is_woken_also_by_a_bell_rung_before(made: dict[str, int]) -> None:
    end = WorkerEnd(Peer(WORKER), words(), np.zeros(1, np.int64), made)
    end.wake()
    end.wait()
    waiting = threading.Thread(target=end.wait)
    waiting.start()
    end.wake()
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_bell_that_nobody_hears_may_be_rung_again(made: dict[str, int]) -> None:
    fd = made["coordinator.0"]
    os.eventfd_write(fd, (1 << 64) - 2)  # one more would block
    Bell(fd).ring()
    assert is_rung(fd)


def test_each_process_is_given_the_bells_that_it_needs(made: dict[str, int]) -> None:
    names = list(made)
    assert bells.within_reach(Peer(COORDINATOR), names) == names
    assert bells.within_reach(Peer(WORKER, 1), names) == ["coordinator.0", "worker.1"]
    assert bells.within_reach(Peer(FEEDER), names) == []
