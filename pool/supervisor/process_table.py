"""The states of all processes of a run: which is to be started, which is watched, which is stuck. No sockets, no clock.

Silence leads to a kill and to nothing else; what a process owned is given away when its death is seen (I4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pool.protocol.identity import Peer
from pool.supervisor.process_state import Patience, Place, Stage

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stuck:
    peer: Peer
    why: str


class Places:
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
        self._forkserver = Place(forkserver, Stage.IDLE)
        guests = guests or {}
        self._places = {peer.place: Place(peer, due=now) for peer in (*others, *guests)}
        self._guests = {guest.place: host.place for guest, host in guests.items()}
        self._places[forkserver.place] = self._forkserver
        self._patience = patience
        self._look_every = look_every
        self._looked = now

    # --- starting ---

    @property
    def somebody_waits(self) -> bool:
        """Somebody waits for the fork server."""
        return any(place.stage in (Stage.WAITING, Stage.ASKED) for place in self._others())

    def next_start(self, now: float) -> Peer | None:
        """The process whose pause is over; only the fork server itself while that is busy."""
        place = self._first_to_start()
        return place.peer if place is not None and place.due <= now else None

    def pause(self, now: float, longest: float) -> float:
        """Seconds until a process is to be started."""
        place = self._first_to_start()
        return longest if place is None else min(longest, max(0.0, place.due - now))

    def asked(self, peer: Peer, now: float) -> None:
        """The fork server has been asked for a process; it has the usual time to answer."""
        self._enter(self._place_of(peer), Stage.ASKED, now, "its time has come")
        self._enter(self._forkserver, Stage.READY, now, f"asked for the {peer}")

    def started(self, peer: Peer, now: float) -> None:
        """A process is there; its first beat says that it is ready."""
        for place in self._played_by(peer):
            self._enter(place, Stage.STARTING, now, "it is there")

    def answered(self, now: float) -> None:
        """The fork server has got ready, or has forked: it owes nothing until it is asked again."""
        if self._forkserver.stage is not Stage.KILLED:  # too late
            self._enter(self._forkserver, Stage.IDLE, now, "it has answered")

    # --- watching ---

    def beat(self, peer: Peer, still: float, now: float) -> None:
        """A heartbeat: the process's loop has not moved for `still` seconds. One of a dead process changes nothing."""
        place = self._places.get(peer.place)
        if place is None or place.peer != peer or place.stage not in (Stage.STARTING, Stage.READY):
            return
        if place.stage is Stage.STARTING:
            self._enter(place, Stage.READY, now, "it has spoken")
        place.heard, place.moved = now, now - still

    def stuck(self, now: float) -> list[Stuck]:
        """The processes to kill. Time in which this process itself did not run (a suspended machine) does not count."""
        lost, self._looked = max(0.0, now - self._looked - 2 * self._look_every), now
        killed = []
        for place in self._places.values():
            place.shift(lost)
            if why := place.stuck(self._patience, now):
                self._enter(place, Stage.KILLED, now, f"it {why}")
                killed.append(Stuck(place.peer, why))
        return killed

    # --- ending ---

    def died(self, peer: Peer, how: str, now: float) -> None:
        """The death of a process has been seen; `how` completes "it ...". A process that the dead fork server was asked
        for waits for the next one."""
        for place in self._played_by(peer):
            self._enter(place, Stage.DEAD, now, f"it {how}")
        if peer == self._forkserver.peer:
            for other in self._others():
                if other.stage is Stage.ASKED:
                    self._enter(other, Stage.WAITING, now, "the fork server has died")

    def again(self, peer: Peer, due: float, why: str) -> Peer:
        """The dead one's successor, to be started at `due`."""
        places = self._played_by(peer)
        for place in places:
            place.wait(due)
            log.info("%s (incarnation %d): %s: %s", place.peer, place.peer.incarnation, place.stage.value, why)
        return places[0].peer

    def _others(self) -> Iterable[Place]:
        return (place for place in self._places.values() if place is not self._forkserver)

    def _first_to_start(self) -> Place | None:
        if self._forkserver.stage is Stage.WAITING:
            return self._forkserver
        if self._forkserver.stage is not Stage.IDLE:
            return None
        processes = (place for place in self._others() if place.peer.place not in self._guests)
        waiting = (place for place in processes if place.stage is Stage.WAITING)
        return min(waiting, key=lambda place: place.due, default=None)

    def _played_by(self, peer: Peer) -> list[Place]:
        """Returns the place of a process, then those of its guests."""
        guests = [guest for guest, host in self._guests.items() if host == peer.place]
        return [self._place_of(peer), *(self._places[guest] for guest in guests)]

    def _place_of(self, peer: Peer) -> Place:
        place = self._places[peer.place]
        assert place.peer == peer, f"{peer} (incarnation {peer.incarnation}) is not the newest of its place"
        return place

    def _enter(self, place: Place, stage: Stage, now: float, why: str) -> None:
        place.enter(stage, now)
        log.info("%s (incarnation %d): %s: %s", place.peer, place.peer.incarnation, stage.value, why)
