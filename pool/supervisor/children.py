"""The living children of a run, one at most for each place, and one spare that can become the next worker.

Knows how each is started and what memory it gets; decides nothing.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import zmq

from pool.launch import Launch
from pool.protocol.identity import COORDINATOR, SPARE, WORKER, Peer
from pool.shm.memory import held_batch
from pool.supervisor.child import Child

log = logging.getLogger(__name__)

TORCH_ROLES = (COORDINATOR, WORKER)
SPARES_LOST = 5  # after so many that died waiting there is none any more


class Children:
    def __init__(
        self, segments: Mapping[str, int], sizes: Mapping[str, int], logs: Path, poller: zmq.Poller, spare: Child
    ) -> None:
        """`segments`: descriptors by name, closed in the end by `close`; `poller` watches every pidfd."""
        self.segments = segments
        self._sizes = sizes
        self._logs = logs
        self._poller = poller
        self._living: dict[tuple[str, int], Child] = {}
        self._spare: Child | None = spare
        poller.register(spare.pidfd, zmq.POLLIN)
        self._spares_lost = 0

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._living.values()))

    def __getitem__(self, peer: Peer) -> Child:
        return self._living[peer.place]

    def start(self, launch: Launch) -> None:
        """Starts the process that `launch` describes. Raises OSError."""
        place = launch.peer.place
        assert place not in self._living, f"I4: {launch.peer} starts before its predecessor's death was seen"
        log = self._logs / f"{launch.peer.role}-{launch.peer.index}.log"
        if self._spare is not None and launch.peer.role in TORCH_ROLES:
            child, self._spare = self._spare, None
        else:
            child = self._new(log)
        self._living[place] = child
        child.become(launch, log, self.segments, self._sizes)

    def keep_spare(self, launch: Launch) -> None:
        """Starts a spare if there is none. Raises OSError."""
        if self._spare is None and self._spares_lost < SPARES_LOST:
            path = self._logs / "spare.log"
            self._spare = self._new(path)
            self._spare.become(replace(launch, peer=Peer(SPARE)), path, {}, {})

    def dead(self, events: Mapping[object, int]) -> Iterator[Child]:
        """Those of the living whose death `events` of the poller shows; a dead spare is seen to here."""
        if self._spare is not None and self._spare.pidfd in events:
            spare, self._spare = self._spare, None
            self._poller.unregister(spare.pidfd)
            self._spares_lost += 1
            log.warning("a spare %s\n%s", spare.reap(), spare.last_lines())
        yield from [child for child in self._living.values() if child.pidfd in events]

    def forget(self, child: Child) -> str:
        """A dead child leaves; in words, how it ended."""
        self._poller.unregister(child.pidfd)
        del self._living[child.peer.place]
        return child.reap()

    def held_batch(self, peer: Peer) -> int | None:
        """The batch that a worker was computing when it died."""
        return held_batch(self.segments, self._sizes, peer)

    def send_signal(self, number: signal.Signals) -> None:
        """To all, the spare included."""
        for child in (*self._living.values(), *filter(None, [self._spare])):
            child.send_signal(number)

    def close(self) -> None:
        """Once nobody lives but the spare: that ends too, and the memory with its last descriptor (I6)."""
        if self._spare is not None:
            self._spare.end()
        for fd in self.segments.values():
            os.close(fd)

    def _new(self, log: Path) -> Child:
        child = Child(log)
        self._poller.register(child.pidfd, zmq.POLLIN)
        return child
