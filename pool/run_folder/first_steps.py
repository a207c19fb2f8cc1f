"""first-steps.json: a digest of a run's weights after its first steps. Another build that does these steps again, and
gets the same bits, computes as the build did that the run was begun with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from pool.run_folder import files

FILE = "first-steps.json"
STEPS = 3  # so many that the optimizer's state has changed weights
MOST_BYTES = 1 << 30  # of weights: a second for their digest; of larger networks it is not known
_LONGEST = 1 << 24  # bytes of the file


@dataclass(frozen=True)
class FirstSteps:
    """A run's record of its first steps."""

    steps: int
    digest: str
    config: Mapping[str, Any]  # that it was begun with


_SCHEMA = TypeAdapter(FirstSteps)


def digest_of(weights: Mapping[str, memoryview]) -> str:
    """Returns a digest of names and bytes."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name])
    return total.hexdigest()


def write_first_steps(folder: Path, first_steps: FirstSteps) -> None:
    """Raises OSError."""
    files.replace_file(folder / FILE, json.dumps(asdict(first_steps), indent=1).encode())


def read_first_steps(folder: Path) -> FirstSteps | None:
    """Returns None if no run has written it, or it is damaged."""
    try:
        return _SCHEMA.validate_json(files.read_all(folder / FILE, _LONGEST))
    except (OSError, ValueError):
        return None
