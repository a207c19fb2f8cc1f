"""What opens a card in its own process comes behind all runs: a card in exclusive mode would refuse these, and a
context beside them takes memory and time. Whether a card is otherwise left alone only hardware can show."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.gpu import pool_runs
from benchmarks.gpu.__main__ import sections
from benchmarks.gpu.machine import DRY, Machine
from tests.support.paths import ROOT

MACHINE = Machine("cuda", 2, DRY)


def test_gpu_check_has_its_kernels_behind_all_runs() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "gpu",
        "tests/gpu",
        "--ignore=tests/gpu/fake",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=200)
    files = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    in_order = [f"tests/gpu/test_gpu_{what}.py" for what in ("runs", "sharing", "kernels", "waits")]
    assert list(dict.fromkeys(files)) == in_order, done.stdout + done.stderr


def test_gpu_bench_measures_in_its_own_process_behind_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def run(_: Machine, devices: range, exchange: str, where: str = "") -> float:
        done.append(f"{len(devices)} on {exchange} {where}")
        return 1.0

    def loop(_: Machine) -> float:
        done.append("loop")
        return 1.0

    monkeypatch.setattr(pool_runs, "positions_per_second", run)
    monkeypatch.setattr(pool_runs, "loop_positions_per_second", loop)
    names = [section.name for section in sections(MACHINE)]
    assert names[-3:] == ["sparse layer", "host's time in backward", "chain model"]
    for section in sections(MACHINE)[1:-3]:
        list(section.run())
    assert done.index("loop") == len(done) - 1
