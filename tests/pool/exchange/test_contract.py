"""The exchange of a worker on a CPU, in host memory, does what every exchange does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pool.exchange.contract import BEHAVIOURS, Ends


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_it(behaviour: Any) -> None:
    behaviour(Ends)
