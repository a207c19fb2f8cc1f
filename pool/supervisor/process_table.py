"""Tracks the stages of all processes of a run: which is to be started, which is watched, which is stuck.

Uses no sockets and no clock. A silent process is killed, and nothing else follows from silence: what a process owned is
given to others when its death is seen (I4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pool.protocol.identity import Peer
from pool.supervisor.process_state import Patience, ProcessState, Stage

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StuckProcess:
    """Names a process to kill, with a reason that completes "the process ..."."""

    peer: Peer
    why: str


class ProcessTable:
    """Holds the states of all processes but the supervisor. Each change of a stage is logged with the reason."""

    def __init__(
        self,
        forkserver: Peer,
        others: Iterable[Peer],
        patience: Patience,
        look_every: float,
        now: float,
        *,
        guests: Mapping[Peer, Peer] | None = None,
    ) -> None:
        """Begins with a fork server that is ready, and all other processes to be started now.

        `look_every`: most seconds between two calls of `stuck`, unless this process is stopped. `guests`: for each role
        that runs in another role's process, that other role. Guests are watched like processes, and start and end with
        their host.
        """
        self._forkserver = ProcessState(forkserver, Stage.IDLE)
        guests = guests or {}
        self._states = {peer.role_index: ProcessState(peer, due=now) for peer in (*others, *guests)}
        self._guests = {guest.role_index: host.role_index for guest, host in guests.items()}
        self._states[forkserver.role_index] = self._forkserver
        self._patience = patience
        self._look_every = look_every
        self._looked = now

    # --- starting ---

    @property
    def somebody_waits(self) -> bool:
        """Tells whether a process waits for the fork server."""
        return any(state.stage in (Stage.WAITING, Stage.ASKED) for state in self._others())

    def next_start(self, now: float) -> Peer | None:
        """Returns the next process whose pause is over, or None. While the fork server is busy or dead no other process
        is started."""
        state = self._first_to_start()
        return state.peer if state is not None and state.due <= now else None

    def pause(self, now: float, longest: float) -> float:
        """Returns the seconds until a process is to be started, at most `longest`."""
        state = self._first_to_start()
        return longest if state is None else min(longest, max(0.0, state.due - now))

    def asked(self, peer: Peer, now: float) -> None:
        """Notes that the fork server was asked for a process. It has to answer within the usual time."""
        self._enter(self._state_of(peer), Stage.ASKED, now, "its time has come")
        self._enter(self._forkserver, Stage.READY, now, f"asked for the {peer}")

    def started(self, peer: Peer, now: float) -> None:
        """Notes that a process exists. The process's first heartbeat will make it ready."""
        for state in self._played_by(peer):
            self._enter(state, Stage.STARTING, now, "it is there")

    def answered(self, now: float) -> None:
        """Notes that the fork server is ready, or has forked. It may be silent until it is asked again."""
        if self._forkserver.stage is not Stage.KILLED:  # the answer came too late
            self._enter(self._forkserver, Stage.IDLE, now, "it has answered")

    # --- watching ---

    def beat(self, peer: Peer, still: float, now: float) -> None:
        """Notes a heartbeat of a process whose loop has not advanced for `still` seconds. Ignores heartbeats of dead
        processes."""
        state = self._states.get(peer.role_index)
        if state is None or state.peer != peer or state.stage not in (Stage.STARTING, Stage.READY):
            return
        if state.stage is Stage.STARTING:
            self._enter(state, Stage.READY, now, "it has spoken")
        state.heard, state.moved = now, now - still

    def stuck(self, now: float) -> list[StuckProcess]:
        """Returns the processes to kill, and marks them as killed.

        Time in which the supervisor itself did not run (on a suspended machine) does not count as silence.
        """
        lost, self._looked = max(0.0, now - self._looked - 2 * self._look_every), now
        killed = []
        for state in self._states.values():
            state.shift(lost)
            if why := state.stuck(self._patience, now):
                self._enter(state, Stage.KILLED, now, f"it {why}")
                killed.append(StuckProcess(state.peer, why))
        return killed

    # --- ending ---

    def died(self, peer: Peer, how: str, now: float) -> None:
        """Notes that a process's death was seen. `how` completes "it ...".

        If the fork server is dead, a process that it was asked for waits for the next fork server.
        """
        for state in self._played_by(peer):
            self._enter(state, Stage.DEAD, now, f"it {how}")
        if peer == self._forkserver.peer:
            for other in self._others():
                if other.stage is Stage.ASKED:
                    self._enter(other, Stage.WAITING, now, "the fork server has died")

    def again(self, peer: Peer, due: float, why: str) -> Peer:
        """Schedules the next incarnation of a dead process, to be started at `due`. Returns it."""
        states = self._played_by(peer)
        for state in states:
            state.wait(due)
            log.info("%s (incarnation %d): %s: %s", state.peer, state.peer.incarnation, state.stage.value, why)
        return states[0].peer

    def _others(self) -> Iterable[ProcessState]:
        return (state for state in self._states.values() if state is not self._forkserver)

    def _first_to_start(self) -> ProcessState | None:
        """Returns the process to start next: a dead fork server first, then the one whose pause ends first. None if
        there is none."""
        if self._forkserver.stage is Stage.WAITING:
            return self._forkserver
        if self._forkserver.stage is not Stage.IDLE:
            return None
        processes = (state for state in self._others() if state.peer.role_index not in self._guests)
        waiting = (state for state in processes if state.stage is Stage.WAITING)
        return min(waiting, key=lambda state: state.due, default=None)

    def _played_by(self, peer: Peer) -> list[ProcessState]:
        """Returns the states of a process and of its guests (other roles in the same process), its own first."""
        guests = [guest for guest, host in self._guests.items() if host == peer.role_index]
        return [self._state_of(peer), *(self._states[guest] for guest in guests)]

    def _state_of(self, peer: Peer) -> ProcessState:
        state = self._states[peer.role_index]
        assert state.peer == peer, f"{peer} (incarnation {peer.incarnation}) is not the newest of its place"
        return state

    def _enter(self, state: ProcessState, stage: Stage, now: float, why: str) -> None:
        state.enter(stage, now)
        log.info("%s (incarnation %d): %s: %s", state.peer, state.peer.incarnation, stage.value, why)
