"""Keeps the living child processes of a run: at most one for each role and index, the fork server among them.

Knows how each is started and what memory it gets. Decides nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

import zmq

from pool.config.tree import Config
from pool.process import lifeline
from pool.process.start import RunStart
from pool.protocol.identity import WORKER, Peer
from pool.shm.memory import BatchInWork, read_batch_in_work
from pool.supervisor.processes.child import Child
from pool.supervisor.processes.forkserver import ForkServer
from pool.supervisor.resources.run_memory import RunMemory


class Children:
    """Starts, finds and removes the child processes of a run."""

    def __init__(
        self,
        memory: RunMemory,
        logs: Path,
        poller: zmq.Poller,
        forkserver: ForkServer,
        guests: Mapping[Peer, Peer],
    ) -> None:
        """Begins with the fork server as the only child.

        `poller`: watches the pidfd of every child; `guests`: for each role that runs in another role's process, that
        other role.
        """
        self._memory = memory
        self._hosts = {guest.role_index: host.role_index for guest, host in guests.items()}
        self._held = _HeldBatches(memory)
        self._logs = logs
        self._poller = poller
        self._living: dict[tuple[str, int], Child] = {}
        self._forkserver: ForkServer | None = None
        self._register(forkserver)

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._living.values()))

    def __getitem__(self, peer: Peer) -> Child:
        """Returns the process in which a role runs."""
        return self._living[self._hosts.get(peer.role_index, peer.role_index)]

    def start_forkserver(self, peer: Peer, config: Config) -> None:
        """Starts a new fork server. Raises OSError."""
        self._register(ForkServer(peer, config, self._log(peer)))

    def request_process(self, peer: Peer) -> None:
        """Asks the fork server to fork the process of `peer`. Raises OSError."""
        assert self._forkserver is not None
        assert peer.role_index not in self._living, f"I4: {peer} starts before its predecessor's death was seen"
        self._forkserver.request_process(peer, self._log(peer))

    def receive_child(self, events: Mapping[object, int]) -> Child | None:
        """Reads the fork server's answer, if `events` of the poller show one.

        Returns the fork server if it has got ready, the new process if it has forked one, which waits for its settings,
        or None. Raises OSError.
        """
        if self._forkserver is None or self._forkserver.channel.fileno() not in events:
            return None
        child = self._forkserver.receive_child()
        if child is not None and child is not self._forkserver:
            self._register(child)
        return child

    def send_start(self, start: RunStart) -> None:
        """Sends a child its start document. Raises OSError."""
        coordinator = self._living.get(start.coordinator.role_index)
        pid = None if coordinator is None else coordinator.pid
        self[start.peer].send_start(replace(start, coordinator_pid=pid), self._memory)

    def list_dead(self, events: Mapping[object, int]) -> Iterator[Child]:
        """Yields the children whose death `events` of the poller show."""
        yield from [child for child in self._living.values() if child.pidfd in events]

    def reap(self, child: Child) -> str:
        """Removes a dead child and reaps it. Returns how it ended, in words."""
        del self._living[child.peer.role_index]
        self._poller.unregister(child.pidfd)
        if child is self._forkserver:
            self._poller.unregister(child.channel.fileno())
            self._forkserver = None
        return child.reap()

    def held_batch(self, peer: Peer) -> BatchInWork | None:
        """Returns the batch that a worker was computing when it died, or None. To be called once for each death."""
        return self._held.batch_of(peer)

    def send_folder(self, fd: int) -> None:
        """Sends all children but the fork server the descriptor of a new run folder."""
        for child in self:
            if child is not self._forkserver:
                lifeline.send_folder(child.channel, fd)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to all children."""
        for child in self:
            child.send_signal(number)

    def reap_strays(self, others: Set[int]) -> None:
        """Waits for dead child processes that are not in the table: orphans, and processes that a fork server had
        forked when it died, before it reported them.

        `others`: pids that other code waits for.
        """
        if self._forkserver is not None and not self._forkserver.can_fork:
            return  # the fork server may be reporting such a process just now
        expected_pids = {child.pid for child in self} | others
        pid = _find_dead_child()
        while pid is not None and pid not in expected_pids:
            os.waitpid(pid, 0)
            pid = _find_dead_child()

    def _log(self, peer: Peer) -> Path:
        return self._logs / peer.log_name

    def _register(self, child: Child) -> None:
        self._living[child.peer.role_index] = child
        self._poller.register(child.pidfd, zmq.POLLIN)
        if isinstance(child, ForkServer):
            self._forkserver = child
            self._poller.register(child.channel.fileno(), zmq.POLLIN)


class _HeldBatches:
    """Finds the batches that dead workers were computing, by the marks that workers leave in shared memory.

    A mark stays until the next worker of the same index begins a batch. So a mark that was seen before says nothing
    about a later death.
    """

    def __init__(self, memory: RunMemory) -> None:
        self._memory = memory
        self._seen: dict[int, int] = {}  # attempt of the newest mark seen, by worker

    def batch_of(self, peer: Peer) -> BatchInWork | None:
        """Returns the batch that a dead worker was computing, or None if there was none or the process was no
        worker."""
        held = (
            read_batch_in_work(self._memory.segments, self._memory.sizes, peer.index) if peer.role == WORKER else None
        )
        if held is None or self._seen.get(peer.index) == held.attempt:
            return None
        self._seen[peer.index] = held.attempt
        return held


def _find_dead_child() -> int | None:
    """Returns the pid of a dead child that has not been reaped, or None."""
    try:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if info is None else info.si_pid
