"""Whole runs on fake GPUs, with the project's own kernels: the same bits for any number of them, whatever happens; a
CPU's numbers to rounding. With an exchange in host memory the CPU adds up and steps, so equal bits are also a CPU's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pool.device.proof import COPIED, OPENED, WRITTEN
from tests.runs.test_clicks_runs import CLICKS
from tests.runs.test_drawn_numbers import DRAWING
from tests.support.runs import STOCKFISH, TOY, Ended, WholeRun, check, copied, run, run_well
from tests.support.tasks import hostile_task

pytestmark = pytest.mark.usefixtures("fakegpu_is_built", "cache_of_tests")
GPU = {"testing.device_module": "tests.gpu.fake.with_kernels.fakegpu", "pool.devices": ["fakegpu:0"]}
ONE: dict[str, Any] = {
    **TOY,
    **GPU,
    "model.batch_norm": True,
    "model.dropout": 0.2,
    "pool.bucket_mb": 0.02,
    "train.steps": 6,
    "train.batches_per_step": 5,
    "optimizer.name": "pool.optim.Adam",
}
THREE = ["fakegpu:0", "fakegpu:1", "fakegpu:2"]
TWO: dict[str, Any] = {"pool.devices": ["fakegpu:0", "fakegpu:1"]}
SPARSE: dict[str, Any] = {
    **ONE,
    "optimizer.name": "pool.optim.SparseAdam",
    "ensemble.members": 2,
    "train.average.kind": "ema",
    "train.average.every": 2,
    "train.validate_every": 2,
}


DEATHS = ["coordinator.after_publish@4=kill", "worker.after_bucket@9=kill"]
SEVERAL: dict[str, dict[str, Any]] = {
    "two, host": {**TWO, "pool.exchange": "host", "train.batches_per_group": 2, "testing.crash_points": DEATHS},
    "two, the first device": {
        **TWO,
        "pool.exchange": "device",
        "pool.coordinator_device": "fakegpu:0",
        "testing.crash_points": DEATHS,
    },
    "two, device": {**TWO, "pool.exchange": "device", "testing.crash_points": DEATHS},
    "one, local": {"pool.exchange": "local", "testing.crash_points": DEATHS[:1]},
    "four, shared out": {
        "train.batches_per_group": 4,
        "pool.devices": ["fakegpu:0", "fakegpu:1?crash=1:bucket", "fakegpu:2?crash=2:backward", "fakegpu:3"],
        "pool.coordinator_device": "all",
        "testing.crash_points": DEATHS[:1],
    },
    "eight, shared out": {
        "train.batches_per_step": 8,
        # two workers die: a batch that three hold while they die is bad
        "pool.devices": [
            "fakegpu:0",
            "fakegpu:1?crash=1:bucket",
            "fakegpu:2?crash=2:backward",
            *(f"fakegpu:{index}" for index in range(3, 8)),
        ],
        "testing.crash_points": DEATHS[:1],
    },
}
GROUPING = ("train.batches_per_step", "train.batches_per_group")


@pytest.mark.parametrize("settings", SEVERAL.values(), ids=SEVERAL)
def test_gpus_whose_processes_die_and_that_are_late_give_the_bits_of_one(
    settings: dict[str, Any], whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2, with each exchange. With one gradient slot each, parts of a step are added up early."""
    group = {key: value for key, value in settings.items() if key in GROUPING}
    one = whole_run({**ONE, **group, "pool.exchange": "host"})
    monkeypatch.setenv("FAKEGPU", "delay_us=500,seed=5,devices=8")
    ended = run_well(tmp_path / "run", {**ONE, "pool.gradient_slots": 1, "pool.snapshot_steps": 2, **settings})
    assert ended.digest() == one.digest()
    assert "coordinator (incarnation 1) was killed by SIGKILL" in ended.out
    assert "not page-locked" not in "".join(path.read_text() for path in (ended.dir / "logs").glob("*.log"))
    shared = "since it shared a device's memory with the coordinator" in ended.out
    assert shared == (settings.get("pool.exchange") not in ("host", "local"))


