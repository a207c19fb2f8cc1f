"""Tests that use the fake GPU themselves, each file in a process of its own: it would become the accelerator of all
other tests, and torch starts a device's thread of autograd only if it knows the device at the first backward."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOLDER = Path(__file__).parent / "alone"
FILES = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("fakegpu_is_built")
def test_in_a_process_of_its_own(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
