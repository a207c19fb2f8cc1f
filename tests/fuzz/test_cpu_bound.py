"""The bound that `make fuzz` puts on each input counts CPU time: a busy machine makes no findings."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parent / "native"
ALLOWED_MS = 100
PROGRAM = f"""
#include <string>
#include "cpu_bound.h"
int main(int, char** arguments) {{
    const sparsepool::fuzz::CpuBound bound(std::chrono::milliseconds({ALLOWED_MS}));
    volatile bool computes = arguments[1] == std::string("computes");
    while (computes) {{}}
    ::usleep({5 * ALLOWED_MS} * 1000);  // as a process does that gets no processor
}}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bound")
    (folder / "main.cpp").write_text(PROGRAM)
    build = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", "main.cpp", "-o", "main"]
    subprocess.run(build, cwd=folder, check=True, timeout=60)
    return folder / "main"


def test_an_input_that_computes_too_long_is_a_finding(program: Path) -> None:
    done = subprocess.run(
        [program, "computes"], cwd=program.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGABRT, "which libFuzzer takes for a crash, and keeps the input"
    assert done.stderr == "one input took more CPU time than it may\n"


def test_an_input_that_only_had_to_wait_is_none(program: Path) -> None:
    done = subprocess.run([program, "waits"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_target_can_forget_the_bound() -> None:
    """entry.cpp sets it, and is the only file that libFuzzer calls."""
    called = [path.name for path in NATIVE.glob("*.cpp") if "LLVMFuzzerTestOneInput" in path.read_text()]
    assert called == ["entry.cpp"]
