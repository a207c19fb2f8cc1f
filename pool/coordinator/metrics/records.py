"""Removes lines of metrics.jsonl that are about steps which a resumed run or a new coordinator does again.

The file is cut in place. It is read from its end, no further than the step that the run is resumed from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from pool.metrics.layout import NET
from pool.run_folder.access import open_file
from pool.run_folder.lines import LONGEST, read_lines_backwards
from pool.run_folder.records import parse_record

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
        tail = _read_tail(fd, step) if step > 0 else _Tail(0, -1, b"")
        if tail.nets:  # written before the file is cut: if this process dies in between they are there twice, not lost
            os.pwrite(fd, tail.nets, tail.begin)
        os.ftruncate(fd, tail.begin + len(tail.nets))
        return tail.validated
    finally:
        os.close(fd)


class _Tail(NamedTuple):
    """The end of a file of records that is to be removed."""

    begin: int  # offset of the first record of a later step
    validated: int  # the step of the last record before that if it is validated, else -1
    nets: bytes  # lines with the numbers of exported nets, which are to be kept


def _read_tail(fd: int, step: int) -> _Tail:
    """Reads a file of records from its end, to find the records of steps after `step`.

    Lines that are no records are passed over, up to LONGEST bytes in a row.
    """
    begin = last_record = os.fstat(fd).st_size
    validated = -1
    nets: list[tuple[int, bytes]] = []  # offset in the file and line, the last one first
    for offset, line in read_lines_backwards(fd):
        record = parse_record(line)
        if record is not None and _is_of_a_net(record):
            last_record = offset
            if record["step"] <= step and line.endswith(b"\n"):
                nets.append((offset, line))
            continue
        if record is None:
            if not line.endswith(b"\n") and line.startswith(_BEGIN[: len(line)]):
                begin = offset
            if last_record - offset > LONGEST:
                break
            continue
        last_record = offset
        if record["step"] < step:
            break
        if record["step"] > step:
            begin = offset
        elif "validation_loss" in record:
            validated = step
    kept_nets = [line for offset, line in reversed(nets) if offset >= begin]
    return _Tail(begin, validated, b"".join(kept_nets))


def _is_of_a_net(record: dict[str, Any]) -> bool:
    """True if a record has the numbers of an exported net."""
    return any(name.startswith(NET) for name in record)
