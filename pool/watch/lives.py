"""Reads the lives of a run's processes from the supervisor's log, which `pool.supervisor.process_table` writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from loader.files.regular import open_regular
from pool.run_folder.lines import read_lines_backwards
from pool.supervisor.process_state import Stage

LOG = Path("logs/supervisor-0.log")
_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) INFO "
    rf"(?P<process>coordinator|feeder|worker \d+) \(incarnation (?P<incarnation>\d+)\): "
    rf"(?P<stage>{'|'.join(stage.value for stage in Stage)}): (?P<why>.*)"
)
_MAX_LINES = 100_000  # number of newest lines of the log that are read
_NORMAL_END = "it exited with code 0"


@dataclass(frozen=True)
class Change:
    """A process entered a stage of its life. `incarnation` counts the starts of the same process."""

    time: float  # seconds since 1970
    process: str
    incarnation: int
    stage: Stage
    why: str


@dataclass(frozen=True)
class Death:
    """A process died unexpectedly."""

    time: float
    process: str
    incarnation: int
    why: str
    then: str = ""  # what the supervisor did next, such as a restart; empty if the log does not say


@dataclass
class Lane:
    """The stages of one process in order. Each lasts until the next begins."""

    process: str
    changes: list[Change] = field(default_factory=list)


def read_changes(run: Path, since: float = 0.0) -> list[Change]:
    """Returns the changes of stages since a time (seconds since 1970), in order. Returns none if the log can't be
    read."""
    try:
        fd = open_regular(run / LOG, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        return list(_read_newest(fd, since))[::-1]
    except OSError:
        return []
    finally:
        os.close(fd)


def group_by_process(changes: Sequence[Change]) -> list[Lane]:
    """Groups the changes by process: coordinator, feeder, workers."""
    by_process: dict[str, Lane] = {}
    for change in changes:
        by_process.setdefault(change.process, Lane(change.process)).changes.append(change)
    return [by_process[name] for name in sorted(by_process, key=lambda name: (name.split()[0], len(name), name))]


def find_deaths(changes: Sequence[Change]) -> list[Death]:
    """Returns the unexpected deaths, in order. If the supervisor killed the process, its reason comes first in
    `why`."""
    found: list[Death] = []
    newest: dict[str, Change] = {}  # newest change of each process
    dead: dict[str, int] = {}  # index in `found` of each process's newest death
    for change in changes:
        before = newest.get(change.process)
        newest[change.process] = change
        if change.stage is Stage.DEAD and change.why != _NORMAL_END:
            killed = f"{before.why}, " if before is not None and before.stage is Stage.KILLED else ""
            dead[change.process] = len(found)
            found.append(Death(change.time, change.process, change.incarnation, f"{killed}{change.why}"))
        elif change.stage is Stage.WAITING and change.process in dead:
            found[dead[change.process]] = replace(found[dead[change.process]], then=change.why)
    return found


def _read_newest(fd: int, since: float) -> Iterator[Change]:
    """Yields the changes since a time from the newest back, as far as a limit of lines."""
    for number, (_, line) in enumerate(read_lines_backwards(fd)):
        change = _parse_change(line.decode(errors="replace"))
        if change is not None:
            if change.time < since or number >= _MAX_LINES:
                return
            yield change


def _parse_change(line: str) -> Change | None:
    """Parses a line of the log. Returns None if it does not report a change of stage."""
    if (match := _LINE.match(line)) is None:
        return None
    try:
        time = datetime.fromisoformat(match["time"]).timestamp() + int(match["ms"]) / 1000
    except ValueError:
        return None
    return Change(time, match["process"], int(match["incarnation"]), Stage(match["stage"]), match["why"])
