"""Words in shared memory and signals: what is read belongs to the attempt, and the incarnation, that it is read for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.protocol.messages import Times
from pool.shm.signals import (
    CoordinatorSignals,
    Signal,
    Words,
    WorkerSignals,
    accessible_signals,
    create_signals,
    num_report_words,
    signal_name,
)


class Ends:
    """Of a run with two workers; `incarnation`: the coordinator's."""

    def __init__(self, members: int = 1) -> None:
        self.descriptors = create_signals(2)
        self.finished = [words(members), words(members)]
        self.version = np.zeros(1, np.int64)

    def worker(self, index: int = 0) -> WorkerSignals:
        return WorkerSignals(
            self.finished[index],
            self.version,
            own=self._signal(Peer(WORKER, index)),
            coordinator=self._signal(Peer(COORDINATOR)),
        )

    def coordinator(self, incarnation: int = 1) -> CoordinatorSignals:
        workers = [self._signal(Peer(WORKER, index)) for index in range(2)]
        return CoordinatorSignals(
            incarnation, self.finished, self.version, own=self._signal(Peer(COORDINATOR)), workers=workers
        )

    def were_set(self) -> list[str]:
        """Since the last time."""
        return [name for name, fd in self.descriptors.items() if is_set(fd)]

    def close(self) -> None:
        for fd in self.descriptors.values():
            os.close(fd)

    def _signal(self, peer: Peer) -> Signal:
        return Signal(self.descriptors[signal_name(peer)])


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def words(members: int) -> Words:
    return np.zeros(num_report_words(members), np.int64)


def is_set(fd: int) -> bool:
    try:
        return os.eventfd_read(fd) > 0
    except BlockingIOError:
        return False


@given(
    attempt=st.integers(1, 1 << 50),
    losses=st.lists(st.floats(), min_size=1, max_size=4),
    spent=st.tuples(*[st.floats(0, 1e9)] * 3),
)
def test_what_was_finished_arrives_bit_for_bit(
    attempt: int, losses: list[float], spent: tuple[float, float, float]
) -> None:
    ends = Ends(len(losses))
    try:
        ends.worker().report_finished(attempt, losses, Times(*spent))
        found = ends.coordinator().read_finished(0)
    finally:
        ends.close()
    assert (found.attempt, found.times) == (attempt, Times(*spent))
    assert np.array(found.losses).tobytes() == np.array(losses).tobytes()


def test_half_of_a_new_entry_is_taken_for_none(ends: Ends) -> None:
    ends.worker().report_finished(7, (0.5,), Times())
    whole = ends.finished[0].copy()
    for changed in range(3):
        ends.finished[0][:] = whole
        ends.finished[0][changed] += 1
        assert ends.coordinator().read_finished(0).attempt == 0
    ends.finished[0][:] = whole
    assert ends.coordinator().read_finished(0).attempt == 7


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_an_entry_that_is_half_written_has_no_old_losses(members: int) -> None:
    """Also where members have equal losses, as those with equal weights have."""
    ends = Ends(members)
    try:
        ends.worker().report_finished(7, (0.5,) * members, Times())
        before = ends.finished[0].copy()
        ends.worker().report_finished(8, (0.25,) * members, Times())
        after = ends.finished[0].copy()
        for written in range(len(after)):
            ends.finished[0][:] = [*after[:written], *before[written:]]
            found = ends.coordinator().read_finished(0)
            assert (found.attempt, set(found.losses)) in ((0, set()), (7, {0.5}), (8, {0.25}))
    finally:
        ends.close()


def test_before_the_first_one_there_is_none(ends: Ends) -> None:
    assert ends.coordinator().read_finished(0).attempt == 0
    assert ends.worker().newest_version(1) == -1


def test_a_version_counts_for_the_life_that_published_it_only(ends: Ends) -> None:
    worker = ends.worker()
    for incarnation, number in ((1, 0), (1, 41), (2, 40), (3, (1 << 40) - 1)):
        ends.coordinator(incarnation).publish(number)
        assert [worker.newest_version(other) for other in (incarnation - 1, incarnation, incarnation + 1)] == [
            -1,
            number,
            -1,
        ]


def test_who_has_news_rings_for_those_who_wait(ends: Ends) -> None:
    ends.coordinator().publish(0)
    assert ends.were_set() == ["worker.0", "worker.1"]
    ends.worker(1).report_finished(1, (0.0,), Times())
    assert ends.were_set() == ["coordinator.0"]


def test_whoever_waits_is_woken_also_by_a_bell_rung_before(ends: Ends) -> None:
    end = ends.worker()
    end.wake()
    end.wait()
    waiting = threading.Thread(target=end.wait)
    waiting.start()
    end.wake()
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_bell_that_nobody_hears_may_be_rung_again(ends: Ends) -> None:
    fd = ends.descriptors["coordinator.0"]
    os.eventfd_write(fd, (1 << 64) - 2)  # one more would block
    Signal(fd).set()
    assert is_set(fd)


def test_each_process_is_given_the_bells_that_it_needs(ends: Ends) -> None:
    names = list(ends.descriptors)
    assert accessible_signals(Peer(COORDINATOR), names) == names
    assert accessible_signals(Peer(WORKER, 1), names) == ["coordinator.0", "worker.1"]
    assert accessible_signals(Peer(FEEDER), names) == []