LEFT_OUT = {**ONE, "train.on_bad_batch": "skip", "pool.snapshot_steps": 2}
LOCAL: dict[str, dict[str, Any]] = {
    "stockfish": {**STOCKFISH, **GPU, "optimizer.name": "pool.optim.Adam", "train.validate_every": 2},
    "stockfish, its recipe": {
        **STOCKFISH,
        **GPU,
        "optimizer.name": "pool.optim.RangerLite",
        "optimizer.args.weight_decay": 1e-9,
        "model.fake_quantization": ["rows", "dense", "activations"],
        "train.steps": 10,
        "train.validate_every": 5,
        "train.checkpoint_every": 5,
        "loss.lambda_start": 0.7,
        "loss.lambda_end": 0.8,
        "loss.lambda_jitter": {"step": 0.01, "step_keep": 0.9, "sample": 0.01},
        "testing.crash_points": DEATHS[:1],
    },
    "clicks, with values": {
        **CLICKS,
        **GPU,
        "optimizer.name": "pool.optim.SparseAdam",
        "testing.crash_points": DEATHS[:1],
    },
    "members, rows": {**SPARSE, "testing.crash_points": DEATHS[1:]},
    "members, rows, groups": {**SPARSE, "train.batches_per_group": 4, "testing.crash_points": DEATHS[:1]},
    "torch's": {**ONE, "optimizer.name": "torch.optim.Adam", "pool.devices": ["fakegpu:0?crash=3:backward"]},
    "drawn numbers": {**DRAWING, **GPU, "optimizer.name": "pool.optim.Adam", "testing.crash_points": DEATHS[:1]},
    "a number that is none": {**LEFT_OUT, "pool.devices": ["fakegpu:0?nan=3"]},
    "a gradient that is none, in a group": {
        **LEFT_OUT,
        "loss.infinite_gradient_of_batch": 12,
        "train.batches_per_group": 4,
    },
    "a batch to die of": {**LEFT_OUT, "model.deadly_batch": 12},
}


