"""The tables of seeded races fit the code; the whole runs of tests/gpu/fake show that each race is found."""

from __future__ import annotations

import pytest

from tests.gpu.fake.device_races import DEVICE_RACES
from tests.gpu.fake.races import RACES, Race, text_of_module


@pytest.mark.parametrize("race", [*RACES, *DEVICE_RACES], ids=lambda race: race.name)
def test_the_old_text_occurs_exactly_once(race: Race) -> None:
    assert text_of_module(race.module).count(race.old) == 1
    assert race.old != race.new
