"""Seeds the global random generators that a task's code may draw from: torch's, Python's and numpy's.

The numbers drawn are a function of the run's own seeds and of the batch or other purpose, never of the process that
draws (I2).
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Seeds torch's CPU generator, Python's and numpy's, as a script would at its top. Called before a task and its
    model are made."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.default_generator.manual_seed(seed)  # torch.manual_seed keeps each call where a backend is not there


def seed_for_purpose(seed: int, purpose: int | str, device: torch.device) -> None:
    """Seeds all global generators, and the device's, for one purpose. `purpose`: the number of a batch, or a name
    for anything else."""
    derived = _derive_seed(seed, purpose)
    seed_generators(derived)
    if device.type != "cpu":
        with torch.accelerator.device_index(device.index):  # else the current device would be seeded
            torch.get_device_module(device).manual_seed(derived)


def create_generator(seed: int, purpose: str) -> torch.Generator:
    """Returns a new torch generator on the CPU, seeded for a purpose by its name."""
    return torch.Generator().manual_seed(_derive_seed(seed, purpose))


def _derive_seed(seed: int, purpose: int | str) -> int:
    digest = hashlib.blake2b(f"{seed} {purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class GeneratorStates:
    """Holds the states of this process's global random generators at one moment."""

    python: Any
    numpy: Any
    torch: torch.Tensor

    @classmethod
    def capture(cls) -> GeneratorStates:
        """Returns the current states."""
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state())

    def restore(self) -> None:
        """Sets the generators to these states."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)


def python_and_numpy_state() -> tuple[object, ...]:
    """Returns a value that changes with each number that is drawn from Python's or numpy's global generator."""
    _, keys, position, *normal = np.random.get_state(legacy=True)
    return random.getstate(), np.asarray(keys).tobytes(), position, *normal
