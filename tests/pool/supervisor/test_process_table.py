"""The places of a run's processes: who is started when, who is killed for not moving, and who is not."""

from __future__ import annotations

import re

import pytest

from pool.protocol.identity import COORDINATOR, FEEDER, FORKSERVER, WORKER, Peer
from pool.supervisor.process_state import NEXT, ProcessState, Stage, Timeouts
from pool.supervisor.process_table import ProcessTable, StuckProcess
from tests.support.paths import ROOT

SERVER, WORKER_0, FEEDER_0 = Peer(FORKSERVER), Peer(WORKER, 0), Peer(FEEDER)
NEXT_LIFE = Peer(WORKER, 0, incarnation=2)


def places(*others: Peer) -> ProcessTable:
    """All are to be started at 0."""
    return ProcessTable(SERVER, others, Timeouts(hang_timeout=10, start_timeout=60), check_every=1, now=0)


def start(book: ProcessTable, peer: Peer, now: float) -> None:
    assert book.next_start(now) == peer
    book.record_request(peer, now)
    book.record_answer(now)
    book.record_start(peer, now)


def running(*peers: Peer) -> ProcessTable:
    book = places(*peers)
    for peer in peers:
        start(book, peer, 0)
        book.record_heartbeat(peer, 0.0, 0)
    return book


# --- starting ---


def test_one_process_at_a_time_is_asked_of_the_fork_server() -> None:
    book = places(WORKER_0, FEEDER_0)
    assert book.has_waiting
    assert book.next_start(0) == WORKER_0
    book.record_request(WORKER_0, 0)
    assert book.next_start(0) is None
    assert book.seconds_until_start(0, limit=5) == 5
    book.record_answer(1)
    book.record_start(WORKER_0, 1)
    start(book, FEEDER_0, 1)
    assert not book.has_waiting


def test_the_next_incarnation_is_started_when_its_pause_is_over() -> None:
    book = running(WORKER_0)
    book.record_death(WORKER_0, "was killed", 1)
    assert book.schedule_restart(WORKER_0, 3, "restarted in 2 s") == NEXT_LIFE
    assert book.next_start(2) is None
    assert book.seconds_until_start(2, limit=5) == 1
    start(book, NEXT_LIFE, 3)


def test_whoever_was_asked_of_a_fork_server_that_dies_is_asked_of_the_next_one() -> None:
    book = places(WORKER_0)
    book.record_request(WORKER_0, 0)
    book.record_death(SERVER, "was killed", 1)
    assert book.has_waiting
    assert book.next_start(1) is None
    successor = book.schedule_restart(SERVER, 1, "restarted")
    assert book.next_start(1) == successor
    book.record_start(successor, 1)
    assert book.next_start(2) is None, "it is not ready"
    book.record_answer(3)
    start(book, WORKER_0, 3)


def test_a_role_that_another_process_plays_is_watched_and_starts_and_ends_with_it() -> None:
    book = ProcessTable(
        SERVER,
        (FEEDER_0,),
        Timeouts(hang_timeout=10, start_timeout=60),
        check_every=1,
        now=0,
        guests={WORKER_0: FEEDER_0},
    )
    start(book, FEEDER_0, 0)
    assert book.next_start(0) is None
    book.record_heartbeat(FEEDER_0, 0.0, 0)
    book.record_heartbeat(WORKER_0, 0.0, 0)
    for now in range(1, 11):
        book.record_heartbeat(FEEDER_0, 0.0, now)
        assert not book.mark_stuck(now)
    assert [stuck.peer for stuck in book.mark_stuck(11)] == [WORKER_0]
    book.record_death(FEEDER_0, "was killed", 12)
    successor = book.schedule_restart(FEEDER_0, 12, "restarted")
    start(book, successor, 12)
    book.record_heartbeat(WORKER_0, 0.0, 12)
    book.record_heartbeat(NEXT_LIFE, 0.0, 12)
    assert [stuck.peer for stuck in book.mark_stuck(13)] == []


# --- watching ---


