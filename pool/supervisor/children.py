"""The living children of a run, one at most for each place, the fork server among them.

Knows how each is started and what memory it gets; decides nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import zmq

from pool.launch import Launch
from pool.protocol.identity import FORKSERVER, Peer
from pool.shm.memory import held_batch
from pool.supervisor.child import Child
from pool.supervisor.forkserver import ForkServer


class Children:
    def __init__(
        self,
        segments: Mapping[str, int],
        sizes: Mapping[str, int],
        logs: Path,
        poller: zmq.Poller,
        forkserver: ForkServer,
    ) -> None:
        """`segments`: descriptors by name, closed in the end by `close`; `poller` watches every pidfd."""
        self.segments = segments
        self._sizes = sizes
        self._logs = logs
        self._poller = poller
        self._living: dict[tuple[str, int], Child] = {}
        self._forkserver: ForkServer | None = None
        self._take_in(forkserver)

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._living.values()))

    def __getitem__(self, peer: Peer) -> Child:
        return self._living[peer.place]

    @property
    def can_fork(self) -> bool:
        return self._forkserver is not None and self._forkserver.ready

    def start(self, launch: Launch) -> bool:
        """Starts the process that `launch` describes; False if there is no fork server to do it.

        Raises UnresponsiveError, OSError.
        """
        peer = launch.peer
        assert peer.place not in self._living, f"I4: {peer} starts before its predecessor's death was seen"
        log = self._logs / f"{peer.role}-{peer.index}.log"
        if peer.role == FORKSERVER:
            self._take_in(ForkServer(launch, log))
            return True
        if not self.can_fork:
            return False
        assert self._forkserver is not None
        child = self._forkserver.start(launch, log, self.segments, self._sizes)
        if child is not None:
            self._take_in(child)
        return child is not None

    def newly_ready(self, events: Mapping[object, int]) -> Peer | None:
        """The fork server, if `events` of the poller show that it can fork now."""
        server = self._forkserver
        if server is None or server.ready or server.channel.fileno() not in events:
            return None
        return server.peer if server.take_ready() else None

    def dead(self, events: Mapping[object, int]) -> Iterator[Child]:
        """Those of the living whose death `events` of the poller shows."""
        yield from [child for child in self._living.values() if child.pidfd in events]

    def forget(self, child: Child) -> str:
        """A dead child leaves; in words, how it ended."""
        del self._living[child.peer.place]
        self._poller.unregister(child.pidfd)
        if child is self._forkserver:
            self._poller.unregister(child.channel.fileno())
            self._forkserver = None
        return child.reap()

    def held_batch(self, peer: Peer) -> int | None:
        """The batch that a worker was computing when it died."""
        return held_batch(self.segments, self._sizes, peer)

    def send_signal(self, number: signal.Signals) -> None:
        """To all."""
        for child in self:
            child.send_signal(number)

    def close(self) -> None:
        """Once nobody lives: the memory goes with its last descriptor (I6)."""
        for fd in self.segments.values():
            os.close(fd)

    def _take_in(self, child: Child) -> None:
        self._living[child.peer.place] = child
        self._poller.register(child.pidfd, zmq.POLLIN)
        if isinstance(child, ForkServer):
            self._forkserver = child
            self._poller.register(child.channel.fileno(), zmq.POLLIN)
