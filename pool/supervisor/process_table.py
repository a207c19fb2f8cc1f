"""The states of all processes of a run: which is to be started, which is watched, which is stuck. No sockets, no clock.

Silence leads to a kill and to nothing else; what a process owned is given away when its death is seen (I4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pool.protocol.identity import Peer
from pool.supervisor.process_state import Patience, ProcessState, Stage

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stuck:
    peer: Peer
    why: str


class ProcessTable:
    """The states of all processes but the supervisor. Each change of a stage is logged with the reason."""

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
        """The fork server is ready; all others are to be started now. `look_every`: seconds between two calls of
        `stuck` at most, as long as this process is not stopped; `guests`: roles that one of the others plays, too: they
        are watched like processes, and start and end with theirs."""
        self._forkserver = ProcessState(forkserver, Stage.IDLE)
        guests = guests or {}
        self._states = {peer.place: ProcessState(peer, due=now) for peer in (*others, *guests)}
        self._guests = {guest.place: host.place for guest, host in guests.items()}
        self._states[forkserver.place] = self._forkserver
        self._patience = patience
        self._look_every = look_every
        self._looked = now

    # --- starting ---

    @property
    def somebody_waits(self) -> bool:
        """Somebody waits for the fork server."""
        return any(state.stage in (Stage.WAITING, Stage.ASKED) for state in self._others())

    def next_start(self, now: float) -> Peer | None:
        """The process whose pause is over; only the fork server itself while that is busy."""
        state = self._first_to_start()
        return state.peer if state is not None and state.due <= now else None

    def pause(self, now: float, longest: float) -> float:
        """Seconds until a process is to be started."""
        state = self._first_to_start()
        return longest if state is None else min(longest, max(0.0, state.due - now))

    def asked(self, peer: Peer, now: float) -> None:
        """The fork server has been asked for a process; it has the usual time to answer."""
        self._enter(self._state_of(peer), Stage.ASKED, now, "its time has come")
        self._enter(self._forkserver, Stage.READY, now, f"asked for the {peer}")

    def started(self, peer: Peer, now: float) -> None:
        """A process is there; its first beat says that it is ready."""
        for state in self._played_by(peer):
            self._enter(state, Stage.STARTING, now, "it is there")

    def answered(self, now: float) -> None:
        """The fork server has got ready, or has forked: it owes nothing until it is asked again."""
        if self._forkserver.stage is not Stage.KILLED:  # too late
            self._enter(self._forkserver, Stage.IDLE, now, "it has answered")

    # --- watching ---

    def beat(self, peer: Peer, still: float, now: float) -> None:
        """A heartbeat: the process's loop has not moved for `still` seconds. One of a dead process changes nothing."""
        state = self._states.get(peer.place)
        if state is None or state.peer != peer or state.stage not in (Stage.STARTING, Stage.READY):
            return
        if state.stage is Stage.STARTING:
            self._enter(state, Stage.READY, now, "it has spoken")
        state.heard, state.moved = now, now - still

    def stuck(self, now: float) -> list[Stuck]:
        """The processes to kill. Time in which this process itself did not run (a suspended machine) does not count."""
        lost, self._looked = max(0.0, now - self._looked - 2 * self._look_every), now
        killed = []
        for state in self._states.values():
            state.shift(lost)
            if why := state.stuck(self._patience, now):
                self._enter(state, Stage.KILLED, now, f"it {why}")
                killed.append(Stuck(state.peer, why))
        return killed

    # --- ending ---

    def died(self, peer: Peer, how: str, now: float) -> None:
        """The death of a process has been seen; `how` completes "it ...". A process that the dead fork server was asked
        for waits for the next one."""
        for state in self._played_by(peer):
            self._enter(state, Stage.DEAD, now, f"it {how}")
        if peer == self._forkserver.peer:
            for other in self._others():
                if other.stage is Stage.ASKED:
                    self._enter(other, Stage.WAITING, now, "the fork server has died")

    def again(self, peer: Peer, due: float, why: str) -> Peer:
        """The dead one's successor, to be started at `due`."""
        states = self._played_by(peer)
        for state in states:
            state.wait(due)
            log.info("%s (incarnation %d): %s: %s", state.peer, state.peer.incarnation, state.stage.value, why)
        return states[0].peer

    def _others(self) -> Iterable[ProcessState]:
        return (state for state in self._states.values() if state is not self._forkserver)

    def _first_to_start(self) -> ProcessState | None:
        if self._forkserver.stage is Stage.WAITING:
            return self._forkserver
        if self._forkserver.stage is not Stage.IDLE:
            return None
        processes = (state for state in self._others() if state.peer.place not in self._guests)
        waiting = (state for state in processes if state.stage is Stage.WAITING)
        return min(waiting, key=lambda state: state.due, default=None)

    def _played_by(self, peer: Peer) -> list[ProcessState]:
        """Returns the state of a process, then those of its guests."""
        guests = [guest for guest, host in self._guests.items() if host == peer.place]
        return [self._state_of(peer), *(self._states[guest] for guest in guests)]

    def _state_of(self, peer: Peer) -> ProcessState:
        state = self._states[peer.place]
        assert state.peer == peer, f"{peer} (incarnation {peer.incarnation}) is not the newest of its place"
        return state

    def _enter(self, state: ProcessState, stage: Stage, now: float, why: str) -> None:
        state.enter(stage, now)
        log.info("%s (incarnation %d): %s: %s", state.peer, state.peer.incarnation, stage.value, why)
