"""Tracks the stages of all processes of a run: which is to be started, which is watched, which is stuck.

Uses no sockets and no clock. A silent process is killed, and nothing else follows from silence: other processes get
what it owned when its death is seen (I4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pool.protocol.identity import Peer
from pool.supervisor.process_state import ProcessState, Stage, Timeouts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StuckProcess:
    """Names a process to kill, with a reason that completes "the process ..."."""

    peer: Peer
    reason: str


class ProcessTable:
    """Holds the states of all processes but the supervisor. Each change of a stage is logged with the reason."""

    def __init__(
        self,
        forkserver: Peer,
        others: Iterable[Peer],
        timeouts: Timeouts,
        check_every: float,
        now: float,
        *,
        guests: Mapping[Peer, Peer] | None = None,
    ) -> None:
        """Begins with a fork server that is ready, and all other processes to be started now.

        `check_every`: longest time between two calls of `mark_stuck`, in seconds, unless this process is suspended.
        `guests`: for each role that runs in another role's process, that other role. Guests are watched like processes,
        and start and end with their host.
        """
        self._forkserver = ProcessState(forkserver, Stage.IDLE)
        guests = guests or {}
        self._states = {peer.role_index: ProcessState(peer, due=now) for peer in (*others, *guests)}
        self._hosts = {guest.role_index: host.role_index for guest, host in guests.items()}
        self._states[forkserver.role_index] = self._forkserver
        self._timeouts = timeouts
        self._check_every = check_every
        self._last_check = now

    # --- starting ---

    @property
    def has_waiting(self) -> bool:
        """Tells whether a process waits for the fork server."""
        return any(state.stage in (Stage.WAITING, Stage.REQUESTED) for state in self._forked_states())

    def next_start(self, now: float) -> Peer | None:
        """Returns the next process whose pause is over, or None. While the fork server is busy or dead no other process
        is started."""
        state = self._first_to_start()
        return state.peer if state is not None and state.due <= now else None

    def seconds_until_start(self, now: float, limit: float) -> float:
        """Returns the seconds until a process is to be started, at most `limit`."""
        state = self._first_to_start()
        return limit if state is None else min(limit, max(0.0, state.due - now))

    def record_request(self, peer: Peer, now: float) -> None:
        """Records that the fork server was asked for a process. The fork server has to answer within the usual time."""
        self._enter(self._state_of(peer), Stage.REQUESTED, now, "its time has come")
        self._enter(self._forkserver, Stage.READY, now, f"asked for the {peer}")

    def record_start(self, peer: Peer, now: float) -> None:
        """Records that a process exists. The process's first heartbeat will make it ready."""
        for state in self._states_in_process(peer):
            self._enter(state, Stage.STARTING, now, "it is there")

    def record_answer(self, now: float) -> None:
        """Records that the fork server is ready, or has forked a process. The fork server may be silent until the next
        request."""
        if self._forkserver.stage is not Stage.KILLED:  # the answer came too late
            self._enter(self._forkserver, Stage.IDLE, now, "it has answered")

    # --- watching ---

    def record_heartbeat(self, peer: Peer, stalled_seconds: float, now: float) -> None:
        """Records a heartbeat of a process, and for how long its loop has not advanced. Ignores heartbeats of dead
        processes."""
        state = self._states.get(peer.role_index)
        if state is None or state.peer != peer or state.stage not in (Stage.STARTING, Stage.READY):
            return
        if state.stage is Stage.STARTING:
            self._enter(state, Stage.READY, now, "it has spoken")
        state.last_message, state.last_advance = now, now - stalled_seconds

    def mark_stuck(self, now: float) -> list[StuckProcess]:
        """Returns the processes to kill, and marks them as killed.

        Time in which the supervisor itself did not run (on a suspended machine) does not count as silence.
        """
        suspended = max(0.0, now - self._last_check - 2 * self._check_every)
        self._last_check = now
        stuck = []
        for state in self._states.values():
            state.discount(suspended)
            reason = state.reason_to_kill(self._timeouts, now)
            if reason:
                self._enter(state, Stage.KILLED, now, f"it {reason}")
                stuck.append(StuckProcess(state.peer, reason))
        return stuck

    # --- ending ---

    def record_death(self, peer: Peer, ending: str, now: float) -> None:
        """Records that a process is dead. `ending`: signal or exit code, to complete "it ...".

        A process that a dead fork server was asked for waits for the next fork server.
        """
        for state in self._states_in_process(peer):
            self._enter(state, Stage.DEAD, now, f"it {ending}")
        if peer != self._forkserver.peer:
            return
        for state in self._forked_states():
            if state.stage is Stage.REQUESTED:
                self._enter(state, Stage.WAITING, now, "the fork server has died")

    def schedule_restart(self, peer: Peer, due: float, reason: str) -> Peer:
        """Schedules the next incarnation of a dead process, to be started at `due`. Returns it."""
        states = self._states_in_process(peer)
        for state in states:
            state.schedule_restart(due)
            _log_stage(state, reason)
        return states[0].peer

    def _forked_states(self) -> Iterable[ProcessState]:
        """Returns the states of all processes but the fork server."""
        return (state for state in self._states.values() if state is not self._forkserver)

    def _first_to_start(self) -> ProcessState | None:
        """Returns the process to start next: a dead fork server first, then the process whose pause ends first. None if
        there is none."""
        if self._forkserver.stage is Stage.WAITING:
            return self._forkserver
        if self._forkserver.stage is not Stage.IDLE:
            return None
        processes = (state for state in self._forked_states() if state.peer.role_index not in self._hosts)
        waiting = (state for state in processes if state.stage is Stage.WAITING)
        return min(waiting, key=lambda state: state.due, default=None)

    def _states_in_process(self, peer: Peer) -> list[ProcessState]:
        """Returns the states of a process and of its guests (other roles in the same process), its own first."""
        guests = [guest for guest, host in self._hosts.items() if host == peer.role_index]
        return [self._state_of(peer), *(self._states[guest] for guest in guests)]

    def _state_of(self, peer: Peer) -> ProcessState:
        state = self._states[peer.role_index]
        assert state.peer == peer, f"{peer} (incarnation {peer.incarnation}) is not the newest of its place"
        return state

    def _enter(self, state: ProcessState, stage: Stage, now: float, reason: str) -> None:
        state.enter(stage, now)
        _log_stage(state, reason)


def _log_stage(state: ProcessState, reason: str) -> None:
    """Logs the stage of a process and why it was entered, in the format that `pool.watch.lives` reads."""
    log.info("%s (incarnation %d): %s: %s", state.peer, state.peer.incarnation, state.stage.value, reason)
