"""Notes of what was seen of sharing a device's memory between processes: `make gpu-check` tries it on a machine's cards
and writes it down in the user's cache folder. The planner reads it, so that `pool.exchange = auto` takes a device that
is known to work.

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
NEEDED = (OPENED, WRITTEN, TRAINED)  # by an exchange on a device; what is not listed it does without
NEEDED_BY_SEVERAL = (*NEEDED, COPIED)  # by one on several devices

_FILE = "shared-memory.json"


@dataclass(frozen=True)
class Setup:
    card: str  # its model
    driver: str  # empty: not known, so nothing is noted
    mps: bool

    def __str__(self) -> str:
        return f"{self.card}, driver {self.driver or 'not known'}{' with MPS' if self.mps else ''}"


@dataclass(frozen=True)
class Record:
    """`problems`: by probe what has gone wrong, empty if it has passed."""

    setup: Setup
    day: str  # 2026-11-23
    problems: Mapping[str, str]

    def passed(self, probe: str) -> bool:
        return self.problems.get(probe) == ""


@dataclass(frozen=True)
class Verdict:
    proven: bool
    why: str  # for people


def judged(setup: Setup, records: Sequence[Record], needed: Sequence[str] = NEEDED) -> Verdict:
    """Judges whether an exchange on a device, which needs these probes to have passed, is known to work."""
    here = next((record for record in records if record.setup == setup), None)
    if here is not None:
        return _judged(here, needed)
    why = f"nobody has seen processes share memory of {setup}: make gpu-check tries it"
    proofs = [record for record in records if record.setup.card == setup.card and _judged(record, needed).proven]
    return Verdict(proven=False, why=why + "".join(f"; it worked with {record.setup}" for record in proofs[:1]))


def _judged(record: Record, needed: Sequence[str]) -> Verdict:
    tried = f"make gpu-check on {record.day}, {record.setup}"
    for probe in needed:
        if not record.passed(probe):
            return Verdict(
                proven=False, why=f"{tried}: not seen that {probe}: {record.problems.get(probe, 'not tried')}"
            )
    return Verdict(proven=True, why=f"{tried}: {'; '.join(probe for probe in PROBES if record.passed(probe))}")


def records() -> tuple[Record, ...]:
    """Returns the notes; a damaged file has none."""
    try:
        file = _file()
        return () if file is None else tuple(map(_record, json.loads(file.read_bytes())))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ()


def note(record: Record) -> Path | None:
    """In place of what is noted for the same setup. Where; None if there is no folder, or the driver is not known.
    Raises OSError."""
    file = _file()
    if file is None or not record.setup.driver:
        return None
    others = [each for each in records() if each.setup != record.setup]
    write_cached(file, json.dumps([asdict(each) for each in (record, *others)], indent=1).encode())
    return file


def _file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / _FILE


def _record(noted: Any) -> Record:
    """Raises ValueError and whatever else a damaged one does."""
    setup, problems = Setup(**noted["setup"]), dict(noted["problems"])
    words = (setup.card, setup.driver, noted["day"], *problems, *problems.values())
    if not isinstance(setup.mps, bool) or not all(isinstance(word, str) for word in words):
        raise ValueError(noted)
    return Record(setup, noted["day"], problems)
