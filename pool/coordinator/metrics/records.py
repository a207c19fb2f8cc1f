"""Removes lines of metrics.jsonl that are about steps which a resumed run or a new coordinator does again.

The file is cut in place. It is read from its end, no further than the step that the run is resumed from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pool.metrics.layout import NET
from pool.run_folder.access import open_file
from pool.run_folder.lines import LONGEST, lines_from_the_end
from pool.run_folder.records import record_in

_BEGIN = b'{"step": '  # how every record begins


def remove_after(path: Path, step: int) -> int:
    """Removes the records of steps after `step` from the end of the file, and an incomplete line that a dead writer has
    left. With `step` 0, removes everything. Numbers of exported nets of steps up to `step` are kept: they may come
    after the records of later steps.

    Returns `step` if its validation is among the records that are left, else -1. Raises OSError.
    """
    try:
        fd = open_file(path, os.O_RDWR)
    except FileNotFoundError:
        return -1
    try:
        end, validated, nets = _end_of(fd, step) if step > 0 else (0, -1, b"")
        if nets:  # written before the file is cut: if this process dies in between they are there twice, not lost
            os.pwrite(fd, nets, end)
        os.ftruncate(fd, end + len(nets))
        return validated
    finally:
        os.close(fd)


def _end_of(fd: int, step: int) -> tuple[int, int, bytes]:
    """Reads a file of records from its end, to find where it is to be cut. Returns three results: the number of bytes
    before the first record of a step after `step`; `step` if its validation is among those bytes, else -1; the numbers
    of exported nets from the bytes after them, which are to be kept.

    Lines that are no records are passed over, up to LONGEST bytes in a row.
    """
    end = known = os.fstat(fd).st_size
    validated = -1
    nets: list[tuple[int, bytes]] = []  # offset in the file and line, the last one first
    for offset, line in lines_from_the_end(fd):
        record = record_in(line)
        if record is not None and _is_of_a_net(record):
            known = offset
            if record["step"] <= step and line.endswith(b"\n"):
                nets.append((offset, line))
            continue
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
    return end, validated, b"".join(line for offset, line in reversed(nets) if offset >= end)


def _is_of_a_net(record: dict[str, Any]) -> bool:
    """True if a record has the numbers of an exported net."""
    return any(name.startswith(NET) for name in record)
