"""Holds the shared memory of a run, as its owner, the supervisor, has it: descriptors of segments and of signals
(I6)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pool.process.start import Start
from pool.shm.memory_map import segment_permissions
from pool.shm.segment import SegmentHandle, reopen_read_only
from pool.shm.signals import accessible_signals


@dataclass(frozen=True)
class RunMemory:
    """Holds the descriptors of a run's shared memory. Without arguments it holds none, which is what a planner gets."""

    segments: Mapping[str, int] = field(default_factory=dict)  # descriptors by name
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of each segment
    signal_fds: Mapping[str, int] = field(default_factory=dict)  # descriptors of signals (eventfds) by name

    @contextlib.contextmanager
    def part_of(self, start: Start) -> Iterator[tuple[Start, list[int]]]:
        """Yields `start` with exactly the memory that its process may read or write (I4), and the descriptors to send
        with it.

        The descriptors are open for the length of a `with`. A process can't map memory for writing that it only reads,
        unless it registers the memory with a device's driver, which may accept no other mapping. Raises OSError.
        """
        duplicates: list[int] = []
        handles: dict[str, SegmentHandle] = {}
        try:
            for name, writable in segment_permissions(start.peer, self.sizes).items():
                fd = self.segments[name]
                registered = start.registers and not writable
                handles[name] = SegmentHandle(len(duplicates), writable, registered)
                duplicates.append(os.dup(fd) if writable or registered else reopen_read_only(fd))
            reach = accessible_signals(start.peer, list(self.signal_fds))
            signal_fds = {name: len(duplicates) + i for i, name in enumerate(reach)}
            yield (
                replace(start, segments=handles, signal_fds=signal_fds),
                [*duplicates, *(self.signal_fds[name] for name in reach)],
            )
        finally:
            for fd in duplicates:
                os.close(fd)

    def close(self) -> None:
        """Closes all descriptors. To be called when all processes are dead; the last descriptor frees the memory."""
        for fd in (*self.segments.values(), *self.signal_fds.values()):
            os.close(fd)
