"""nets/record.jsonl: how far the nets of each step are. Written by the supervisor, read by the coordinator too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from pool.run_folder import files
from pool.run_folder.access import make_folder
from pool.run_folder.lines import LineFile

NETS = "nets"
RECORD = "record.jsonl"
_LONGEST = 1 << 26  # bytes


class Net(Enum):
    """The state of one step's nets. What the record does not have has still to be exported."""

    WRITTEN = "written"  # the command has still to be run, if there is one
    NOT_WRITTEN = "not written"  # the export failed, and is not tried again
    DONE = "done"  # the command has been run, and what it gave is in the metrics


def net_name(step: int, suffix: str, member: int | None = None) -> str:
    """Returns the name of the file; `member`: of an ensemble."""
    return f"step-{step:09d}{'' if member is None else f'.member-{member}'}{suffix}"


def read_record(run: Path) -> dict[int, Net]:
    """Returns the states by step; empty if there is none. What is no line of a record is passed over. Raises
    OSError."""
    states: dict[int, Net] = {}
    try:
        text = files.read_all(run / NETS / RECORD, _LONGEST)
    except (FileNotFoundError, NotADirectoryError):
        return states
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):  # the last one, of a supervisor that was killed
            entry = json.loads(line)
            states[int(entry["step"])] = Net(entry["is"])
    return states


def still_to_export(run: Path, every: int) -> Callable[[int], bool]:
    """Returns a function that says whether the nets of a step, one for each `every` steps (0: none), are not on record
    yet. It raises OSError."""
    return lambda step: every > 0 and step > 0 and step % every == 0 and step not in read_record(run)


def write_record(run: Path, states: Mapping[int, Net]) -> None:
    """All of it anew. Raises OSError."""
    make_folder(run / NETS)
    files.replace_file(
        run / NETS / RECORD, "".join(f"{_line(step, net)}\n" for step, net in sorted(states.items())).encode()
    )


def add_to_record(run: Path, step: int, net: Net) -> None:
    """On the disk when this returns. Raises OSError."""
    make_folder(run / NETS)
    file = LineFile(run / NETS / RECORD)
    file.add(_line(step, net))
    file.close()
    if file.error is not None:
        raise file.error
    files.sync_file(run / NETS / RECORD)


def _line(step: int, net: Net) -> str:
    return json.dumps({"step": step, "is": net.value})
