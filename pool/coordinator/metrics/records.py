"""Removes lines of metrics.jsonl that are about steps which a resumed run or a new coordinator does again.

The file is cut in place and read from its end, no further than the step that the run goes on from.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pool.run_dir import open_file
from pool.telemetry.line_file import LONGEST, lines_from_the_end

_BEGIN = b'{"step": '  # of every record


def forget_after(path: Path, step: int) -> int:
    """Removes the records of later steps from the end of the file, and what a dead writer left of a line; before the
    first step, everything. Returns `step` if its validation is among the rest, else -1. Raises OSError."""
    try:
        fd = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return -1
    try:
        end, validated = _end_of(fd, step) if step > 0 else (0, -1)
        os.ftruncate(fd, end)
        return validated
    finally:
        os.close(fd)


def _end_of(fd: int, step: int) -> tuple[int, int]:
    """How many bytes come before the first record of a later step; `step` if its validation is among them, else -1.

    Lines that are no records are passed over, but not without end.
    """
    end = known = os.fstat(fd).st_size
    validated = -1
    for offset, line in lines_from_the_end(fd):
        record = _record_in(line)
        if record is None:
            if not line.endswith(b"\n") and line.startswith(_BEGIN[: len(line)]):
                end = offset
            if known - offset > LONGEST:
                break
            continue
        known = offset
        if record["step"] < step:
            break
        if record["step"] > step:
            end = offset
        elif "validation_loss" in record:
            validated = step
    return end, validated


def _record_in(line: bytes) -> dict[str, Any] | None:
    """None if it is none of a run's."""
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
        if isinstance(record, dict) and type(record.get("step")) is int:
            return record
    return None
