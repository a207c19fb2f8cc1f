"""One child process: started by exec with inherited descriptors, watched by pidfd, never waited for by pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pool.launch import Launch, SegmentHandle, write_descriptor
from pool.protocol.identity import Peer
from pool.shm.memory import access
from pool.shm.segment import read_only

LAST_LINES = 5


class Child:
    """A living or dead child. `pidfd` is readable once it is dead."""

    def __init__(self, peer: Peer, process: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
        self.peer = peer
        self._process = process
        self._log = log
        self._log_start = log_start
        self.pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """To a dead child: nothing happens."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return

    def reap(self) -> str:
        """After the pidfd is readable: how it ended, in words."""
        code = self._process.wait()
        os.close(self.pidfd)
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    @property
    def returncode(self) -> int | None:
        """After `reap`: the exit code, negative for a signal."""
        return self._process.returncode

    def last_lines(self) -> str:
        """The end of what this child wrote to its log."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            lines = file.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-LAST_LINES:])


def environment() -> dict[str, str]:
    """What the numbers must not depend on is fixed here for all (see the run's determinism)."""
    return {**os.environ, "OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def start(launch: Launch, segments: Mapping[str, int], sizes: Mapping[str, int], logs: Path) -> Child:
    """Starts the process that `launch` describes, with exactly the memory that is its to read or write (I4)."""
    peer = launch.peer
    log = logs / f"{peer.role}-{peer.index}.log"
    duplicates: list[int] = []
    handles: dict[str, SegmentHandle] = {}
    try:
        for name, writable in access(peer, sizes).items():
            fd = os.dup(segments[name]) if writable else read_only(segments[name])
            duplicates.append(fd)
            handles[name] = SegmentHandle(fd, writable)
        spec = write_descriptor(replace(launch, segments=handles).to_json())
        duplicates.append(spec)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pool.roles", str(spec)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=duplicates,
                process_group=0,
                env=environment(),
            )
            return Child(peer, process, log, output.tell())
    finally:
        for fd in duplicates:
            os.close(fd)
