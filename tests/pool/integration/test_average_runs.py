"""Runs with averaged weights: the average has the bits of the undisturbed run, is validated, and can be exported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from pool.metrics.digits import in_digits
from pool.trained.model import load_trained
from tests.support.runs import ROOT, TOY, Ended, WholeRun, copied, run, run_well

AVERAGE = "average.safetensors"
SETTINGS: dict[str, Any] = {
    **TOY,
    "train.checkpoint_every": 1,
    "train.keep_checkpoints": 20,
    "train.validate_every": 4,
    "train.validation_batches": 2,
    "train.average.kind": "ema",
    "train.average.decay": 0.8,
    "train.average.start": 3,
    "train.average.every": 2,
    "train.best_metric": "average_loss",
    "model.batch_norm": True,
}


@pytest.fixture(scope="module")
def averaged(whole_run: WholeRun) -> Ended:
    """Slow enough for a checkpoint of each step."""
    return whole_run({**SETTINGS, "pool.devices": ["fake:0?compute_ms=25", "fake:1?compute_ms=25"]})


def average_of(ended: Ended) -> bytes:
    return (ended.dir / "checkpoints/last" / AVERAGE).read_bytes()


def test_the_average_is_that_of_the_versions_in_the_checkpoints(averaged: Ended) -> None:
    count, average = 0, dict[str, np.ndarray[Any, Any]]()
    for step in range(1, 13):
        folder = averaged.dir / f"checkpoints/step-{step:09d}"
        assert (folder / AVERAGE).exists() is (step >= 3)
        weights = load_file(folder / "weights.safetensors")
        if step >= 3 and (step - 3) % 2 == 0:
            count += 1
            rate = np.float32(0.2 / (1 - 0.8**count))
            for name, weight in weights.items():
                moved = weight.dtype == np.float32 and "running" not in name and count > 1
                average[name] = average[name] + rate * (weight - average[name]) if moved else weight
        if step >= 3:
            found = load_file(folder / AVERAGE)
            assert found.keys() == average.keys()
            assert all(found[name].tobytes() == average[name].tobytes() for name in found), step
    state = json.loads((averaged.dir / "checkpoints/last/state.json").read_text())
    assert state["averaged"] == count == 5


def test_it_is_validated_beside_the_weights_and_chooses_the_best_checkpoint(averaged: Ended) -> None:
    found = {entry["step"]: entry for entry in averaged.metrics() if "validation_loss" in entry}
    assert [step for step, entry in found.items() if "validation_average_loss" in entry] == [0, 4, 8, 12]
    assert found[0]["validation_average_loss"] == found[0]["validation_loss"]
    assert found[12]["validation_average_loss"] != found[12]["validation_loss"]
    best = min((4, 8, 12), key=lambda step: found[step]["validation_average_loss"])
    assert (averaged.dir / "checkpoints/best").readlink() == Path(f"step-{best:09d}")
    assert f"average_loss {in_digits(found[12]['validation_average_loss'])}" in averaged.out
    assert "--ema" in averaged.out.splitlines()[-1]


def test_whatever_dies_the_average_has_the_same_bits(averaged: Ended, tmp_path: Path) -> None:
    """I9; the weights are those of a run without an average."""
    points = ["coordinator.mid_average@5=kill", "coordinator.after_publish@4=kill", "worker.after_finish@9=kill"]
    disturbed = {"testing.crash_points": points, "pool.devices": ["fake:0?crash=5:bucket", "fake:1", "fake:2"]}
    ended = run_well(tmp_path / "run", {**SETTINGS, **disturbed, "pool.snapshot_steps": 3, "train.checkpoint_every": 5})
    assert "coordinator (incarnation 1) was killed" in ended.out
    assert average_of(ended) == average_of(averaged)
    assert ended.digest() == averaged.digest()
    values = {e["step"]: e["validation_average_loss"] for e in ended.metrics() if "validation_loss" in e}
    assert values == {e["step"]: e["validation_average_loss"] for e in averaged.metrics() if "validation_loss" in e}


def test_a_run_that_is_resumed_from_the_middle_has_the_same_bits(averaged: Ended, tmp_path: Path) -> None:
    settings = {**SETTINGS, "pool.devices": ["fake:0"], "train.checkpoint_every": 20}
    first = run_well(tmp_path / "run", {**settings, "train.steps": 6})
    assert (first.dir / "checkpoints/last" / AVERAGE).exists()
    ended = run_well(tmp_path / "run", settings, "--resume")
    assert average_of(ended) == average_of(averaged)
    assert ended.digest() == averaged.digest()


def test_an_average_may_begin_in_a_resumed_run_and_end_in_another(averaged: Ended, tmp_path: Path) -> None:
    folder = copied(averaged, tmp_path / "run")
    plain = {key: value for key, value in SETTINGS.items() if "average" not in str(value) and "average" not in key}
    without = run_well(folder, {**plain, "train.steps": 13}, "--resume")
    assert not (without.dir / "checkpoints/last" / AVERAGE).exists()
    again = run_well(folder, {**plain, "train.steps": 15, "train.average.kind": "swa"}, "--resume")
    steps = [load_file(again.dir / f"checkpoints/step-{step:09d}/weights.safetensors") for step in (14, 15)]
    found = load_file(again.dir / "checkpoints/last" / AVERAGE)
    for name in [name for name in found if name.endswith("weight")]:
        np.testing.assert_allclose(found[name], (steps[0][name] + steps[1][name]) / 2, rtol=1e-6, atol=1e-8)


def test_members_have_the_averages_of_their_own_runs(tmp_path: Path) -> None:
    settings = {key: value for key, value in SETTINGS.items() if key not in ("train.checkpoint_every",)}
    alone = [run_well(tmp_path / str(seed), {**settings, "run.model_seed": seed}) for seed in (4, 5)]
    ended = run_well(tmp_path / "run", {**settings, "run.model_seed": 4, "ensemble.members": 2})
    found = load_file(ended.dir / "checkpoints/last" / AVERAGE)
    for m, own in enumerate(alone):
        expected = load_file(own.dir / "checkpoints/last" / AVERAGE)
        assert {f"member.{m}.{name}" for name in expected} < found.keys()
        assert all(found[f"member.{m}.{name}"].tobytes() == tensor.tobytes() for name, tensor in expected.items())
        mine = [e["members"]["validation_average_loss"][m] for e in ended.metrics() if "validation_loss" in e]
        assert mine == [e["validation_average_loss"] for e in own.metrics() if "validation_loss" in e]


def pool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pool", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_the_averaged_network_is_exported_on_request(averaged: Ended, tmp_path: Path) -> None:
    task = ("--task", str(TOY["task"]))
    done = pool("export", str(averaged.dir), "-o", str(tmp_path / "net"), *task, "--ema")
    assert done.returncode == 0, done.stderr
    assert "averaged weights" in done.stdout
    found = load_trained(averaged.dir, str(TOY["task"]), averaged=True).model.state_dict()
    expected = load_file(averaged.dir / "checkpoints/last" / AVERAGE)
    assert all(np.array_equal(found[name].numpy(), tensor) for name, tensor in expected.items())
    early = pool("export", str(averaged.dir / "checkpoints/step-000000002"), "-o", str(tmp_path / "x"), "--ema", *task)
    assert early.returncode != 0
    assert early.stderr.count("\n") == 1
    assert "has no averaged weights: it is of step 2" in early.stderr
    assert "train.average.start = 3" in early.stderr


def test_a_run_without_an_average_has_no_numbers_of_it(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**TOY, "train.best_metric": "average_loss"})
    assert ended.code != 0
    assert ended.err.count("\n") == 1
    assert "train.best_metric: 'average_loss' is not measured; allowed: loss" in ended.err
