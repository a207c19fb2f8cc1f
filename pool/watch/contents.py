"""Collects the contents of the page from the folders of runs, as plain data that JSON can hold."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pool.analysis.records import RECENT, Run, find_run_folders, read_run
from pool.analysis.table import find_incomparable, format_settings, summarize_run, summarize_status
from pool.checkpoint.folder import linked_step, list_checkpoints
from pool.checkpoint.state import BEST, FOLDER, LAST
from pool.config.member_settings import find_differing_keys
from pool.errors import ConfigError
from pool.metrics.layout import NET
from pool.metrics.medians import MEMBERS, name_member_values
from pool.run_folder.records import RecordFile
from pool.stages.end import find_network, is_tested
from pool.watch.curves import Curves
from pool.watch.lives import find_deaths, group_by_process, read_changes

_RATE = "samples_per_second"


class Watch:
    """Reads the runs in some folders again and again. Of a file that grows, only the new part is read."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._histories: dict[Path, _History] = {}

    def look(self) -> dict[str, Any]:
        """Returns the page's present contents. Folders that are no run's are named in `notes`."""
        runs: list[tuple[Path, Run, _History]] = []
        notes: list[str] = []
        for folder in self._found(notes):
            history = self._histories.setdefault(folder, _History())
            try:
                runs.append((folder, read_run(folder, history.read), history))
            except (ConfigError, OSError) as error:
                notes.append(f"left out: {error}")
        return _page_contents(runs, notes)

    def check(self) -> None:
        """Checks that each folder is a run's or holds runs. Raises ConfigError."""
        for folder in find_run_folders(self._folders):
            if folder in self._folders:
                read_run(folder, lambda _: ())

    def _found(self, notes: list[str]) -> Iterator[Path]:
        """Yields the folders of runs, each once. Looks for new runs in folders that hold some. Errors are added to
        `notes`."""
        found: dict[Path, None] = {}
        for folder in self._folders:
            try:
                found |= dict.fromkeys(find_run_folders([folder]))
            except ConfigError as error:
                notes.append(f"left out: {error}")
        yield from found


class _History:
    """The metrics of one run so far: curves of few points, all validations, and the newest steps."""

    def __init__(self) -> None:
        self._file: RecordFile | None = None
        self._forget()

    def read(self, path: Path) -> list[Mapping[str, Any]]:
        """Reads the new records of metrics.jsonl, and returns the records of all validations and of the newest steps,
        in order of steps. Raises ConfigError."""
        if self._file is None:
            self._file = RecordFile(path)
        if not self._file.continues():
            self._forget()
        for record in self._file.read():
            if "loss" in record:
                self.steps.add(_invert_speed(_flatten_record(record)))
                self._newest.append(record)
            elif any(name.startswith(NET) for name in record):
                self.nets.add(_flatten_record(record))
            else:
                self.validations.add(_flatten_record(record))
                self._validated.append(record)
        return sorted([*self._validated, *self._newest], key=lambda record: record["step"])

    def _forget(self) -> None:
        self.steps, self.validations, self.nets = Curves(), Curves(), Curves()
        self._validated: list[Mapping[str, Any]] = []
        self._newest = deque[Mapping[str, Any]](maxlen=RECENT)


def _flatten_record(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a record by name. Those of members are called `member.M.NAME`."""
    numbers = {name: value for name, value in record.items() if name != MEMBERS}
    for name, values in record.get(MEMBERS, {}).items():
        numbers |= name_member_values(name, values)
    return numbers


def _invert_speed(numbers: dict[str, float]) -> dict[str, float]:
    """Replaces the speed by the seconds for a sample, as a mean over steps of seconds is meaningful and that of speeds
    is not. The value is NaN where the speed is not known, at the first step after a start."""
    rate = numbers.get(_RATE, 0.0)
    return {**numbers, _RATE: 1 / rate if rate > 0 else math.nan}


def _page_contents(runs: Sequence[tuple[Path, Run, _History]], notes: Sequence[str]) -> dict[str, Any]:
    """Returns the contents of the whole page."""
    keys = find_differing_keys([run.config for _, run, _ in runs])
    return {
        "notes": [*notes, *find_incomparable([run for _, run, _ in runs])],
        "keys": keys,
        "runs": [_describe_run(folder, run, history, keys) for folder, run, history in runs],
    }


def _describe_run(folder: Path, run: Run, history: _History, keys: Sequence[str]) -> dict[str, Any]:
    """Returns what the page shows of one run: status, curves, members, processes, checkpoints."""
    steps = history.steps.columns()
    steps[_RATE] = [1 / seconds if seconds else None for seconds in steps.get(_RATE, ())]
    changes = read_changes(folder, run.status.started if run.status else 0.0)
    members = find_differing_keys([member.config for member in run.members])
    return {
        **summarize_status(run),
        "started": run.status.started if run.status else None,
        "ended": run.status.ended if run.status else None,
        "settings": format_settings(run, keys),
        "curves": {
            "steps": steps,
            "validations": history.validations.columns(),
            "nets": history.nets.columns(),
        },
        "keys_of_members": members,
        "members": [_describe_member(member, members) for member in run.members],
        "lanes": [
            {"process": lane.process, "changes": [[each.time, each.stage.value, each.why] for each in lane.changes]}
            for lane in group_by_process(changes)
        ],
        "deaths": [asdict(death) for death in find_deaths(changes)],
        "checkpoints": _describe_checkpoints(folder),
        "network": _describe_network(folder),
    }


def _describe_member(member: Run, keys: Sequence[str]) -> dict[str, Any]:
    """Returns the numbers and settings of one member in which it differs from the others."""
    numbers = summarize_run(member, ())
    wanted = ("member", "best_validation_loss", "best_validation_step", "last_loss")
    return {**{name: numbers[name] for name in wanted}, "settings": format_settings(member, keys)}


def _describe_checkpoints(folder: Path) -> dict[str, Any]:
    """Returns the steps of a run's checkpoints, and those of the newest and the best one, or -1 if there is none."""
    place = folder / FOLDER
    with suppress(OSError):
        steps = [int(path.name.rpartition("-")[2]) for path in list_checkpoints(place)]
        return {"steps": steps, "newest": linked_step(place, LAST), "best": linked_step(place, BEST)}
    return {"steps": [], "newest": -1, "best": -1}


def _describe_network(folder: Path) -> dict[str, Any] | None:
    """Returns the network that a stage of a recipe ended with. Returns None if there is none, or the run is no
    stage."""
    network = find_network(folder)
    return None if network is None else {"name": network.name, "tested": is_tested(folder)}
