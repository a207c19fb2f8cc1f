"""first-steps.json: a digest of a run's weights after its first steps, to compare builds.

Another build that repeats these steps and gets the same digest computes as the build did with which the run began.
"""

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
STEPS = 3  # enough for the optimizer's state to affect the weights
MOST_BYTES = 1 << 30  # of weights, which take a second; larger networks get no digest
_LONGEST = 1 << 24  # bytes of the file


@dataclass(frozen=True)
class FirstSteps:
    """The number of steps, the digest of the weights after them, and the run's config."""

    steps: int
    digest: str
    config: Mapping[str, Any]  # of the run when it began


_SCHEMA = TypeAdapter(FirstSteps)


def digest_of(weights: Mapping[str, memoryview]) -> str:
    """Returns a digest of tensors, by their names and bytes."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(weights):
        total.update(name.encode())
        total.update(weights[name])
    return total.hexdigest()


def write_first_steps(folder: Path, first_steps: FirstSteps) -> None:
    """Writes first-steps.json into a run's folder. Raises OSError."""
    files.replace_file(folder / FILE, json.dumps(asdict(first_steps), indent=1).encode())


def read_first_steps(folder: Path) -> FirstSteps | None:
    """Reads first-steps.json; None if it is missing or damaged."""
    try:
        return _SCHEMA.validate_json(files.read_all(folder / FILE, _LONGEST))
    except (OSError, ValueError):
        return None
