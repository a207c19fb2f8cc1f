"""Whole runs with real processes on fake GPUs: the same weights, bit for bit, whatever happens (I1 to I5)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from pool.nn.batch import TensorBatch
from pool.task.task import Progress
from tests.support.paths import ROOT
from tests.support.runs import TOY, Ended, WholeRun, run, run_well
from tests.support.toy import LossConfig, ModelConfig
from tests.support.toy_model import ToyTask


@pytest.fixture(scope="module")
def two_workers(whole_run: WholeRun) -> Ended:
    """The run that others are compared with."""
    return whole_run(TOY)


@pytest.mark.parametrize("devices", [["fake:0"], ["fake:0", "fake:1", "fake:2", "fake:3"]])
def test_one_and_four_workers_end_with_the_bits_of_two(devices: list[str], two_workers: Ended, tmp_path: Path) -> None:
    """I2: the result depends on batches_per_step, not on who computes."""
    ended = run_well(tmp_path / "run", {**TOY, "pool.devices": devices})
    assert ended.digest() == two_workers.digest()


def test_a_table_that_travels_in_parts_changes_nothing(two_workers: Ended, tmp_path: Path) -> None:
    settings = {**TOY, "pool.bucket_mb": 0.01, "testing.history": True}
    ended = run_well(tmp_path / "run", settings)
    assert '"bucket": 3' in (ended.dir / "history.jsonl").read_text(encoding="utf-8")
    assert ended.digest() == two_workers.digest()


@pytest.mark.parametrize("name", ["pool.optim.Adam", "pool.optim.SparseAdam", "pool.optim.RowwiseAdagrad"])
def test_our_optimizers_give_the_same_bits_in_one_pass_and_in_parts(name: str, tmp_path: Path) -> None:
    """With one gradient slot and one worker a step's sum is made in parts; with the others in one pass."""
    settings = {**TOY, "optimizer.name": name, "train.batches_per_step": 4}
    ended = [
        run_well(tmp_path / "one", {**settings, "pool.devices": ["fake:0"], "pool.gradient_slots": 1}),
        run_well(tmp_path / "two", {**settings, "pool.bucket_mb": 0.01}),
    ]
    assert len({each.digest() for each in ended}) == 1
    clipped = {**settings, "train.clip_norm": 1e9, "train.clip_value": 1e9}  # sums are made, and changed by nothing
    assert run_well(tmp_path / "clipped", clipped).digest() == ended[0].digest()


def test_a_slow_worker_changes_nothing(two_workers: Ended, tmp_path: Path) -> None:
    ended = run_well(tmp_path / "run", {**TOY, "pool.devices": ["fake:0?compute_ms=30", "fake:1"]})
    assert ended.digest() == two_workers.digest()


@pytest.mark.parametrize("phase", ["forward", "backward", "bucket"])
def test_a_worker_that_dies_is_replaced_and_changes_nothing(phase: str, two_workers: Ended, tmp_path: Path) -> None:
    """I3, I4: its batch is computed again, by another or by its next life."""
    devices = [f"fake:0?crash=3:{phase}", f"fake:1?crash=7:{phase}"]  # whichever is up first, one of them dies
    ended = run_well(tmp_path / "run", {**TOY, "pool.devices": devices, "pool.first_bucket_mb": 1e-6})
    assert re.search(r"\(incarnation 1\) was killed by SIGKILL, it was computing batch \d+; restarted", ended.out)
    assert ended.digest() == two_workers.digest()


@pytest.mark.parametrize("how", ["stop", "exit"])
def test_one_that_does_not_get_ready_is_replaced_and_changes_nothing(
    how: str, two_workers: Ended, tmp_path: Path
) -> None:
    patience = 10 if how == "stop" else 100
    settings = {**TOY, "testing.crash_points": [f"coordinator.before_hello@1={how}"], "pool.start_timeout": patience}
    ended = run_well(tmp_path / "run", settings)
    assert "coordinator (incarnation 1) " in ended.out
    assert ("did not get ready within 10 s (pool.start_timeout); killing it" in ended.out) == (how == "stop")
    assert ended.digest() == two_workers.digest()


def test_a_worker_that_hangs_is_killed_and_replaced_and_changes_nothing(two_workers: Ended, tmp_path: Path) -> None:
    """Its thread for messages lives on; what counts is that its loop does not move."""
    settings = {**TOY, "pool.devices": ["fake:0?hang=4:backward"], "pool.hang_timeout": 1.5}
    ended = run_well(tmp_path / "run", settings)
    assert "worker 0 has not moved for" in ended.out
    assert re.search(r"was killed by SIGKILL, since it has not moved for .*, it was computing batch", ended.out)
    assert ended.digest() == two_workers.digest()


