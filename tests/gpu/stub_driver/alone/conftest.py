from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpu.stub_driver.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Two cards of 64 MiB that can't use one another's memory."""
    made = Machine(devices=2, room=64 << 20)
    with made.in_place_of_torchs():
        yield made
