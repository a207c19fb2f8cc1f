"""Fixtures that choose the kernels' SIMD level."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pool import _native


@pytest.fixture(params=_native.simd_levels())
def simd_level(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs at every level that this CPU has."""
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
