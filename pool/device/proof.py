"""Notes of what was seen of sharing a device's memory between processes, in the user's cache folder: the planner writes
down what it has tried, and `make gpu-check`, which tries more. What is noted is not tried again.

What was seen holds for one kind of card, one driver, with MPS or without. Free of torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pool.kernels.cuda.user_cache import cache_folder, write_cached

OPENED = "another process reads it"
WRITTEN = "its maker reads what another process has written"
TRAINED = "a run that uses it has the bits of one that does not"
COPIED = "what lies in it arrives on every other card"
OUTLIVES = "it outlives its maker"
STOPPED = "kernels of a killed process have stopped when it is dead"
PROBES = (OPENED, WRITTEN, TRAINED, COPIED, OUTLIVES, STOPPED)
NEEDED = (OPENED, WRITTEN)  # by an exchange on a device; what is not listed it does without
NEEDED_BY_SEVERAL = (*NEEDED, COPIED)  # by one on several devices

_FILE = "shared-memory.json"


@dataclass(frozen=True)
class Setup:
    card: str  # its model
    driver: str  # its version
    mps: bool

    def __str__(self) -> str:
        return f"{self.card}, driver {self.driver}{' with MPS' if self.mps else ''}"


@dataclass(frozen=True)
class Record:
    """`problems`: by probe what has gone wrong, empty if it has passed. What is not in it was not tried."""

    setup: Setup
    day: str  # of the last probe, 2026-11-23
    problems: Mapping[str, str]

    @classmethod
    def noted(cls, setup: Setup) -> Record:
        """Returns what is noted of it; of one that is new to this machine, nothing."""
        return next((record for record in records() if record.setup == setup), cls(setup, "", {}))

    def lacks(self, needed: Sequence[str]) -> bool:
        """Tells whether something has to be tried before the record can say whether memory can be shared."""
        return not self.failed(needed) and any(probe not in self.problems for probe in needed)

    def failed(self, needed: Sequence[str]) -> str:
        """Returns the first thing that has gone wrong; empty if nothing has. Other bits are seen by `make gpu-check`
        alone, and nobody wants them."""
        failures = (probe for probe in (*needed, TRAINED) if self.problems.get(probe))
        return next((f"not seen that {probe}: {self.problems[probe]}" for probe in failures), "")

    def passed(self) -> str:
        """Returns what has been seen to work."""
        return "; ".join(probe for probe in PROBES if self.problems.get(probe) == "")


def records() -> tuple[Record, ...]:
    """Returns the notes; a damaged file has none."""
    try:
        file = notes_file()
        return () if file is None else tuple(map(_record, json.loads(file.read_bytes())))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()


def note(record: Record) -> None:
    """Puts it in place of what is noted for the same setup; it is lost if there is no folder. Raises OSError."""
    if (file := notes_file()) is not None:
        others = [each for each in records() if each.setup != record.setup]
        write_cached(file, json.dumps([asdict(each) for each in (record, *others)], indent=1).encode())


def notes_file() -> Path | None:
    """Returns where the notes are; None if the user has no home."""
    folder = cache_folder()
    return None if folder is None else folder / _FILE


def _record(noted: Any) -> Record:
    """Raises ValueError and whatever else a damaged one does."""
    setup, problems = Setup(**noted["setup"]), dict(noted["problems"])
    words = (setup.card, setup.driver, noted["day"], *problems, *problems.values())
    if not isinstance(setup.mps, bool) or not all(isinstance(word, str) for word in words):
        raise ValueError(noted)
    return Record(setup, noted["day"], problems)
