"""Writes curves for TensorBoard: an event file in TensorBoard's format, written immediately and without a thread.

A record that does not fit on the disk is removed again, because TensorBoard would read nothing after a broken record.
TensorBoard reads the files of a folder in the order of their names. Where a session starts, it forgets earlier points
from the session's first step on.
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

_VERSION = "brain.Event:2"  # version of the file format
_NAME = re.compile(r"events\.out\.tfevents\.(\d{10})\.")


class EventFile:
    """Appends points to an event file of this process in `folder`. The file is made with the first point, and anew if
    it was deleted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder
        self._fd = -1
        self.begin_at: int | None = None  # first step of the session; points of earlier sessions from there on are void

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Writes one point for each curve. Raises OSError if they can't be written; then none of them is in the file.

        `scalars`: value of each curve, by the curve's name.
        """
        self._open_if_missing()
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open_if_missing(self) -> None:
        """Makes the file if it does not exist, or was deleted. Raises OSError."""
        if self._fd >= 0 and os.path.lexists(self._path):
            return
        self.close()
        make_folder(self._folder)
        self._path, self._fd = _create_newest_file(self._folder)
        try:
            self._append(Event(wall_time=time.time(), file_version=_VERSION))
            if self.begin_at is not None:
                start = SessionLog(status=SessionLog.START)
                self._append(Event(wall_time=time.time(), step=self.begin_at, session_log=start))
        except OSError:
            self._path.unlink(missing_ok=True)
            raise

    def _append(self, event: Event) -> None:
        """Appends an event, or leaves the file as it was. Raises OSError."""
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


def _create_newest_file(folder: Path) -> tuple[Path, int]:
    """Makes a file whose name sorts after all others in the folder. Returns path and descriptor. Raises OSError.

    The name begins with the time in seconds. Clocks may have been set back, and several processes may start in one
    second, so the time is raised until it is the highest.
    """
    times = [int(match[1]) for name in os.listdir(folder) if (match := _NAME.match(name))]  # noqa: PTH208
    second = max([int(time.time()), *(time + 1 for time in times)])
    while True:
        path = folder / f"events.out.tfevents.{second:010d}.{platform.node()}.{os.getpid()}.0"
        try:
            return path, open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        except FileExistsError:
            second += 1
