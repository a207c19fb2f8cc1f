"""Runs on real CUDA devices: `make gpu-check`. Skipped where there is none.

One device may serve two workers, so a single card shows that the result does not depend on their number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.conftest import Gpus
from tests.support.runs import STOCKFISH, TOY, WholeRun, check, copied, run_well

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
EXCHANGES = pytest.mark.parametrize("exchange", ["host", "device"])  # of several workers, whatever `auto` takes
TASKS = pytest.mark.parametrize("settings", [TOY, STOCKFISH], ids=["toy", "stockfish"])


@EXCHANGES
@TASKS
def test_one_and_two_workers_on_a_gpu_end_with_the_same_bits(
    settings: dict[str, Any], exchange: str, gpus: Gpus, whole_run: WholeRun, tmp_path: Path
) -> None:
    """I2. The exchange changes no bits."""
    settings = {**settings, "optimizer.name": "pool.optim.Adam"}
    two = run_well(tmp_path / "two", {**settings, **gpus.on(0, 0), "pool.exchange": exchange})
    assert two.digest() == whole_run({**settings, **gpus.on(0), "pool.exchange": "host"}).digest()


@TASKS
def test_all_cards_end_with_the_bits_of_one(
    settings: dict[str, Any], several: Gpus, whole_run: WholeRun, tmp_path: Path
) -> None:
    """I2, if they are of one kind. A step has a batch for each."""
    grown = {**settings, "train.batches_per_step": several.count}
    every = run_well(tmp_path / "all", {**grown, **several.on(*range(several.count))})
    assert every.digest() == whole_run({**grown, **several.on(0)}).digest()


def test_another_card_gives_the_bits_of_the_first(several: Gpus, whole_run: WholeRun, tmp_path: Path) -> None:
    """What a worker draws and launches is its own card's, which it sees alone."""
    last = run_well(tmp_path / "last", {**TOY, **several.on(several.count - 1)})
    assert last.digest() == whole_run({**TOY, **several.on(0)}).digest()


@TASKS
def test_a_gpu_learns_what_a_cpu_learns(settings: dict[str, Any], gpus: Gpus, tmp_path: Path) -> None:
    """To float rounding: with plain SGD, which does not blow differences up."""
    sgd = {**settings, "optimizer.name": "torch.optim.SGD"}
    gpu = run_well(tmp_path / "gpu", {**sgd, **gpus.on(0)}).weights()
    cpu = run_well(tmp_path / "cpu", {**sgd, "pool.devices": ["fake:0"]}).weights()
    assert gpu.keys() == cpu.keys()
    for name, array in cpu.items():
        np.testing.assert_allclose(gpu[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("exchange", "workers"), [("host", 2), ("device", 2), ("local", 1)])
def test_a_worker_that_is_killed_changes_no_bits(
    exchange: str, workers: int, gpus: Gpus, whole_run: WholeRun, tmp_path: Path
) -> None:
    points = ["worker.batch_computed@3=kill", "coordinator.after_publish@4=kill"]
    settings = {**TOY, "pool.exchange": exchange}
    killed = run_well(tmp_path / "run", {**settings, **gpus.on(*[0] * workers), "testing.crash_points": points})
    assert killed.out.count("restarted") >= workers, "with local both die of the first"
    assert killed.digest() == whole_run({**settings, **gpus.on(0)}).digest()


@pytest.mark.parametrize("exchange", ["host", "device", "local"])
def test_resume_on_a_gpu_equals_an_uninterrupted_run(
    exchange: str, gpus: Gpus, whole_run: WholeRun, tmp_path: Path
) -> None:
    """I9."""
    settings = {**TOY, **gpus.on(0), "pool.exchange": exchange}
    cut = copied(whole_run({**settings, "train.steps": 5}), tmp_path / "cut")
    assert run_well(cut, settings, "--resume").digest() == whole_run(settings).digest()


def test_the_page_of_a_run_knows_the_card_and_the_ring_is_page_locked(
    gpus: Gpus, whole_run: WholeRun, tmp_path: Path
) -> None:
    settings = {**TOY, **gpus.on(0)}
    page = check(tmp_path / "page", settings)
    assert page.code == 0, page.err
    assert re.search(rf"^{gpus.kind}:0 .* GiB, .* free", page.out, re.MULTILINE)
    assert "memory can't be page-locked" not in page.out
    logs = (whole_run(settings).dir / "logs").glob("*.log")
    assert "not page-locked" not in "".join(path.read_text() for path in logs)
