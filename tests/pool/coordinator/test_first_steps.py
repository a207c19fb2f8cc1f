"""The record of a run's first steps, whose writer may be killed at any moment."""

from __future__ import annotations

from pathlib import Path

import torch

from loader.files.whole_file import temporary_path
from pool.coordinator.first_steps import FirstStepsRecord
from pool.run_folder.first_steps import FILE, STEPS, read_first_steps


def test_what_a_killed_coordinator_left_is_removed_and_written_anew(tmp_path: Path) -> None:
    left, others = temporary_path(tmp_path / FILE), temporary_path(tmp_path / "status.json")
    for path in (left, others):
        path.write_text("half of it")
    record = FirstStepsRecord(tmp_path, {"run": 1}, lambda: {"weight": torch.arange(4.0)})
    assert not left.exists()
    assert others.exists()  # the supervisor may be writing it
    record.on_commit(STEPS - 1)
    assert read_first_steps(tmp_path) is None
    record.on_commit(STEPS)
    written = read_first_steps(tmp_path)
    assert written is not None
    assert (written.steps, dict(written.config)) == (STEPS, {"run": 1})