@pytest.mark.parametrize("settings", LOCAL.values(), ids=LOCAL)
def test_one_process_that_adds_up_and_computes_gives_the_bits_of_the_host(
    settings: dict[str, Any], whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2, I9. What `auto` takes for one card; nothing has to be shared for that."""
    points = "testing.crash_points"
    host = whole_run({**{key: value for key, value in settings.items() if key != points}, "pool.exchange": "host"})
    monkeypatch.setenv("FAKEGPU", "delay_us=300,seed=5,unshared=1")
    ended = run_well(tmp_path / "run", {"pool.exchange": "auto", **settings})
    assert "gradients are added up on fakegpu:0 in the worker's own process" in ended.out
    assert "worker 0 (incarnation 1" not in ended.out
    assert ended.digest() == host.digest()
    left_out = [
        [line.partition("; it is kept")[0] for line in each.out.splitlines() if "left out" in line]
        for each in (host, ended)
    ]
    assert left_out[0] == left_out[1]
    assert len(left_out[0]) == ("train.on_bad_batch" in settings)


def test_a_gradient_that_is_none_ends_one_process_as_it_ends_two(tmp_path: Path) -> None:
    settings = {**ONE, "loss.infinite_gradient_of_batch": 12}
    said = {}
    for exchange in ("host", "local"):
        ended = run(tmp_path / exchange, {**settings, "pool.exchange": exchange})
        assert ended.code == 1
        said[exchange] = ended.err.replace(exchange, "...")
    assert said["local"] == said["host"]
    assert "batch 12 of step 2" in said["local"]


def test_a_loss_that_raises_where_the_coordinator_is_is_blamed_on_the_batch(tmp_path: Path) -> None:
    """Though neither role outlives the other: the supervisor tells the next coordinator what it can't have seen."""
    settings = {**ONE, **hostile_task.write(tmp_path, 'raise ValueError("bad value")', at=12)}
    ended = run(tmp_path / "run", settings, cwd=tmp_path)
    assert ended.code == 1
    lines = [line for line in ended.out.splitlines() if " raised " in line]
    assert [line.partition(" raised ValueError: bad value (")[0] for line in lines] == [
        f"worker 0 (incarnation {life}, fakegpu:0)" for life in (1, 2)
    ]
    assert ended.err.startswith(
        "pool: batch 12 of step 2: it failed 2 times, in different processes: ValueError: bad value ("
    )
    assert f"traceback in {tmp_path}/run/logs/coordinator-0.log; it is kept in " in ended.err


def test_a_kernel_that_ends_both_roles_changes_no_bits(
    whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is of the context that both have, and sticks: either may be the first to raise it."""
    whole = whole_run({**ONE, "pool.exchange": "host"})
    monkeypatch.setenv("FAKEGPU", "fail_kernel=900,delay_us=100,seed=1")
    ended = run_well(tmp_path / "run", {**ONE, "pool.snapshot_steps": 1})
    assert "raised RuntimeError: FAKEGPU error: an illegal memory access was encountered (" in ended.out
    assert ended.digest() == whole.digest()


def test_a_worker_that_hangs_in_the_coordinators_process_ends_with_it(whole_run: WholeRun, tmp_path: Path) -> None:
    hanging = {"pool.devices": ["fakegpu:0?hang=3:backward"], "pool.hang_timeout": 2}
    ended = run_well(tmp_path / "run", {**ONE, **hanging})
    assert re.search(r"worker 0 has not moved for \d\.\d s \(pool.hang_timeout\); killing it", ended.out)
    assert "coordinator (incarnation 1) was killed by SIGKILL, since it has not moved" in ended.out
    assert ended.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


@pytest.fixture
def new_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns where a new user's notes of shared memory will be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/sparsepool/shared-memory.json"


def test_auto_takes_a_device_when_it_has_found_out_that_its_memory_can_be_shared(
    new_cache: Path, whole_run: WholeRun, tmp_path: Path
) -> None:
    """I2, and once: the next run reads what is noted. Several devices need more than one."""
    first = run_well(tmp_path / "first", {**ONE, **TWO, "pool.coordinator_device": "fakegpu:0"})
    tried = r"; gradients are added up on fakegpu:0: shared memory was tried now, in \d+\.\d s, fake GPU, driver 1: "
    assert re.search(f"{tried}{OPENED}; {WRITTEN}; data.threads", first.out)
    second = check(tmp_path / "second", {**ONE, **TWO})
    assert second.code == 0, second.err
    assert "rows; shared memory was tried now, in " in " ".join(second.out.split())
    (record,) = json.loads(new_cache.read_text())
    assert record["problems"] == {OPENED: "", WRITTEN: "", COPIED: ""}
    third = run_well(tmp_path / "third", {**ONE, **TWO})
    assert "; gradients are added up on fakegpu:0, fakegpu:1: shared memory was tried on " in third.out
    assert f"shared memory was tried on {record['day']}, fake GPU, driver 1: {OPENED}; {WRITTEN}" in third.out
    assert first.digest() == third.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


def test_auto_takes_the_host_when_a_driver_refuses_to_share_memory(
    new_cache: Path, whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2, and it is not tried again."""
    monkeypatch.setenv("FAKEGPU", "unshared=1")
    why = f"not seen that {OPENED}: RuntimeError: FAKEGPU error: not supported (export); to try it again, remove "
    ended = run_well(tmp_path / "run", {**ONE, **TWO})
    assert "; gradients are added up on the host: shared memory was tried now, in " in ended.out
    page = check(tmp_path / "page", {**ONE, **TWO})
    for out in (ended.out, page.out):
        assert f'{why}{new_cache} (pool.exchange = "device" takes it all the same)' in " ".join(out.split())
    assert "exchange host: shared memory was tried on " in " ".join(page.out.split())
    monkeypatch.delenv("FAKEGPU")
    assert ended.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("fail_context=1", "FAKEGPU error: out of memory"),
        ("lost_devices=1", "busy or unavailable; in exclusive mode it takes one process: nvidia-smi -c DEFAULT"),
    ],
)
def test_a_gpu_that_is_full_or_taken_now_is_tried_again(
    state: str, why: str, new_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", state)
    page = check(tmp_path / "run", {**ONE, **TWO})
    assert page.code == 0, page.err
    said = " ".join(page.out.split())
    assert "host: it can't be tried now whether processes can share memory of fake GPU, driver 1: " in said
    assert why in said
    assert not new_cache.exists()


def test_rounded_gradients_have_the_same_bits_with_either_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members in groups, with running statistics; the coordinator dies."""
    settings = {**SPARSE, "train.batches_per_group": 2, "train.gradient_dtype": "bfloat16"}
    one = run_well(tmp_path / "one", {**settings, "pool.exchange": "host"})
    monkeypatch.setenv("FAKEGPU", "delay_us=500,seed=5,devices=4")
    two = run_well(tmp_path / "two", {**settings, **TWO, "pool.exchange": "device", "testing.crash_points": DEATHS[:1]})
    assert one.digest() == two.digest()


CLIPPED: dict[str, dict[str, Any]] = {
    "norm": {**ONE, "train.clip_norm": 0.02},
    "norm, rows": {**SPARSE, "train.clip_norm": 0.05},
    "value, rows": {**SPARSE, "train.clip_value": 1e-3, "train.batches_per_group": 2},
    "torch's": {**ONE, "train.clip_norm": 0.02, "optimizer.name": "torch.optim.Adam"},
    "RangerLite": {
        **ONE,
        "train.clip_norm": 0.02,
        "train.steps": 10,
        "train.checkpoint_every": 5,
        "train.validate_every": 0,
        "optimizer.name": "pool.optim.RangerLite",
        "optimizer.args.weight_decay": 1e-7,
    },
}


@pytest.mark.parametrize("settings", CLIPPED.values(), ids=CLIPPED)
def test_a_clipped_gradient_has_the_bits_of_the_hosts(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2, and the coordinator dies. (Torch's operations on a fake GPU are the CPU's, so its optimizers' bits are.)"""
    whole = {key: value for key, value in settings.items() if not key.startswith("train.clip")}
    one = run_well(tmp_path / "one", {**settings, "pool.exchange": "host"})
    assert one.digest() != run_well(tmp_path / "whole", {**whole, "pool.exchange": "host"}).digest()
    monkeypatch.setenv("FAKEGPU", "delay_us=500,seed=5,devices=4")
    for name, home in (("first", "fakegpu:0"), ("shared", "")):
        there = {**TWO, "pool.exchange": "device", "pool.coordinator_device": home, "pool.gradient_slots": 1}
        ended = run_well(tmp_path / name, {**settings, **there, "testing.crash_points": DEATHS[:1]})
        assert ended.digest() == one.digest()


def test_another_device_is_other_numerics_for_an_optimizer_of_torch(tmp_path: Path) -> None:
    settings = {**ONE, "optimizer.name": "torch.optim.RAdam", "pool.exchange": "device", "train.steps": 2}
    begun = run_well(tmp_path / "run", settings)
    assert "gradients are added up on fakegpu:0" in begun.out
    other = run(begun.dir, {**settings, "train.steps": 4, "pool.exchange": "host"}, "--resume")
    assert other.code == 69, other.err
    assert "torch's optimizer steps on: not known now, fake GPU, " in other.err
    run_well(begun.dir, {**settings, "train.steps": 4}, "--resume")


def test_a_run_that_goes_on_with_other_gpus_and_another_exchange_ends_with_the_same_bits(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    """I9: of an optimizer that leaves rows alone, averaged weights, and members."""
    settings = {**SPARSE, "pool.exchange": "host"}
    cut = copied(whole_run({**settings, "train.steps": 3}), tmp_path / "run")
    ended = run_well(
        cut, {**SPARSE, "pool.devices": ["fakegpu:1", "fakegpu:0"], "pool.coordinator_device": "all"}, "--resume"
    )
    assert "gradients are added up on fakegpu:1, fakegpu:0" in ended.out
    assert ended.digest() == whole_run(settings).digest()


def test_a_device_without_room_for_the_coordinator_ends_the_run_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", f"memory_bytes={1 << 16}")
    ended = run(tmp_path / "run", ONE)
    assert ended.code == 71, ended.err
    assert "the coordinator has no room on fakegpu:0 for versions of the weights, 2 x 1 MiB" in ended.err
    assert "set pool.exchange to host" in ended.err


FIRST_STEPS: dict[str, dict[str, Any]] = {
    "stockfish": {**STOCKFISH, "train.validate_every": 1},
    "stockfish, cut": {
        **STOCKFISH,
        "data.chess.features": "SFNNv16",
        "model.version": "SFNNv16",  # its steps are powers of two, so no sum's rounding decides about one
        "model.fake_quantization": ["rows", "dense", "activations"],
        "train.validate_every": 1,
    },
    "clicks, with values": {**CLICKS, "train.validate_every": 1},
    "groups": {**ONE, "model.dropout": 0.0, "train.batches_per_group": 3, "train.validate_every": 1},
}


@pytest.mark.parametrize("settings", FIRST_STEPS.values(), ids=FIRST_STEPS)
def test_the_first_step_is_a_cpus_to_rounding(settings: dict[str, Any], tmp_path: Path) -> None:
    """With plain SGD, which does not blow differences up."""
    first = {**settings, "optimizer.name": "torch.optim.SGD", "train.steps": 1}
    gpu, cpu = (
        run_well(tmp_path / "gpu", {**first, **GPU}),
        run_well(tmp_path / "cpu", {**first, "pool.devices": ["fake:0"]}),
    )
    wanted = cpu.weights()
    for name, array in gpu.weights().items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert validation_losses(gpu) == pytest.approx(validation_losses(cpu), rel=1e-5)


def validation_losses(ended: Ended) -> list[float]:
    losses = [entry["validation_loss"] for entry in ended.metrics() if entry.get("validation_loss") is not None]
    assert losses
    return losses


def test_a_gpu_whose_memory_is_full_at_the_start_ends_the_run_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", "fail_context=1")
    ended = run(tmp_path / "run", {**ONE, "pool.exchange": "host"})
    assert ended.code == 71, ended.err
    assert "fakegpu:0 has no memory left to begin with" in ended.err
    assert "free it, or name another device in pool.devices" in ended.err


def test_a_gpu_whose_memory_runs_out_ends_the_run_with_what_to_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKEGPU", f"memory_bytes={1 << 17}")
    ended = run(tmp_path / "run", {**ONE, "pool.exchange": "host"})
    assert ended.code == 71, ended.err
    assert "Tried to allocate" in ended.err
    assert "lower data.batch_size or model sizes" in ended.err


def test_a_gpu_that_is_lost_is_left_out_and_the_run_ends_with_the_bits_of_the_other(
    whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both lives of its worker it is lost while that computes, for which the other leaves it time."""
    apart = {"pool.devices": ["fakegpu:0?slow=4:3000", "fakegpu:1"], "pool.coordinator_device": "fakegpu:0"}
    monkeypatch.setenv("FAKEGPU", "lost_devices=2,lost_after=150")
    two = run_well(tmp_path / "two", {**ONE, **apart})
    lives = [line for line in two.out.splitlines() if "worker 1 (incarnation" in line]
    assert len(lives) == 2, two.out
    lost = "fakegpu:1 can't be used: RuntimeError: FAKEGPU error: CUDA-capable device(s) is/are busy or unavailable"
    assert lives[0].startswith(f"worker 1 (incarnation 1, fakegpu:1) ended: {lost}")
    assert lives[0].endswith("; tried once more in 0.5 s")
    assert lives[1].endswith("; left out, the run goes on with fakegpu:0")
    monkeypatch.delenv("FAKEGPU")
    assert two.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


def test_when_the_coordinators_gpu_is_lost_the_run_goes_on_where_a_worker_is_left(
    whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its newest snapshot in host memory, with the bits of the undisturbed run; a third worker lives on. The
    card's second life ends by its worker or by the coordinator, whichever is faster, or the run has ended by then."""
    monkeypatch.setenv("FAKEGPU", "devices=3,lost_devices=1,lost_after=800")
    first = {"pool.devices": THREE, "pool.exchange": "device", "pool.coordinator_device": "fakegpu:0"}
    ended = run_well(tmp_path / "run", {**ONE, **first, "pool.snapshot_steps": 1})
    lines = ended.out.splitlines()
    (last,) = [line for line in lines if line.endswith("; gradients are added up on fakegpu:1: fakegpu:0 is lost")]
    assert last.startswith("coordinator (incarnation ")
    left_out = [line for line in lines if line.endswith("; left out, the run goes on with fakegpu:1, fakegpu:2")]
    assert len(left_out) <= 1
    assert all(line.startswith("worker 0 (incarnation ") for line in left_out)
    assert "worker 2 (" not in ended.out
    assert "the run goes on from step 0" not in ended.out
    monkeypatch.delenv("FAKEGPU")
    assert ended.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


SHARED_OUT: dict[str, Any] = {"pool.exchange": "device", "pool.coordinator_device": "all", "pool.snapshot_steps": 1}
LOST: dict[str, tuple[list[str], str, str]] = {  # devices, what happens to them, what is said of it
    "one, by the coordinator": (
        THREE,
        "lost_devices=2,lost_after=500,lost_among=3,lost_alone=1",
        "; the run goes on with fakegpu:0, fakegpu:2; "
        "gradients are added up on fakegpu:0, fakegpu:2: fakegpu:1 is lost",
    ),
    "the first, by an error that all of the coordinator's give": (
        THREE[:2],
        "lost_devices=1,lost_after=500,lost_among=2",
        "; which of fakegpu:0, fakegpu:1 it is can't be told: fakegpu:0 is left out, the run goes on with fakegpu:1; "
        "gradients are added up on fakegpu:1: fakegpu:0 is lost",
    ),
    "the first, by its worker": (
        ["fakegpu:0", "fakegpu:1", "fakegpu:2?slow=4:3000"],
        "lost_devices=1,lost_after=150,lost_among=1",
        ", since it uses fakegpu:0, which is lost; restarted; "
        "gradients are added up on fakegpu:1, fakegpu:2: fakegpu:0 is lost",
    ),
    "all but one, from the beginning": (
        THREE,
        "lost_devices=3",
        "gradients are added up on fakegpu:2: ",
    ),
}


@pytest.mark.parametrize(("devices", "lost", "said"), LOST.values(), ids=LOST)
def test_when_a_gpu_that_shares_the_rows_is_lost_they_are_shared_out_over_the_others(
    devices: list[str], lost: str, said: str, whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the newest snapshot in host memory, with the bits of the undisturbed run."""
    monkeypatch.setenv("FAKEGPU", f"devices={len(devices)},{lost}")
    ended = run_well(tmp_path / "run", {**ONE, **SHARED_OUT, "pool.devices": devices})
    assert said in ended.out
    monkeypatch.delenv("FAKEGPU")
    assert ended.digest() == whole_run({**ONE, "pool.exchange": "host"}).digest()


ALL_LOST = {
    "the only one": {},
    "with its worker": {"pool.exchange": "local"},
    "all that share the rows": {**TWO, **SHARED_OUT},
}


@pytest.mark.parametrize("settings", ALL_LOST.values(), ids=ALL_LOST)
def test_a_run_whose_gpus_are_all_lost_ends_with_what_to_do(
    settings: dict[str, Any], whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_run({**ONE, "pool.exchange": "device", **settings})  # proves that processes can share their memory
    monkeypatch.setenv("FAKEGPU", "lost_devices=3")
    ended = run(tmp_path / "run", {**ONE, "pool.exchange": "device", **settings})
    assert ended.code == 75, ended.err
    assert "fakegpu:0 can't be used: RuntimeError: FAKEGPU error: CUDA-capable device(s)" in ended.err
    assert "no other device is left: mend it or name others in pool.devices, then --resume" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("tests.gpu.fake.other", "pool.devices: 'fakegpu:0': allowed: cuda:N, cpu, auto"),
        ("tests.nothing.fakegpu", "testing.device_module: no module 'tests.nothing.fakegpu'"),
    ],
)
def test_a_device_or_a_module_that_is_not_there_is_said_in_one_line(
    module: str, complaint: str, tmp_path: Path
) -> None:
    ended = run(tmp_path / "run", {**ONE, "testing.device_module": module})
    assert ended.code == 2
    assert complaint in ended.err
