"""Reads and writes nets/record.jsonl, the record of exported nets, and decides which nets to export next."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pool.checkpoint.schedule import is_net_step
from pool.run_folder import files
from pool.run_folder.access import make_folder

NETS = "nets"
RECORD = "record.jsonl"
_MAX_NBYTES = 1 << 26  # bytes


class NetState(Enum):
    """The state of the nets of one step. A step that is not on record is still to be exported."""

    WRITTEN = "written"  # the command has still to be run, if there is one
    NOT_WRITTEN = "not written"  # the export failed, and is not tried again
    DONE = "done"  # the command has been run, and its numbers are in the metrics


def net_file_name(step: int, suffix: str, member: int | None = None) -> str:
    """Returns the file name of a net. `member`: its number in an ensemble."""
    of_member = "" if member is None else f".member-{member}"
    return f"step-{step:09d}{of_member}{suffix}"


def read_record(run: Path) -> dict[int, NetState]:
    """Returns the recorded states by step; empty if there is no record.

    Lines that are not valid are ignored. Raises OSError.
    """
    states: dict[int, NetState] = {}
    try:
        text = files.read_all(run / NETS / RECORD, _MAX_NBYTES)
    except (FileNotFoundError, NotADirectoryError):
        return states
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(line)
            states[int(entry["step"])] = NetState(entry["is"])
    return states


def write_record(run: Path, states: Mapping[int, NetState]) -> None:
    """Replaces the record, and syncs it to the disk. Raises OSError."""
    make_folder(run / NETS)
    entries = [{"step": step, "is": state.value} for step, state in sorted(states.items())]
    lines = [json.dumps(entry) + "\n" for entry in entries]
    files.replace_file(run / NETS / RECORD, "".join(lines).encode())


def create_export_check(run: Path, every: int) -> Callable[[int], bool]:
    """Returns a function that tells whether the nets of a step still have to be exported. The function raises OSError.

    Nets are exported every `every` steps (0: none).
    """
    return lambda step: is_net_step(step, every) and step not in read_record(run)


@dataclass
class NetPlan:
    """Decides which nets to export next, and for which nets to run the command, both in the order of steps."""

    every: int  # steps between nets; 0: no nets
    has_command: bool  # `train.on_export` is set
    states: dict[int, NetState]
    checkpoints: Collection[int] = ()  # steps of the checkpoints on the disk
    postponed: set[int] = field(default_factory=set)  # steps whose nets a resumed run exports: the disk was full

    @property
    def steps_to_export(self) -> list[int]:
        """Returns the steps that have a checkpoint and no nets yet, ascending."""
        due = {step for step in self.checkpoints if is_net_step(step, self.every)}
        return sorted(due - self.states.keys() - self.postponed)

    @property
    def steps_to_try(self) -> list[int]:
        """Returns the steps for whose nets the command has still to be run, ascending, up to a postponed step.

        The metrics record the command's numbers in the order of steps.
        """
        if not self.has_command:
            return []
        written = [step for step, state in sorted(self.states.items()) if state is NetState.WRITTEN]
        return [step for step in written if not self.postponed or step < min(self.postponed)]

    @property
    def unfinished_steps(self) -> list[int]:
        """Returns the steps whose nets have still to be exported or tried, ascending."""
        return sorted([*self.steps_to_export, *self.steps_to_try])

    @property
    def next_step_to_try(self) -> int | None:
        """Returns the step for whose nets the command is run next.

        Returns None if there is none, or if an earlier step is to be exported first.
        """
        to_try, to_export = self.steps_to_try, self.steps_to_export
        if not to_try or (to_export and to_export[0] < to_try[0]):
            return None
        return to_try[0]
