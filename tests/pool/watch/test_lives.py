"""The lives of processes are read from the log as the supervisor writes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pool.protocol.identity import COORDINATOR, FORKSERVER, WORKER, Peer
from pool.supervisor.process_state import Stage, Timeouts
from pool.supervisor.process_table import ProcessTable
from pool.supervisor.resources.logs import LINE
from pool.watch.lives import LOG, find_deaths, group_by_process, read_changes


@contextmanager
def logged(run: Path) -> Iterator[None]:
    """Into the run's folder, as `log_to_folder` has it."""
    (run / LOG).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(run / LOG)
    handler.setFormatter(logging.Formatter(LINE))
    logger = logging.getLogger("pool.supervisor")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()


def begun(peers: list[Peer]) -> ProcessTable:
    places = ProcessTable(Peer(FORKSERVER), peers, Timeouts(60, 60), 1.0, 0.0)
    for peer in peers:
        begin(places, peer, 0.0)
    return places


def begin(places: ProcessTable, peer: Peer, now: float) -> None:
    places.record_request(peer, now)
    places.record_start(peer, now)
    places.record_answer(now)
    places.record_heartbeat(peer, 0.0, now)


def test_lanes_and_deaths_are_what_the_supervisor_has_logged(tmp_path: Path) -> None:
    coordinator, worker = Peer(COORDINATOR), Peer(WORKER, 10)
    before = time.time()
    with logged(tmp_path):
        places = begun([coordinator, worker])
        places.record_death(worker, "was killed by SIGKILL", 1.0)
        begin(places, places.schedule_restart(worker, 1.0, "restarted: death 1 since the last step"), 1.0)
        for second in range(2, 100):
            places.mark_stuck(float(second))
        places.record_death(coordinator, "was killed by SIGKILL", 100.0)
        places.record_death(Peer(WORKER, 10, 2), "exited with code 0", 101.0)
    changes = read_changes(tmp_path)
    up = [Stage.REQUESTED, Stage.STARTING, Stage.READY]
    assert all(before - 1 < change.time <= time.time() for change in changes)
    assert [(lane.process, [change.stage for change in lane.changes]) for lane in group_by_process(changes)] == [
        ("coordinator", [*up, Stage.KILLED, Stage.DEAD]),
        (
            "worker 10",
            [*up, Stage.DEAD, Stage.WAITING, *up, Stage.KILLED, Stage.DEAD],
        ),
    ]
    killed = "it was silent for 61.0 s (pool.hang_timeout)"
    assert [(death.process, death.incarnation, death.why, death.then) for death in find_deaths(changes)] == [
        ("worker 10", 1, "it was killed by SIGKILL", "restarted: death 1 since the last step"),
        ("coordinator", 1, f"{killed}, it was killed by SIGKILL", ""),
    ]
    assert read_changes(tmp_path, since=time.time() + 1) == []


def test_a_log_that_is_not_there_or_says_other_things_tells_nothing(tmp_path: Path) -> None:
    assert read_changes(tmp_path) == []
    (tmp_path / LOG).parent.mkdir()
    (tmp_path / LOG).write_bytes(b"\xff\n2026-99-99 00:00:00,000 INFO feeder (incarnation 1): Ready: it has spoken\nx")
    assert read_changes(tmp_path) == []
