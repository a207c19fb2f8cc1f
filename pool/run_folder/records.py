"""Reads metrics.jsonl of a run that has ended or is going on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from loader.files.regular import open_regular
from pool.errors import ConfigError
from pool.metrics.medians import MEMBERS
from pool.run_folder.lines import LONGEST

METRICS = "metrics.jsonl"


class RecordFile:
    """A metrics.jsonl that may grow. Each reading continues where the previous one ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0  # end of the newest line that was read
        self._line = b""  # the newest line that was read

    def continues(self) -> bool:
        """Returns whether the lines that were read before are still in the file.

        They are not if a run has repeated steps or is a new one. Then the next reading begins at the file's start.
        Raises ConfigError.
        """
        line_begin = self._offset - len(self._line)
        with self._open() as fd:
            if self._offset == 0:
                return True
            if fd is not None and os.pread(fd, len(self._line), line_begin) == self._line:
                return True
        self._offset, self._line = 0, b""
        return False

    def read(self) -> Iterator[Mapping[str, Any]]:
        """Yields the records in the new lines, up to the last whole line. Yields none if there is no file.

        Lines that are no records are skipped. Raises ConfigError.
        """
        with self._open() as fd:
            if fd is None:
                return
            with os.fdopen(os.dup(fd), "rb") as file:
                file.seek(self._offset)
                line = file.readline(LONGEST)
                while line:
                    is_incomplete = not line.endswith(b"\n") and len(line) < LONGEST
                    if is_incomplete:  # its process was killed, or is writing now
                        return
                    self._offset, self._line = file.tell(), line
                    record = parse_record(line)
                    if record is not None:
                        yield record
                    line = file.readline(LONGEST)

    @contextmanager
    def _open(self) -> Iterator[int | None]:
        """Yields a descriptor of the file within the context; None if there is no file. Raises ConfigError."""
        try:
            fd = open_regular(self._path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from None
        try:
            yield fd
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from None
        finally:
            os.close(fd)


def read_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the records of a metrics.jsonl; none if there is no file. Raises ConfigError."""
    return RecordFile(path).read()


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Parses a line of metrics.jsonl; None if it is no record. A null is read as NaN, and means a number that is
    not finite."""
    with suppress(ValueError, RecursionError, TypeError, AttributeError):
        record = json.loads(line)
        if type(record.get("step")) is int:
            lists = {name: _null_to_nan(values) for name, values in record.pop(MEMBERS, {}).items()}
            record = dict(zip(record, _null_to_nan(list(record.values())), strict=True))
            return {**record, MEMBERS: lists} if lists else record
    return None


def _null_to_nan(values: list[Any]) -> list[float]:
    """Returns the values with None replaced by NaN. Raises TypeError for what is no list of numbers."""
    if not isinstance(values, list) or not all(isinstance(value, int | float | None) for value in values):
        raise TypeError
    return [math.nan if value is None else value for value in values]
