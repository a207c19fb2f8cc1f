"""The memory of a run as its owner, the supervisor, has it: descriptors of segments and bells (I6)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pool.process.start import Start
from pool.shm.memory_map import access
from pool.shm.segment import SegmentHandle, read_only
from pool.shm.signals import within_reach


@dataclass(frozen=True)
class RunMemory:
    """Without arguments: none, which is what a planner gets."""

    segments: Mapping[str, int] = field(default_factory=dict)  # descriptors by name
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of each segment
    bells: Mapping[str, int] = field(default_factory=dict)  # descriptors by name

    @contextlib.contextmanager
    def part_of(self, start: Start) -> Iterator[tuple[Start, list[int]]]:
        """Yields `start` with exactly the memory that its process may read or write (I4), and the descriptors to send,
        open for the length of a `with`. What a process only reads it can't map for writing, unless it registers it with
        a device's driver, which may take no other. Raises OSError."""
        duplicates: list[int] = []
        handles: dict[str, SegmentHandle] = {}
        try:
            for name, writable in access(start.peer, self.sizes).items():
                fd = self.segments[name]
                registered = start.registers and not writable
                handles[name] = SegmentHandle(len(duplicates), writable, registered)
                duplicates.append(os.dup(fd) if writable or registered else read_only(fd))
            reach = within_reach(start.peer, list(self.bells))
            bells = {name: len(duplicates) + i for i, name in enumerate(reach)}
            yield replace(start, segments=handles, bells=bells), [*duplicates, *(self.bells[name] for name in reach)]
        finally:
            for fd in duplicates:
                os.close(fd)

    def close(self) -> None:
        """Called when all processes are dead: the memory is freed with its last descriptor."""
        for fd in (*self.segments.values(), *self.bells.values()):
            os.close(fd)
