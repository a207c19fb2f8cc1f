"""The short form of `make hostile`: each attack once, with a seed of its own that does not change."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from tests.hostile.attack import Attack, find

ATTACKS = find()


@pytest.mark.hostile
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_does_no_harm(attack: Attack, tmp_path: Path) -> None:
    attack(random.Random(zlib.crc32(attack.__name__.encode())), tmp_path)
