"""Curves for TensorBoard: an event file in the format of its library, written at once and by no thread.

A record that does not fit on the disk is taken back, or TensorBoard would read nothing behind it. TensorBoard reads the
files of a folder in the order of their names, and at a session's start forgets the points from its step on.
"""

from __future__ import annotations

import io
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from pool.run_folder.access import make_folder, open_file

_VERSION = "brain.Event:2"  # of the format
_NAME = re.compile(r"events\.out\.tfevents\.(\d{10})\.")


class EventFile:
    """One of the process's own in `folder`, made with the first point; if it is deleted, another one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder
        self._fd = -1
        self.begin_at: int | None = None  # the first step of the session: points of others from there on are void

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """A point of each curve, or of none: then raises OSError."""
        self._look()
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _look(self) -> None:
        """Makes the file if there is none of its name. Raises OSError."""
        if self._fd >= 0 and os.path.lexists(self._path):
            return
        self.close()
        make_folder(self._folder)
        self._path, self._fd = _new_file(self._folder)
        try:
            self._append(Event(wall_time=time.time(), file_version=_VERSION))
            if self.begin_at is not None:
                start = SessionLog(status=SessionLog.START)
                self._append(Event(wall_time=time.time(), step=self.begin_at, session_log=start))
        except OSError:
            self._path.unlink(missing_ok=True)
            raise

    def _append(self, event: Event) -> None:
        record = io.BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        before = os.fstat(self._fd).st_size
        rest = record.getvalue()
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, before)
            raise


def _new_file(folder: Path) -> tuple[Path, int]:
    """Makes a file whose name comes behind all there are: clocks are set back, and a second has several processes.
    Raises OSError."""
    times = [int(match[1]) for name in os.listdir(folder) if (match := _NAME.match(name))]  # noqa: PTH208
    second = max([int(time.time()), *(time + 1 for time in times)])
    while True:
        path = folder / f"events.out.tfevents.{second:010d}.{platform.node()}.{os.getpid()}.0"
        try:
            return path, open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        except FileExistsError:
            second += 1
