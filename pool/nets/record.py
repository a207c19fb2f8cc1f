"""Reads and writes nets/record.jsonl, the supervisor's record of exported nets, and determines what is left to do."""

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
_LONGEST = 1 << 26  # bytes


class Net(Enum):
    """The state of the nets of one step. A step that is not on record is still to be exported."""

    WRITTEN = "written"  # the command has still to be run, if there is one
    NOT_WRITTEN = "not written"  # the export failed, and is not tried again
    DONE = "done"  # the command has been run, and its numbers are in the metrics


def net_name(step: int, suffix: str, member: int | None = None) -> str:
    """Returns the file name of a net. `member`: its number in an ensemble."""
    return f"step-{step:09d}{'' if member is None else f'.member-{member}'}{suffix}"


def read_record(run: Path) -> dict[int, Net]:
    """Returns the recorded states by step; empty if there is no record.

    Lines that are not valid are ignored. Raises OSError.
    """
    states: dict[int, Net] = {}
    try:
        text = files.read_all(run / NETS / RECORD, _LONGEST)
    except (FileNotFoundError, NotADirectoryError):
        return states
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            entry = json.loads(line)
            states[int(entry["step"])] = Net(entry["is"])
    return states


def write_record(run: Path, states: Mapping[int, Net]) -> None:
    """Replaces the record, and syncs it to the disk. Raises OSError."""
    make_folder(run / NETS)
    lines = (f"{json.dumps({'step': step, 'is': net.value})}\n" for step, net in sorted(states.items()))
    files.replace_file(run / NETS / RECORD, "".join(lines).encode())


def still_to_export(run: Path, every: int) -> Callable[[int], bool]:
    """Returns a function that tells whether the nets of a step still have to be exported. The function raises OSError.

    Nets are exported every `every` steps (0: none).
    """
    return lambda step: is_net_step(step, every) and step not in read_record(run)


@dataclass
class NetPlan:
    """Decides which nets to export next, and for which nets to run the command, both in the order of steps."""

    every: int  # steps between nets; 0: no nets
    has_command: bool  # `train.on_export` is set
    states: dict[int, Net]
    checkpoints: Collection[int] = ()  # steps of the checkpoints on the disk
    postponed: set[int] = field(default_factory=set)  # steps whose nets a resumed run exports: the disk was full

    @property
    def to_export(self) -> list[int]:
        """Steps that have a checkpoint and no nets yet, ascending."""
        due = (step for step in self.checkpoints if is_net_step(step, self.every))
        return sorted(step for step in due if step not in self.states and step not in self.postponed)

    @property
    def to_try(self) -> list[int]:
        """Steps for whose nets the command has still to be run, ascending, without those after a postponed step.

        The metrics record the command's numbers in the order of steps.
        """
        written = sorted(step for step, net in self.states.items() if self.has_command and net is Net.WRITTEN)
        return [step for step in written if step < min(self.postponed, default=step + 1)]

    @property
    def unsettled(self) -> list[int]:
        """Steps whose nets have still to be exported or tried, ascending."""
        return sorted([*self.to_export, *self.to_try])

    @property
    def next_trial(self) -> int | None:
        """The step for whose nets the command is run next; None if there is none, or if an earlier step is to be
        exported first."""
        step = min(self.to_try, default=None)
        return None if step is None or min(self.to_export, default=step) < step else step