def test_who_beats_and_moves_is_left_alone() -> None:
    book = running(WORKER_0)
    for now in range(100):
        book.record_heartbeat(WORKER_0, 0.5, now)
        assert book.mark_stuck(now) == []


def test_silence_and_standing_still_are_both_stuck() -> None:
    book = running(FEEDER_0, WORKER_0)
    for now in range(12):
        book.record_heartbeat(WORKER_0, float(now), now)  # its thread for messages beats, its loop stands
        found = book.mark_stuck(now)
        if now <= 10:
            assert found == []
    assert found == [
        StuckProcess(FEEDER_0, "was silent for 11.0 s (pool.hang_timeout)"),
        StuckProcess(WORKER_0, "has not moved for 11.0 s (pool.hang_timeout)"),
    ]


def test_who_is_killed_is_killed_once_whatever_it_still_says() -> None:
    book = running(WORKER_0)
    look_until(book, 11)
    book.record_heartbeat(WORKER_0, 0.0, 11)
    assert look_until(book, 30, begin=11) == []


def test_the_dead_and_their_late_words_are_forgotten() -> None:
    book = running(WORKER_0)
    book.record_death(WORKER_0, "was killed", 0)
    book.record_heartbeat(WORKER_0, 0.0, 0)
    assert look_until(book, 20) == []
    book.schedule_restart(WORKER_0, 20, "restarted")
    start(book, NEXT_LIFE, 20)
    book.record_heartbeat(WORKER_0, 0.0, 21)
    assert [stuck.reason for stuck in look_until(book, 81, begin=21)] == [
        "did not get ready within 60 s (pool.start_timeout)"
    ]


def test_time_in_which_the_watcher_slept_counts_for_nobody() -> None:
    book = running(WORKER_0)
    assert book.mark_stuck(1) == []
    assert book.mark_stuck(1000) == []  # the machine was suspended
    assert [stuck.peer for stuck in look_until(book, 1012, begin=1001)] == [WORKER_0]


def test_who_is_not_ready_in_time_is_stuck_too() -> None:
    book = places(WORKER_0, FEEDER_0)
    start(book, WORKER_0, 0)
    start(book, FEEDER_0, 0)
    found: list[StuckProcess] = []
    for now in range(62):
        if now >= 30:
            book.record_heartbeat(FEEDER_0, 0.0, now)
        assert found == []
        found = book.mark_stuck(now)
    assert found == [StuckProcess(WORKER_0, "did not get ready within 60 s (pool.start_timeout)")]


def test_a_fork_server_may_be_silent_unless_it_is_asked() -> None:
    book = places(WORKER_0)
    assert look_until(book, 100) == []
    book.record_request(WORKER_0, 100)
    assert [stuck.peer for stuck in look_until(book, 111, begin=100)] == [SERVER]
    book.record_answer(111)  # just before it died
    book.record_start(WORKER_0, 111)
    book.record_death(SERVER, "was killed by SIGKILL", 111)


def look_until(book: ProcessTable, end: int, begin: int = 0) -> list[StuckProcess]:
    """A look each second; whoever was stuck at any of them."""
    return [stuck for now in range(begin, end + 1) for stuck in book.mark_stuck(now)]


# --- the table ---


def test_a_transition_that_is_not_drawn_names_the_process_and_both_stages() -> None:
    place = ProcessState(Peer(COORDINATOR), Stage.DEAD)
    with pytest.raises(AssertionError, match="coordinator: Ready after Dead"):
        place.enter(Stage.READY, 0)


def test_the_page_draws_the_table() -> None:
    page = next((ROOT / "docs").rglob("recovery.md")).read_text(encoding="utf-8")
    diagram = page.partition("as the supervisor sees them (`pool/supervisor/process_state.py`):")[2].split("```")[1]
    drawn = {(found[1], found[2]) for found in re.finditer(r"^ +(\w+) --> (\w+):", diagram, re.MULTILINE)}
    assert drawn == {(stage.value, then.value) for stage, after in NEXT.items() for then in after}
