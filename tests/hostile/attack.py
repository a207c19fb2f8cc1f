"""What an attack is: one hostile use of the program, drawn at random from a seed, with an oracle that fails on harm.

An attack prepares files and settings in an empty folder, runs the program as its user would, and raises AssertionError
if the result is neither what an undisturbed run gives nor one clear line with a documented exit code. `ATTACKS` of each
module `tests/hostile/*.py` are found by `find`, so that a new one needs no list.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import tests.hostile
from tests.support.runs import Ended, pids_of
from tests.support.wait import wait_for

Attack = Callable[[random.Random, Path], None]

EXIT_CODES = frozenset({0, 1, 2, 65, 69, 71, 75})  # without those of a signal
WORDS_OF_A_BUG = ("Traceback (most recent call last)", "AssertionError")


def find() -> Mapping[str, Attack]:
    """All attacks by name, `module.function`."""
    found: dict[str, Attack] = {}
    for module in pkgutil.iter_modules(tests.hostile.__path__):
        if module.name.startswith(("test_", "__")) or module.name == "attack":
            continue
        attacks: tuple[Attack, ...] = getattr(importlib.import_module(f"tests.hostile.{module.name}"), "ATTACKS", ())
        found |= {f"{module.name}.{attack.__name__}": attack for attack in attacks}
    return found


def assert_said_well(ended: Ended, *, lines: int = 1, codes: frozenset[int] = EXIT_CODES) -> None:
    """Success with an empty stderr, or at most `lines` lines there and a documented exit code; nothing left running."""
    told = f"exit code {ended.code}\n--- stdout\n{ended.out}\n--- stderr\n{ended.err}"
    assert ended.code in codes, told
    assert not any(word in ended.out + ended.err for word in WORDS_OF_A_BUG), told
    if ended.code == 0:
        assert not ended.err, told
    else:
        assert 1 <= len(ended.err.splitlines()) <= lines, told
    wait_for(lambda: not pids_of(ended.dir), "processes gone", 10)
