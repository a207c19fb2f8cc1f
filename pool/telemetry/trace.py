"""What each process does when: spans in the trace format that Chrome and Perfetto show, a row per process and thread.

Off unless `run.trace` names a file. Each process writes lines into a file of its own in the run folder; the supervisor
makes one trace of them when the run ends. All clocks are the machine's monotonic one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer

FOLDER = "trace"
_ROWS = (COORDINATOR, WORKER, FEEDER)  # from top to bottom
_NOTHING = nullcontext()


class Trace:
    """Of one process. Safe from any thread."""

    def __init__(self, run_dir: Path, peer: Peer, *, on: bool) -> None:
        self._fd = -1
        if not on:
            return
        folder = run_dir / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{peer.role}-{peer.index}-{peer.incarnation}.jsonl"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._process = 100 * _ROWS.index(peer.role) + peer.index
        self._write({"ph": "M", "name": "process_name", "args": {"name": str(peer)}})
        self._write({"ph": "M", "name": "process_sort_index", "args": {"sort_index": self._process}})

    def span(self, name: str, **arguments: Any) -> AbstractContextManager[None]:
        """The time inside, as a bar of this thread's row."""
        return self._span(name, arguments) if self._fd >= 0 else _NOTHING

    def mark(self, name: str, **arguments: Any) -> None:
        """A moment."""
        if self._fd >= 0:
            self._write({"ph": "i", "s": "t", "name": name, "ts": _now(), "args": arguments})

    def begin(self, name: str, number: int) -> None:
        """Something that overlaps with others of its kind; it has a bar of its own until `end`."""
        if self._fd >= 0:
            self._write({"ph": "b", "cat": name, "id": number, "name": f"{name} {number}", "ts": _now()})

    def end(self, name: str, number: int) -> None:
        if self._fd >= 0:
            self._write({"ph": "e", "cat": name, "id": number, "name": f"{name} {number}", "ts": _now()})

    @contextmanager
    def _span(self, name: str, arguments: dict[str, Any]) -> Iterator[None]:
        begin = _now()
        try:
            yield
        finally:
            self._write({"ph": "X", "name": name, "ts": begin, "dur": _now() - begin, "args": arguments})

    def _write(self, event: dict[str, Any]) -> None:
        """One call, so that lines of several threads do not mix and a death leaves whole ones."""
        event |= {"pid": self._process, "tid": threading.get_native_id()}
        with suppress(OSError):  # a full disk costs events, not the run
            os.write(self._fd, json.dumps(event).encode() + b"\n")


def merge(run_dir: Path, to: Path) -> int:
    """Makes one trace of what the processes wrote, and removes that. Returns the number of events. Raises OSError."""
    events = []
    parts = sorted((run_dir / FOLDER).glob("*.jsonl"))
    for part in parts:
        events += [json.loads(line) for line in part.read_text(encoding="utf-8").splitlines()]
    events.sort(key=lambda event: event.get("ts", 0))
    to.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
    for part in parts:
        part.unlink()
    if parts:
        (run_dir / FOLDER).rmdir()
    return len(events)


def _now() -> float:
    """Microseconds."""
    return time.monotonic_ns() / 1000
