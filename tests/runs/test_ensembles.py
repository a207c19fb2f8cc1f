"""Members of one run: each ends with the bits of the run that it would have been alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.oracle import CHESS
from tests.runs.test_clicks_runs import STOPPING
from tests.support.ensembles import digest, ensemble
from tests.support.runs import TOY, Ended, run, run_well

SGD = "torch.optim.SGD"
MEMBERS: list[dict[str, Any]] = [
    {
        "run.model_seed": 1,
        "optimizer.name": "pool.optim.SparseAdam",
        "schedule.name": "torch.optim.lr_scheduler.StepLR",
        "schedule.args.step_size": 2,
    },
    {"run.model_seed": 2, "loss.infinite_gradient_of_batch": 10, "optimizer.name": "pool.optim.Adam"},
    {"loss.scale": 2.0, "optimizer.name": SGD, "optimizer.args.momentum": 0.9, "optimizer.args.lr": 0.001},
]
BAD_STEP = 5  # of member 1
SETTINGS = {**TOY, "model.batch_norm": True, "train.checkpoint_every": BAD_STEP, "train.on_bad_batch": "skip"}
STOP = {**SETTINGS, "train.on_bad_batch": "stop", "train.checkpoint_every": 4}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Each member's own run."""
    folder = tmp_path_factory.mktemp("alone")
    return [run_well(folder / str(m), {**SETTINGS, **own}) for m, own in enumerate(MEMBERS)]


def digests(runs: Sequence[Ended]) -> list[str]:
    return [digest(ended.dir / "checkpoints/last") for ended in runs]


def of_members(ended: Ended, members: int = len(MEMBERS)) -> list[str]:
    return [digest(ended.dir / "checkpoints/last", m) for m in range(members)]


def test_a_bad_batch_is_left_out_for_one_member_alone_whatever_dies(tmp_path: Path, alone: list[Ended]) -> None:
    disturbed = {
        "pool.devices": ["fake:0?crash=3:bucket", "fake:1", "fake:2"],
        "pool.gradient_slots": 1,
        "testing.crash_points": ["coordinator.before_commit@8=kill", "worker.after_finish@5=kill"],
    }
    ended = run_well(tmp_path / "run", {**ensemble(SETTINGS, MEMBERS), **disturbed})
    assert of_members(ended) == digests(alone)
    assert "member 1, batch 10 of step 5: member.1." in ended.out
    assert "it is left out for this member" in ended.out
    left_out = json.loads((ended.dir / "poison/batch-10.json").read_text())
    assert (left_out["members"], left_out["fatal"]) == ([1], False)
    for m, other in enumerate(alone):
        losses = [entry["members"]["loss"][m] for entry in ended.metrics() if "loss" in entry]
        assert losses == [entry["loss"] for entry in other.metrics() if "loss" in entry]


def test_a_member_is_frozen_at_its_last_good_weights_and_stays_so_in_a_resumed_run(
    tmp_path: Path, alone: list[Ended]
) -> None:
    settings = ensemble(STOP, MEMBERS)
    deaths = {"testing.crash_points": ["coordinator.before_commit@7=kill"]}
    first = run_well(tmp_path / "run", {**settings, **deaths, "train.steps": 8})
    assert "the member keeps the weights of step 5, the others go on" in first.out
    ended = run_well(tmp_path / "run", {**settings, "pool.devices": ["fake:0"]}, "--resume")
    good = digests(alone)
    assert of_members(ended) == [good[0], digest(alone[1].dir / "checkpoints/step-000000005"), good[2]]
    assert "batch 10" not in ended.out
    state = json.loads((ended.dir / "checkpoints/last/state.json").read_text())
    assert [member["frozen_at"] for member in state["members"]] == [None, BAD_STEP, None]


def test_when_the_last_member_has_a_bad_batch_the_run_ends_as_one_of_its_own(tmp_path: Path) -> None:
    settings = {**TOY, "pool.devices": ["fake:0?nan=3:1&nan=5:0", "fake:1"], "ensemble.members": 2}
    ended = run(tmp_path / "run", settings)
    assert ended.code == 1
    assert "member 1, batch " in ended.out
    assert "of step 3: the loss is not finite" in ended.out
    (line,) = [line for line in ended.err.splitlines() if "of step 5" in line]
    assert "member 0, batch " in line
    assert 'train.on_bad_batch = "skip" would leave it out' in line


def test_members_of_the_chess_task_share_the_fused_kernels(tmp_path: Path) -> None:
    own: list[dict[str, Any]] = [{"run.model_seed": 7}, {"optimizer.args.lr": 1e-3, "loss.lambda_end": 0.5}]
    settings = {**CHESS, "train.steps": 4, "optimizer.name": "pool.optim.Adam"}
    ended = run_well(tmp_path / "run", ensemble(settings, [*own, own[0]]))
    alone = [run_well(tmp_path / f"alone-{m}", {**settings, **member}) for m, member in enumerate(own)]
    assert of_members(ended) == [*digests(alone), digests(alone)[0]]
    assert "members 0, 2 have the same settings, seed included: they are the same network" in ended.out
    (how,) = [line for line in ended.out.splitlines() if "members are computed one after the other" in line]
    assert "no more than 2 have the same task settings and attributes" in how


def test_each_member_stops_early_and_reduces_its_rate_by_its_own_validations(tmp_path: Path) -> None:
    own: list[dict[str, Any]] = [{"optimizer.args.lr": 3.0}, {"run.model_seed": 3, "optimizer.args.lr": 1.0}]
    alone = [run_well(tmp_path / f"alone-{m}", {**STOPPING, **member}) for m, member in enumerate(own)]
    ends = [len([entry for entry in ended.metrics() if "loss" in entry]) for ended in alone]
    assert ends[0] != ends[1], "one has to stop while the other goes on"
    ended = run_well(tmp_path / "run", ensemble(STOPPING, own))
    assert of_members(ended, 2) == digests(alone)
    for m, other in enumerate(alone):
        found = {e["step"]: e["members"]["validation_auc"][m] for e in ended.metrics() if "validation_auc" in e}
        expected = {e["step"]: e["validation_auc"] for e in other.metrics() if "validation_auc" in e}
        assert {step: found[step] for step in expected} == expected
        assert f"member {m} stopped early at step {ends[m]}" in ended.out


def test_members_that_are_computed_together_end_with_the_same_bits_whatever_dies(tmp_path: Path) -> None:
    settings = {**SETTINGS, "ensemble.members": 8, "train.steps": 6}
    quiet = run_well(tmp_path / "quiet", {**settings, "pool.devices": ["cpu"], "pool.threads": 1})
    disturbed = run_well(tmp_path / "disturbed", {**settings, "pool.devices": ["fake:0?crash=3:backward", "fake:1"]})
    assert of_members(quiet, 8) == of_members(disturbed, 8)
    assert len(set(of_members(quiet, 8))) == 8
    for ended in (quiet, disturbed):
        logs = "".join(path.read_text() for path in (ended.dir / "logs").glob("worker-*"))
        assert "the dense layers of all members are computed together" in logs
        assert ended.out.count("the dense layers of all members are computed together\n") == 1
