"""Programs that some tests need and not every machine has."""

from __future__ import annotations

import os
import shutil

import pytest


def need_program(name: str, package: str) -> str:
    """Returns a program's path. Without it the test skips, or fails in CI, where .ci/run installs its `package`."""
    if (path := shutil.which(name)) is not None:
        return path
    message = f"no program {name} (apt-get install {package})"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
