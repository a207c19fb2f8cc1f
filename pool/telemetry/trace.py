"""Records what each process does when, as spans of time in the trace format of Chrome and Perfetto: a row for each
process and thread.

Off unless `run.trace` names a file. Each process writes lines into a file of its own in the run folder. The supervisor
merges them into one trace when the run ends. All times are of the machine's monotonic clock. What can't be written or
read is left out: a trace never ends a run.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool.protocol.identity import COORDINATOR, FEEDER, WORKER, Peer
from pool.run_folder import files
from pool.run_folder.access import make_folder, open_file

log = logging.getLogger(__name__)

FOLDER = "trace"
_ROWS = (COORDINATOR, WORKER, FEEDER)  # order of the processes' rows, from top to bottom
_NOTHING = nullcontext()
_FIRST_ROW = 1 << 23  # number of the first row that is no thread: higher than any thread's number


class Trace:
    """Records the events of one process. Safe to use from any thread."""

    def __init__(self, run_dir: Path, peer: Peer, *, on: bool) -> None:
        self._fd = -1
        self._torn = False  # the newest line was not written completely
        self._named: dict[str, int] = {}  # numbers of rows that are no threads, by name
        if not on:
            return
        path = run_dir / FOLDER / f"{peer.role}-{peer.index}-{peer.incarnation}.jsonl"
        try:
            make_folder(path.parent)
            self._fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            log.warning("no trace of this process: %s: %s", path, error.strerror)
            return
        self._process = 100 * _ROWS.index(peer.role) + peer.index
        self._write({"ph": "M", "name": "process_name", "args": {"name": str(peer)}})
        self._write({"ph": "M", "name": "process_sort_index", "args": {"sort_index": self._process}})

    @property
    def is_on(self) -> bool:
        return self._fd >= 0

    @staticmethod
    def now() -> float:
        """Returns the current time of the trace's clock, in microseconds."""
        return time.monotonic_ns() / 1000

    def bar(self, row: str, name: str, begin: float, duration: float, **arguments: Any) -> None:
        """Records a span of something that is no thread, in a row of its own. Must be called from one thread only.

        `begin`, `duration`: microseconds; `arguments`: shown with the span.
        """
        if not self.is_on:
            return
        if row not in self._named:
            self._named[row] = _FIRST_ROW + len(self._named)
            self._write({"ph": "M", "name": "thread_name", "args": {"name": row}, "tid": self._named[row]})
        span = {"ph": "X", "name": name, "ts": begin, "dur": duration, "args": arguments}
        self._write({**span, "tid": self._named[row]})

    def span(self, name: str, **arguments: Any) -> AbstractContextManager[None]:
        """Returns a context manager that records the time spent inside as a span in this thread's row."""
        return self._span(name, arguments) if self.is_on else _NOTHING

    def mark(self, name: str, **arguments: Any) -> None:
        """Records a single moment in this thread's row."""
        if self.is_on:
            self._write({"ph": "i", "s": "t", "name": name, "ts": self.now(), "args": arguments})

    def begin(self, name: str, number: int) -> None:
        """Records the begin of something that may overlap with others of its kind, in a row of its own until `end`.

        `name`, `number`: identify it.
        """
        if self.is_on:
            self._write({"ph": "b", "cat": name, "id": number, "name": f"{name} {number}", "ts": self.now()})

    def end(self, name: str, number: int) -> None:
        """Records the end of what `begin` has begun."""
        if self.is_on:
            self._write({"ph": "e", "cat": name, "id": number, "name": f"{name} {number}", "ts": self.now()})

    @contextmanager
    def _span(self, name: str, arguments: dict[str, Any]) -> Iterator[None]:
        begin = self.now()
        try:
            yield
        finally:
            self._write({"ph": "X", "name": name, "ts": begin, "dur": self.now() - begin, "args": arguments})

    def _write(self, event: dict[str, Any]) -> None:
        """Writes an event as one line, in one call, so that lines of several threads do not mix and a death leaves
        whole lines."""
        event = {"pid": self._process, "tid": threading.get_native_id(), **event}
        line = b"\n" * self._torn + json.dumps(event).encode() + b"\n"
        with suppress(OSError):  # a full disk costs events, not the run
            self._torn = os.write(self._fd, line) < len(line)


@dataclass(frozen=True)
class Merged:
    """Counts the events of a merged trace, and the lines that could not be read."""

    events: int
    torn: int  # lines that were left out


def merge(run_dir: Path, to: Path) -> Merged:
    """Merges the files of all processes into one trace, then removes them. Raises OSError; then `to` is not written."""
    events: list[dict[str, Any]] = []
    torn = 0
    parts = _list_parts(run_dir)
    for part in parts:
        with files.Reader(part) as file:
            lines = file.read(file.nbytes).splitlines()
        for line in lines:
            if (event := _parse_event(line)) is not None:
                events.append(event)
            else:
                torn += 1
    events.sort(key=lambda event: event["ts"])
    files.replace_file(to, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
    clear(run_dir)
    return Merged(len(events), torn)


def finish(run_dir: Path, to: Path) -> str:
    """Merges the trace at the end of a run. Returns a line for the user. Errors are reported in the line, not
    raised."""
    try:
        merged = merge(run_dir, Path(os.path.realpath(to)))
    except OSError as error:
        return f"{to} can't be written: {error.strerror}; its parts stay in {run_dir / FOLDER} until the next trace"
    torn = f", {merged.torn} more were torn" if merged.torn else ""
    return f"{to}: {merged.events} events{torn}; open it in Perfetto or chrome://tracing"


def clear(run_dir: Path) -> None:
    """Removes the trace files that processes of an earlier run wrote. Ignores files that can't be removed."""
    for part in _list_parts(run_dir):
        files.remove_quietly(part)
    with suppress(OSError):
        (run_dir / FOLDER).rmdir()


def _list_parts(run_dir: Path) -> list[Path]:
    return sorted((run_dir / FOLDER).glob("*.jsonl"))


def _parse_event(line: bytes) -> dict[str, Any] | None:
    """Parses a line as an event with a time. Returns None if a full disk or a death has cut the line short."""
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and isinstance(event.setdefault("ts", 0), int | float):
            return event
    return None
