"""Remembers, in the user's cache folder, which ways of sharing a device's memory between processes were seen to work.

The planner notes what it has tried, and so does `make gpu-check`, which tries more. What is noted is not tried again. A
note holds for one kind of card, one driver, with MPS (NVIDIA's Multi-Process Service) or without. Free of torch.
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
NEEDED = (OPENED, WRITTEN)  # tests that must pass for an exchange on a device, which needs none of the others
NEEDED_BY_SEVERAL = (*NEEDED, COPIED)  # tests that must pass for an exchange on several devices

_FILE = "shared-memory.json"


@dataclass(frozen=True)
class Setup:
    """The hardware and software that a note holds for."""

    card: str  # the card's model
    driver: str  # the version of NVIDIA's driver
    mps: bool

    def __str__(self) -> str:
        return f"{self.card}, driver {self.driver}{' with MPS' if self.mps else ''}"


@dataclass(frozen=True)
class Record:
    """The notes for one setup: for each test what went wrong, empty if it has passed. A test that is not in it was not
    tried."""

    setup: Setup
    day: str  # of the last test, such as 2026-11-23
    problems: Mapping[str, str]

    @classmethod
    def noted(cls, setup: Setup) -> Record:
        """Returns the record that is noted for a setup, or an empty record if there is none."""
        return next((record for record in records() if record.setup == setup), cls(setup, "", {}))

    def lacks(self, needed: Sequence[str]) -> bool:
        """Returns whether a needed test has to be tried before the record can tell if memory can be shared."""
        return not self.failed(needed) and any(probe not in self.problems for probe in needed)

    def failed(self, needed: Sequence[str]) -> str:
        """Returns a line about the first needed test that has failed, empty if none has.

        A run with other bits (`TRAINED`), which only `make gpu-check` can see, counts as a failure, too, since nobody
        wants it.
        """
        failures = (probe for probe in (*needed, TRAINED) if self.problems.get(probe))
        return next((f"not seen that {probe}: {self.problems[probe]}" for probe in failures), "")

    def passed(self) -> str:
        """Returns a line that lists the tests that have passed."""
        return "; ".join(probe for probe in PROBES if self.problems.get(probe) == "")


def records() -> tuple[Record, ...]:
    """Returns all notes, or none if the file is damaged or can't be read."""
    try:
        file = notes_file()
        return () if file is None else tuple(map(_record, json.loads(file.read_bytes())))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()


def note(record: Record) -> None:
    """Writes a record in place of the one for the same setup. Without a cache folder it is lost. Raises OSError."""
    if (file := notes_file()) is not None:
        others = [each for each in records() if each.setup != record.setup]
        write_cached(file, json.dumps([asdict(each) for each in (record, *others)], indent=1).encode())


def notes_file() -> Path | None:
    """Returns the path of the notes, or None if the user has no home."""
    folder = cache_folder()
    return None if folder is None else folder / _FILE


def _record(noted: Any) -> Record:
    """Returns a record read from JSON. Raises ValueError, TypeError, KeyError or AttributeError for one that is
    damaged."""
    setup, problems = Setup(**noted["setup"]), dict(noted["problems"])
    words = (setup.card, setup.driver, noted["day"], *problems, *problems.values())
    if not isinstance(setup.mps, bool) or not all(isinstance(word, str) for word in words):
        raise ValueError(noted)
    return Record(setup, noted["day"], problems)
