"""The kernels as C++ under AddressSanitizer and UndefinedBehaviorSanitizer: in a process of their own, whose memory is
the sanitizer's, torch's included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOLDER = Path(__file__).parent / "alone"


@pytest.mark.sanitizers
@pytest.mark.timeout(600)
def test_kernels_under_sanitizers() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    libraries = [
        subprocess.check_output(["g++", f"-print-file-name=lib{n}.so"], text=True).strip() for n in ("asan", "ubsan")
    ]
    files = [str(path) for path in sorted(FOLDER.glob("*.py")) if path.name != "__init__.py"]
    environment = os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # of Python there are many
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "CUDA_KERNELS_SANITIZED": "1",
    }
    options = ["-q", "-p", "no:cacheprovider", "--timeout=500", "--numprocesses=2"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
