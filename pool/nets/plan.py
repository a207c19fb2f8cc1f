"""Decides what is to be done next with a run's numbered nets, and reads the numbers that a command says of them. Pure:
steps and outcomes in, steps out.

Each step's nets are exported, then the command is run with them: exports in order, commands in order, one of each at a
time. A step is settled when nothing of it is left to do. A command says its numbers in its last line, a JSON object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence

from pool.nets.record import Net
from pool.protocol.messages import MetricValue, NetNumbers

MOST = 64  # numbers of a command
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class NetPlan:
    def __init__(self, every: int, states: Mapping[int, Net], *, has_command: bool) -> None:
        """`states`: the record; `has_command`: there is `train.on_export`."""
        self._every = every
        self._has_command = has_command
        self._states = dict(states)
        self._to_export: set[int] = set()
        self._exporting: int | None = None
        self._running: int | None = None
        self._stopped = False

    def saved(self, steps: Collection[int]) -> None:
        """There are checkpoints of these steps."""
        due = {step for step in steps if self._every and step > 0 and step % self._every == 0}
        self._to_export = due - self._states.keys()

    def next_export(self) -> int | None:
        """The step whose nets are to be exported now; it begins. None if there is none, or one is being exported."""
        if self._stopped or self._exporting is not None or not self._to_export:
            return None
        self._exporting = min(self._to_export)
        return self._exporting

    def exported(self, outcome: Net) -> int:
        """The export has ended: its step."""
        assert self._exporting is not None
        assert outcome is not Net.DONE
        step, self._exporting = self._exporting, None
        self._to_export.discard(step)
        self._states[step] = outcome
        return step

    def postponed(self) -> int:
        """The export has ended, and is to be tried again: its step."""
        assert self._exporting is not None
        step, self._exporting = self._exporting, None
        return step

    def next_command(self) -> int | None:
        """The step with whose nets the command is to be run now; it begins. None if there is none, or it is run, or an
        earlier step is still to be exported."""
        first = min(self._to_run, default=None)
        if self._stopped or self._running is not None or first is None or min(self._to_export, default=first) < first:
            return None
        self._running = first
        return first

    def done(self) -> int:
        """The command has ended, and what it gave is in the metrics: its step."""
        assert self._running is not None
        step, self._running = self._running, None
        self._states[step] = Net.DONE
        return step

    def stop(self) -> None:
        """Stops: nothing more is begun; what is left is for a resumed run."""
        self._stopped = True

    @property
    def unsettled(self) -> list[int]:
        """Steps of which something is left to do, ascending."""
        return [] if self._stopped else sorted(self._to_export | self._to_run)

    @property
    def _to_run(self) -> set[int]:
        return {step for step, net in self._states.items() if net is Net.WRITTEN} if self._has_command else set()


def numbers_of(output: str) -> dict[str, float]:
    """Returns numbers by name; of the object's entries those that are finite numbers and have a name of letters,
    digits, `_.-`. Empty if the last line is no JSON object."""
    lines = output.splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    try:
        said = json.loads(last)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    known = ((name, _number(value)) for name, value in said.items() if _NAME.fullmatch(name))
    return dict([(name, value) for name, value in known if math.isfinite(value)][:MOST])


def joined(step: int, of_members: Sequence[Mapping[str, float]]) -> NetNumbers:
    """Joins the numbers of all members' nets of a step; NaN where one has no such number."""
    names = dict.fromkeys(name for numbers in of_members for name in numbers)
    values = (MetricValue(name, tuple(numbers.get(name, math.nan) for numbers in of_members)) for name in names)
    return NetNumbers(step, tuple(values))


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
