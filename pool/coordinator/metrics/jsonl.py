"""metrics.jsonl: one line for each step and each validation. While the disk is full, lines wait in memory."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loader.command_line.json_line import json_line
from pool.coordinator.metrics.records import remove_after
from pool.metrics.medians import MEMBERS, split_member_name
from pool.run_folder.lines import LineFile
from pool.run_folder.records import METRICS


class JsonLines:
    """The sink that writes metrics.jsonl. A resumed run removes the lines of steps that it does again
    (`ResumedSink`)."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / METRICS
        self._file = LineFile(self.path)
        self.validated = -1  # the step that the run is resumed from, if its validation is in the file

    def resume(self, step: int) -> None:
        """Removes the records of steps after `step`, which are done again. Raises OSError."""
        self.validated = remove_after(self.path, step)

    def add(self, step: int, scalars: Mapping[str, float]) -> bool:
        """Writes a line of numbers by name. Returns True. Raises OSError if it could not be written, and waits."""
        self._file.add(json_line({"step": step, "time": time.time(), **_record(scalars)}).removesuffix("\n"))
        if self._file.error is not None:
            raise self._file.error
        return True

    @property
    def unwritten(self) -> int:
        """The number of lines that could not be written to the file so far."""
        return self._file.num_pending + self._file.lost

    def write_waiting(self) -> None:
        """Writes the lines that wait in memory because the disk was full. Raises OSError."""
        self._file.write_pending()
        if self._file.error is not None:
            raise self._file.error

    def close(self) -> None:
        """Writes the lines that wait in memory, and closes the file. Raises OSError if lines are lost."""
        try:
            if self._file.num_pending:
                self.write_waiting()
            if self._file.lost:
                raise OSError(errno.ENOSPC, f"{self._file.lost} lines are lost: there was no room for so long")
        finally:
            self._file.close()


def _record(scalars: Mapping[str, float]) -> dict[str, Any]:
    """Returns numbers by name as a record of metrics.jsonl. Those of single members (networks of an ensemble) become
    lists, in the order of the members."""
    record: dict[str, Any] = {}
    lists: dict[str, list[float]] = {}
    for name, value in scalars.items():
        if (own := split_member_name(name)) is None:
            record[name] = value
        else:
            lists.setdefault(own[1], []).append(value)
    return {**record, MEMBERS: lists} if lists else record