def test_gradient_buckets_change_nothing_that_is_computed(two_workers: Ended, tmp_path: Path) -> None:
    """Adam is elementwise, so one bucket per parameter gives the bits of one bucket for all."""
    ended = run_well(tmp_path / "run", {**TOY, "pool.first_bucket_mb": 1e-6, "pool.bucket_mb": 1e-6})
    assert ended.digest() == two_workers.digest()


def test_resume_from_the_middle_equals_an_uninterrupted_run(two_workers: Ended, tmp_path: Path) -> None:
    """I9; with a schedule, so that its state is carried over too."""
    schedule = {**TOY, "schedule.name": "torch.optim.lr_scheduler.ExponentialLR", "schedule.args.gamma": 0.9}
    whole = run_well(tmp_path / "whole", schedule)
    first = run_well(tmp_path / "cut", {**schedule, "train.steps": 5})
    assert first.digest() != whole.digest()
    resumed = run_well(tmp_path / "cut", schedule, "--resume")
    assert "resuming" in resumed.out
    assert resumed.digest() == whole.digest() != two_workers.digest()
    assert [record["step"] for record in resumed.metrics()] == list(range(1, 13))
    assert [r["loss"] for r in resumed.metrics()] == [r["loss"] for r in whole.metrics()]


def plain_loop(
    settings: ModelConfig, steps: int, optimizer_class: str, lr: float, *, values: bool = False
) -> dict[str, np.ndarray]:
    """The same training without a pool: one process, one batch a step, torch alone."""
    torch.manual_seed(42)
    task = ToyTask(settings, LossConfig())
    model = task.build_model()
    optimizer = getattr(torch.optim, optimizer_class)(model.parameters(), lr=lr)
    config = data_config(source="synthetic", batch_size=64, synthetic={"values": values})
    stream = open_stream(config, [], 42)
    for step, batch in enumerate(read_batches(stream, steps)):
        optimizer.zero_grad()
        task.loss(model, TensorBatch.from_numpy(batch), Progress(step, steps)).backward()
        optimizer.step()
    stream.close()
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def assert_close(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(actual[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


# Adam would blow up the rounding of a bias in front of a batch norm, whose gradient is zero but for that.
@pytest.mark.parametrize(
    ("model", "optimizer"),
    [({}, "Adam"), ({"batch_norm": True}, "SGD"), ({"unused_every": 3}, "Adam")],
    ids=["plain", "batch norm", "unused parameters"],
)
def test_one_batch_a_step_equals_a_plain_torch_loop(model: dict[str, int], optimizer: str, tmp_path: Path) -> None:
    """Also with buffers, and with parameters that get no gradient in most batches (Adam then leaves them alone)."""
    settings = {
        **TOY,
        "train.batches_per_step": 1,
        "optimizer.name": f"torch.optim.{optimizer}",
        **{f"model.{key}": value for key, value in model.items()},
    }
    ended = run_well(tmp_path / "run", settings)
    assert_close(ended.weights(), plain_loop(ModelConfig.model_validate(model), 12, optimizer, 0.01))


def test_values_count_in_any_worker_as_in_a_plain_torch_loop(two_workers: Ended, tmp_path: Path) -> None:
    settings = {**TOY, "train.batches_per_step": 1, "data.synthetic.values": True}
    one = run_well(tmp_path / "one", {**settings, "pool.devices": ["fake:0"]})
    two = run_well(tmp_path / "two", settings)
    assert one.digest() == two.digest() != two_workers.digest()
    assert_close(one.weights(), plain_loop(ModelConfig(), 12, "Adam", 0.01, values=True))


def test_batch_norm_statistics_follow_the_first_batch_of_each_step(tmp_path: Path) -> None:
    settings = {**TOY, "model.batch_norm": True, "train.steps": 4}
    one = run_well(tmp_path / "one", {**settings, "pool.devices": ["fake:0"]})
    two = run_well(tmp_path / "two", settings)
    assert one.digest() == two.digest()
    assert int(one.weights()["norm.num_batches_tracked"]) == 4


def test_a_worker_out_of_memory_ends_the_run_with_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**TOY, "pool.devices": ["fake:0?oom=3"]})
    assert ended.code == 71
    assert len(ended.err.splitlines()) == 1
    assert "worker 0 (fake:0?oom=3) ran out of memory in batch" in ended.err
    assert "data.batch_size" in ended.err


def test_two_batches_a_step_equal_distributed_data_parallel(tmp_path: Path) -> None:
    """Torch's own, with gloo and two processes, on the same batches."""
    steps = 20
    arguments = [str(steps), str(tmp_path / "ddp.safetensors"), str(tmp_path / "rendezvous")]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.ddp_rank", str(rank), "2", *arguments], cwd=ROOT
        )
        for rank in range(2)
    ]
    assert [rank.wait(280) for rank in ranks] == [0, 0]
    ended = run_well(tmp_path / "run", {**TOY, "train.steps": steps})
    expected = load_file(tmp_path / "ddp.safetensors")
    assert_close(ended.weights(), expected)
