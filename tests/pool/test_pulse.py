"""Who is killed for not moving, and who is not."""

from __future__ import annotations

from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.supervisor.pulse import Pulse, Stuck

WORKER_0, FEEDER_0 = Peer(WORKER, 0), Peer(FEEDER)


def test_who_beats_and_moves_is_left_alone() -> None:
    pulse = Pulse(timeout=10, start_timeout=60, poll_interval=1)
    for now in range(100):
        pulse.beat(WORKER_0, 0.5, now)
        assert pulse.stuck(now) == []


def test_silence_and_standing_still_are_both_stuck() -> None:
    pulse = Pulse(timeout=10, start_timeout=60, poll_interval=1)
    pulse.beat(FEEDER_0, 0.0, 0)
    for now in range(12):
        pulse.beat(WORKER_0, float(now), now)  # its thread for messages beats, its loop stands
        found = pulse.stuck(now)
        if now <= 10:
            assert found == []
    assert [(stuck.peer, stuck.why) for stuck in found] == [
        (FEEDER_0, "was silent for 11.0 s (pool.hang_timeout)"),
        (WORKER_0, "has not moved for 11.0 s (pool.hang_timeout)"),
    ]


def test_the_dead_are_forgotten() -> None:
    pulse = Pulse(timeout=10, start_timeout=60, poll_interval=1)
    pulse.beat(WORKER_0, 0.0, 0)
    pulse.forget(WORKER_0)
    assert pulse.stuck(11) == []


def test_time_in_which_the_watcher_slept_counts_for_nobody() -> None:
    pulse = Pulse(timeout=10, start_timeout=60, poll_interval=1)
    pulse.beat(WORKER_0, 0.0, 0)
    assert pulse.stuck(1) == []
    assert pulse.stuck(1000) == []  # the machine was suspended
    assert pulse.stuck(1001) == []
    for now in range(1002, 1012):
        found = pulse.stuck(now)
    assert [stuck.peer for stuck in found] == [WORKER_0]


def test_who_is_not_ready_in_time_is_stuck_too() -> None:
    pulse = Pulse(timeout=10, start_timeout=60, poll_interval=1)
    pulse.start(WORKER_0, 0)
    pulse.start(FEEDER_0, 0)
    pulse.beat(FEEDER_0, 0.0, 30)
    found: list[Stuck] = []
    for now in range(62):
        if now >= 30:
            pulse.beat(FEEDER_0, 0.0, now)
        assert found == []
        found = pulse.stuck(now)
    assert [(stuck.peer, stuck.why) for stuck in found] == [
        (WORKER_0, "did not get ready within 60 s (pool.start_timeout)")
    ]
    pulse.forget(WORKER_0)
    assert pulse.stuck(62) == []
