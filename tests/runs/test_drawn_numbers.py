"""Whatever a task draws, and wherever it keeps tensors: any number of workers and any deaths give the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sparsepool
from tests.support.ensembles import digest, ensemble
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, command, pids_of, run, run_well, steps_done
from tests.support.tasks import drawing_task
from tests.support.wait import wait_for

MODULE = "tests.support.tasks.drawing_task"
DRAWING = {
    **{key: value for key, value in TOY.items() if key != "task"},
    "task": f"{MODULE}:Everywhere",
    "train.steps": 12,
    "train.validate_every": 3,
    "train.validation_batches": 2,
    "train.checkpoint_every": 6,
}


def losses(ended: Ended) -> list[float]:
    return [line["validation_loss"] for line in ended.metrics() if "validation_loss" in line]


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return run_well(tmp_path_factory.mktemp("one") / "run", {**DRAWING, "pool.devices": ["fake:0"]})


def test_what_is_drawn_does_not_depend_on_workers_deaths_and_resumes(one_worker: Ended, tmp_path: Path) -> None:
    points = ["coordinator.before_commit@8=kill", "worker.after_finish@5=kill", "forkserver.before_answer=kill"]
    settings = {**DRAWING, "testing.crash_points": points, "train.steps": 6}
    run_well(tmp_path / "run", settings)
    resumed = run_well(tmp_path / "run", DRAWING, "--resume")
    assert resumed.digest() == one_worker.digest()
    assert losses(resumed) == losses(one_worker)


def test_a_successor_of_the_fork_server_builds_the_same_model(one_worker: Ended, tmp_path: Path) -> None:
    """Its hash seed, and what it draws at import, are those of the first."""
    settings = {**DRAWING, "pool.devices": ["fake:0?compute_ms=20", "fake:1?compute_ms=20"]}
    process = subprocess.Popen(command(tmp_path / "run", settings), cwd=ROOT, stdout=subprocess.DEVNULL)
    for steps, victims in ((2, ("forkserver",)), (3, ("worker", "coordinator"))):
        wait_for(lambda steps=steps: steps_done(tmp_path / "run") >= steps, "steps", 120)  # type: ignore[misc]
        for pid in pids_of(tmp_path / "run"):
            if Path(f"/proc/{pid}/comm").read_text(encoding="ascii").startswith(victims):
                os.kill(pid, signal.SIGKILL)
    assert process.wait(240) == 0
    assert Ended(tmp_path / "run", 0, "", "").digest() == one_worker.digest()


def test_a_member_draws_what_it_would_draw_alone(one_worker: Ended, tmp_path: Path) -> None:
    seeds = [{"run.model_seed": seed} for seed in (7, 42)]
    together = run_well(tmp_path / "run", ensemble(DRAWING, seeds))
    last = "checkpoints/last"
    assert digest(together.dir / last, 1) == digest(one_worker.dir / last)


@pytest.mark.parametrize("name", drawing_task.CONSTANTS)
def test_tensors_that_are_no_weights_are_as_in_a_plain_loop(name: str, tmp_path: Path) -> None:
    """The first step of plain SGD, by hand."""
    settings: dict[str, Any] = {
        **DRAWING,
        "task": f"{MODULE}:{name}",
        "train.steps": 1,
        "train.batches_per_step": 1,
        "train.validate_every": 0,
        "optimizer.name": "torch.optim.SGD",
        "testing.history": False,
    }
    ended = run_well(tmp_path / "run", settings)
    task = getattr(drawing_task, name)()
    torch.manual_seed(42)
    model = task.build_model()
    with sparsepool.batches(source="synthetic", batch_size=64, seed=42) as batches:
        loss = task.loss(model, next(iter(batches)), None)
    loss.backward()
    assert ended.metrics()[0]["loss"] == pytest.approx(loss.item(), rel=1e-5)
    weights = ended.weights()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            expected = (parameter - 0.01 * parameter.grad).detach().numpy()
            np.testing.assert_allclose(weights[key], expected, rtol=1e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize(
    ("name", "code", "complaint"),
    [
        ("OtherShapes", 2, "does not give the same model in each process: odd.weight, float32 1 x "),
        ("OtherNames", 2, "does not give the same model in each process: layer"),
        ("OtherNumbers", 1, "would compute other bits than the run: tensors besides the weights: model.middle.noise "),
    ],
)
def test_a_model_that_differs_from_process_to_process_is_refused_by_name(
    name: str, code: int, complaint: str, tmp_path: Path
) -> None:
    ended = run(tmp_path / "run", {**DRAWING, "task": f"{MODULE}:{name}"})
    assert ended.code == code
    assert complaint in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_table_that_a_task_indexes_gets_the_same_gradient_on_two_threads_each_time(tmp_path: Path) -> None:
    settings = {
        **TOY,
        "task": "tests.support.tasks.indexing_task:Indexing",
        "train.steps": 4,
        "pool.threads": 2,
        "pool.devices": ["cpu"],
    }
    one, other = (run_well(tmp_path / name, settings) for name in ("one", "other"))
    assert one.digest() == other.digest()
