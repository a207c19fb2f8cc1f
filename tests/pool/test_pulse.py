"""Who is killed for not moving, and who is not."""

from __future__ import annotations

from pool.protocol.identity import FEEDER, WORKER, Peer
from pool.supervisor.pulse import Pulse

WORKER_0, FEEDER_0 = Peer(WORKER, 0), Peer(FEEDER)


def test_who_beats_and_moves_is_left_alone() -> None:
    pulse = Pulse(timeout=10, poll_interval=1)
    for now in range(100):
        pulse.beat(WORKER_0, 0.5, now)
        assert pulse.stuck(now) == []


def test_silence_and_standing_still_are_both_stuck() -> None:
    pulse = Pulse(timeout=10, poll_interval=1)
    pulse.beat(FEEDER_0, 0.0, 0)
    for now in range(12):
        pulse.beat(WORKER_0, float(now), now)  # its thread for messages beats, its loop stands
        found = pulse.stuck(now)
        if now <= 10:
            assert found == []
    assert [(stuck.peer, stuck.why) for stuck in found] == [
        (FEEDER_0, "silent for 11.0 s"),
        (WORKER_0, "has not moved for 11.0 s"),
    ]


def test_the_dead_are_forgotten() -> None:
    pulse = Pulse(timeout=10, poll_interval=1)
    pulse.beat(WORKER_0, 0.0, 0)
    pulse.forget(WORKER_0)
    assert pulse.stuck(11) == []


def test_time_in_which_the_watcher_slept_counts_for_nobody() -> None:
    pulse = Pulse(timeout=10, poll_interval=1)
    pulse.beat(WORKER_0, 0.0, 0)
    assert pulse.stuck(1) == []
    assert pulse.stuck(1000) == []  # the machine was suspended
    assert pulse.stuck(1001) == []
    for now in range(1002, 1012):
        found = pulse.stuck(now)
    assert [stuck.peer for stuck in found] == [WORKER_0]
