"""Stores, in the user's cache folder, which ways of sharing a device's memory between processes were seen to work.

The planner records the tests that it has run, and so does `make gpu-check`, which runs more. A test that is recorded is
not run again. A record holds for one kind of card, one driver, with MPS (NVIDIA's Multi-Process Service) or without.
Free of torch.
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
    """The hardware and software that a record holds for."""

    card: str  # the card's model
    driver: str  # the version of NVIDIA's driver
    mps: bool

    def __str__(self) -> str:
        return f"{self.card}, driver {self.driver}{' with MPS' if self.mps else ''}"


@dataclass(frozen=True)
class Record:
    """The problem that each test found on one setup, empty if the test has passed. A test that is not in it was not
    tried."""

    setup: Setup
    day: str  # of the last test, such as 2026-11-23
    problems: Mapping[str, str]

    @classmethod
    def find(cls, setup: Setup) -> Record:
        """Returns the record that is stored for a setup, or an empty record if there is none."""
        return next((record for record in read_records() if record.setup == setup), cls(setup, "", {}))

    def needs_tests(self, needed: Sequence[str]) -> bool:
        """Returns whether a needed test has to be tried before the record tells if memory can be shared."""
        return not self.failure_line(needed) and any(probe not in self.problems for probe in needed)

    def failure_line(self, needed: Sequence[str]) -> str:
        """Returns a line about the first needed test that has failed, empty if none has.

        A run with other bits (`TRAINED`), which only `make gpu-check` can see, counts as a failure, too, since nobody
        wants it.
        """
        failures = (probe for probe in (*needed, TRAINED) if self.problems.get(probe))
        return next((f"not seen that {probe}: {self.problems[probe]}" for probe in failures), "")

    def passed_line(self) -> str:
        """Returns a line that lists the tests that have passed."""
        return "; ".join(probe for probe in PROBES if self.problems.get(probe) == "")


def read_records() -> tuple[Record, ...]:
    """Returns all records, or none if the file is damaged or can't be read."""
    try:
        file = records_path()
        return () if file is None else tuple(map(_parse_record, json.loads(file.read_bytes())))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()


def write_record(record: Record) -> None:
    """Writes a record in place of the one for the same setup. Without a cache folder it is lost. Raises OSError."""
    file = records_path()
    if file is None:
        return
    others = [other for other in read_records() if other.setup != record.setup]
    write_cached(file, json.dumps([asdict(each) for each in (record, *others)], indent=1).encode())


def records_path() -> Path | None:
    """Returns the path of the records, or None if the user has no home."""
    folder = cache_folder()
    return None if folder is None else folder / _FILE


def _parse_record(data: Any) -> Record:
    """Returns a record read from JSON. Raises ValueError, TypeError, KeyError or AttributeError for one that is
    damaged."""
    setup, problems = Setup(**data["setup"]), dict(data["problems"])
    texts = (setup.card, setup.driver, data["day"], *problems, *problems.values())
    if not isinstance(setup.mps, bool) or not all(isinstance(text, str) for text in texts):
        raise ValueError(data)
    return Record(setup, data["day"], problems)
