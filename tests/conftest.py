"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of data that is not part of the project; tests that need it skip without it, except in CI."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        message = f"{folder} is not there"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
