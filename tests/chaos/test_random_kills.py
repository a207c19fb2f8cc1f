"""A few random kills in every run of the tests; `make chaos KILLS=1000` does many."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos import machine_kills
from tests.chaos.kills import kill_randomly

pytestmark = pytest.mark.chaos
KILLS = 30


@pytest.mark.timeout(500)
def test_random_kills_of_every_role_change_nothing_and_leave_nothing(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    killer = kill_randomly(tmp_path, KILLS, seed)
    assert killer.done.total() == KILLS


@pytest.mark.timeout(900)
def test_random_kills_on_several_machines_change_nothing(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    killer = machine_kills.Killer(tmp_path, KILLS, seed)
    killer.run()
    assert killer.done.total() == KILLS
