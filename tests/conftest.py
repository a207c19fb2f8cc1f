"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool import _native

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Results of other programs to compare with, not part of the project; tests skip without them, except in CI."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        message = f"no {folder}: results of other programs to compare with, which are not part of the project"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(params=_native.simd_levels())
def simd_level(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs with the pool's kernels at every level that this CPU has."""
    before = _native.simd_level()
    _native.set_simd_level(request.param)
    yield request.param
    _native.set_simd_level(before)


@pytest.fixture
def best_level() -> Iterator[None]:
    """Puts the level back that was in force before the test."""
    before = _native.simd_level()
    yield
    _native.set_simd_level(before)
