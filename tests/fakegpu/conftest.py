"""The fake GPU is built by `make`; without it these tests skip, in CI they fail."""

from __future__ import annotations

import os

import pytest

from tests.support.runs import ROOT

LIBRARY = ROOT / "build/fakegpu/libfakegpu.so"


@pytest.fixture(scope="session")
def fakegpu_is_built() -> None:
    if LIBRARY.exists():
        return
    message = f"no {LIBRARY.relative_to(ROOT)}: make build/fakegpu/libfakegpu.so"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
