"""What the pool asks of NVIDIA's driver is asked of a stub of it, by the real cuda-bindings. Each file has a process of
its own: the package loads `libcuda.so.1` once, and torch has its CUDA replaced there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pool.kernels.cuda import toolkit
from tests.support.paths import ROOT

FOLDER = Path(__file__).parent
FILES = sorted(path.name for path in (FOLDER / "alone").glob("*.py") if path.stem not in {"__init__", "conftest"})
OPTIONS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden")


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stub."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("stub")
    subprocess.run(["g++", *OPTIONS, "-o", folder / "libcuda.so.1", FOLDER / "libcuda.cpp"], check=True)
    return folder


@pytest.mark.parametrize("file", FILES)
def test_in_a_process_of_its_own(file: str, stub: Path) -> None:
    toolkit.require()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stub), "XDG_CACHE_HOME": str(stub)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / "alone" / file)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
