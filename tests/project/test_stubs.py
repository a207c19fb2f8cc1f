"""The types that Python's tools see of the native modules are those that they have."""

from __future__ import annotations

import pytest

from tests.stubs import MODULES, generated, path_of


@pytest.mark.parametrize("module", MODULES)
def test_the_stub_is_what_the_generator_makes_of_the_module(module: str) -> None:
    pytest.importorskip("nanobind.stubgen", reason="needs nanobind: pip install '.[dev]'")
    assert path_of(module).read_text(encoding="utf-8") == generated(module), "python -m tests.stubs"
