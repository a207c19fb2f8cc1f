"""What a run keeps in memory besides its segments."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.processes import memory_of, role_pid
from tests.support.runs import TOY, command, steps_done
from tests.support.wait import wait_for

NUMBERS = 24_000_000
PARAMETER = 4 * NUMBERS  # bytes


def test_beyond_segments_and_optimizer_state_no_copy_of_the_weights_stays(tmp_path: Path) -> None:
    settings = {
        **TOY,
        "task": "benchmarks.empty_task",
        "model.numbers": NUMBERS,
        "optimizer.name": "pool.optim.Adam",
        "train.steps": 1_000_000,
        "train.batches_per_step": 1,
        "train.checkpoint_every": 0,
        "pool.devices": ["fake:0"],
        "pool.snapshot_steps": 2,
    }
    supervisor = subprocess.Popen(command(tmp_path / "run", settings), cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: steps_done(tmp_path / "run") >= 6, "six steps")
        usage = memory_of(role_pid("coordinator", supervisor.pid))
    finally:
        supervisor.terminate()
        supervisor.wait(60)
    assert 2 * PARAMETER <= usage.own < 3 * PARAMETER  # Adam's moments, and less than one more
    assert usage.segments["weights"] >= 2 * PARAMETER
