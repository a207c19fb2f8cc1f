"""Runs on real CUDA devices: `make gpu-check`. Skipped where there is none.

One device may serve two workers, so a single card shows that the result does not depend on their number.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.stockfish.test_stockfish_training import SMALL
from tests.support.runs import TOY, run_well

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize("settings", [TOY, SMALL], ids=["toy", "stockfish"])
def test_one_and_two_workers_on_a_gpu_end_with_the_same_bits(settings: dict[str, object], tmp_path: Path) -> None:
    """I2."""
    one = run_well(tmp_path / "one", {**settings, "pool.devices": ["cuda:0"]})
    two = run_well(tmp_path / "two", {**settings, "pool.devices": ["cuda:0", "cuda:0"]})
    assert one.digest() == two.digest()


@pytest.mark.parametrize("settings", [TOY, SMALL], ids=["toy", "stockfish"])
def test_a_gpu_learns_what_a_cpu_learns(settings: dict[str, object], tmp_path: Path) -> None:
    """To float rounding: with plain SGD, which does not blow differences up."""
    sgd = {**settings, "optimizer.name": "torch.optim.SGD"}
    gpu = run_well(tmp_path / "gpu", {**sgd, "pool.devices": ["cuda:0"]}).weights()
    cpu = run_well(tmp_path / "cpu", {**sgd, "pool.devices": ["fake:0"]}).weights()
    assert gpu.keys() == cpu.keys()
    for name, array in cpu.items():
        np.testing.assert_allclose(gpu[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_resume_on_a_gpu_equals_an_uninterrupted_run(tmp_path: Path) -> None:
    """I9."""
    settings = {**TOY, "pool.devices": ["cuda:0"]}
    whole = run_well(tmp_path / "whole", settings)
    run_well(tmp_path / "cut", {**settings, "train.steps": 5})
    assert run_well(tmp_path / "cut", settings, "--resume").digest() == whole.digest()


def test_the_ring_is_page_locked(tmp_path: Path) -> None:
    ended = run_well(tmp_path / "run", {**TOY, "pool.devices": ["cuda:0"]})
    assert "not page-locked" not in (ended.dir / "logs/worker-0.log").read_text()
