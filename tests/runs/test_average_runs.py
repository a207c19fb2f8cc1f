"""Runs with averaged weights: the average has the bits of the undisturbed run, is validated, and can be exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from pool.export.export import export_checkpoint
from pool.export.load import load_network
from pool.export.member import Choice
from pool.metrics.digits import format_value
from tests.support.runs import TOY, Ended, WholeRun, run, run_well

AVERAGE = "average.safetensors"
SETTINGS: dict[str, Any] = {
    **TOY,
    "train.steps": 11,
    "train.validate_every": 4,
    "train.validation_batches": 2,
    "train.best_metric": "average_loss",
    "train.average.kind": "ema",
    "train.average.decay": 0.8,
    "train.average.start": 3,
    "train.average.every": 4,
    "model.batch_norm": True,
}  # versions 3, 7 and 11 are added


@pytest.fixture(scope="module")
def averaged(whole_run: WholeRun) -> Ended:
    return whole_run(SETTINGS)


def last(ended: Ended, name: str = AVERAGE) -> dict[str, np.ndarray[Any, Any]]:
    return load_file(ended.dir / "checkpoints/last" / name)


def count(ended: Ended) -> int:
    state: dict[str, int] = json.loads((ended.dir / "checkpoints/last/state.json").read_text())
    return state["averaged"]


def values(ended: Ended) -> dict[int, float]:
    return {e["step"]: e["validation_average_loss"] for e in ended.metrics() if "validation_average_loss" in e}


def test_it_is_validated_beside_the_weights_and_chooses_the_best_checkpoint(averaged: Ended) -> None:
    found, of_weights = values(averaged), {e["step"]: e.get("validation_loss") for e in averaged.metrics()}
    assert list(found) == [0, 4, 8, 11]
    assert found[0] == of_weights[0]
    assert found[11] != of_weights[11]
    best = min((4, 8, 11), key=found.__getitem__)
    assert (averaged.dir / "checkpoints/best").readlink() == Path(f"step-{best:09d}")
    assert f"average_loss {format_value(found[11])}" in averaged.out
    assert "--ema" in averaged.out.splitlines()[-1]


def test_whatever_dies_the_average_has_the_same_bits(averaged: Ended, tmp_path: Path) -> None:
    """I9"""
    points = ["coordinator.mid_average@5=kill", "coordinator.after_publish@8=kill", "worker.after_finish@9=kill"]
    disturbed = {"testing.crash_points": points, "pool.devices": ["fake:0?crash=5:bucket", "fake:1", "fake:2"]}
    ended = run_well(tmp_path / "run", {**SETTINGS, **disturbed, "pool.snapshot_steps": 3})
    assert "coordinator (incarnation 1) was killed" in ended.out
    assert ended.digest() == averaged.digest()
    assert values(ended) == values(averaged)


def test_a_run_that_is_resumed_from_the_middle_has_the_same_bits(averaged: Ended, tmp_path: Path) -> None:
    """The newest version is the last that was added."""
    settings = {**SETTINGS, "pool.devices": ["fake:0"]}
    first = run_well(tmp_path / "run", {**settings, "train.steps": 7})
    before = last(first)
    ended = run_well(tmp_path / "run", settings, "--resume")
    assert ended.digest() == averaged.digest()
    assert count(ended) == 3
    weights, found, rate = last(ended, "weights.safetensors"), last(ended), np.float32(0.2 / (1 - 0.8**3))
    assert found.keys() == weights.keys()
    for name, average in found.items():
        is_buffer = "running" in name or weights[name].dtype != np.float32
        moved = before[name] + rate * (weights[name] - before[name])
        assert np.array_equal(average, weights[name] if is_buffer else moved), name


def test_an_average_may_begin_in_a_resumed_run(tmp_path: Path) -> None:
    run_well(tmp_path / "run", {**TOY, "train.steps": 4})
    ended = run_well(tmp_path / "run", {**TOY, "train.steps": 6, "train.average.kind": "swa"}, "--resume")
    assert count(ended) == 2
    assert last(ended).keys() == ended.weights().keys()


def test_members_have_the_averages_of_their_own_runs(averaged: Ended, tmp_path: Path) -> None:
    ended = run_well(tmp_path / "run", {**SETTINGS, "ensemble.members": 2})
    found, expected = last(ended), last(averaged)
    assert found.keys() == {f"member.{m}.{name}" for m in range(2) for name in expected}
    assert all(np.array_equal(found[f"member.0.{name}"], tensor) for name, tensor in expected.items())
    entries = [e for e in ended.metrics() if "validation_average_loss" in e]
    assert [e["members"]["validation_average_loss"][0] for e in entries] == list(values(averaged).values())


def test_the_averaged_network_is_exported_on_request(averaged: Ended, tmp_path: Path) -> None:
    task = str(TOY["task"])
    exported = export_checkpoint(averaged.dir, tmp_path / "net", "", task, Choice(averaged=True))
    assert str(exported).endswith("averaged weights")
    found = load_network(averaged.dir, task, Choice(averaged=True)).model.state_dict()
    assert all(np.array_equal(found[name].numpy(), tensor) for name, tensor in last(averaged).items())


def test_a_run_without_an_average_has_no_numbers_of_it(tmp_path: Path) -> None:
    ended = run(tmp_path / "run", {**TOY, "train.best_metric": "average_loss"})
    assert ended.code != 0
    assert ended.err.count("\n") == 1
    assert "train.best_metric: 'average_loss' is not measured; allowed: loss" in ended.err
