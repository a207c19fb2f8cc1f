"""Groups: a worker adds up several batches of a step before it hands their gradients over (I2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runs.test_ensembles import MEMBERS
from tests.support.ensembles import digest, ensemble
from tests.support.runs import TOY, WholeRun, copied, run, run_well

# Seven batches a step in groups of three, the last one alone. Of some batches a layer gets no gradient.
GROUPS: dict[str, Any] = {
    **TOY,
    "train.batches_per_step": 7,
    "train.batches_per_group": 3,
    "train.steps": 6,
    "train.checkpoint_every": 3,
    "model.batch_norm": True,
    "model.unused_every": 2,
    "model.gain": True,
    "pool.bucket_mb": 0.01,
    "optimizer.name": "pool.optim.SparseAdam",
}
BAD = {"loss.infinite_gradient_of_batch": 22, "train.on_bad_batch": "skip"}  # the second of its group


ONE_WORKER = {"pool.devices": ["fake:0"]}
TWO_OF_THREE_DIE = {
    "pool.devices": ["fake:0?crash=2:backward", "fake:1", "fake:2?crash=4:bucket"],
    "pool.gradient_slots": 1,
}
ALL_DIE = {
    "testing.crash_points": [
        "worker.before_forward@9=kill",
        "worker.after_bucket@7=kill",
        "coordinator.before_commit@4=kill",
        "feeder.before_report@6=kill",
    ]
}


@pytest.mark.parametrize(
    ("settings", "bad"),
    [(ONE_WORKER, {}), (TWO_OF_THREE_DIE, BAD), (ALL_DIE, BAD)],
    ids=["one worker", "two of three die, bad batch", "all die, bad batch"],
)
def test_the_bits_depend_on_k_alone(
    settings: dict[str, Any], bad: dict[str, Any], whole_run: WholeRun, tmp_path: Path
) -> None:
    ended = run_well(tmp_path / "run", {**GROUPS, **bad, **settings})
    assert ended.digest() == whole_run({**GROUPS, **bad}).digest()
    if bad:
        assert "batch 22 of step 3" in ended.out


def test_a_step_in_groups_is_that_of_single_batches_to_rounding(whole_run: WholeRun, tmp_path: Path) -> None:
    """With plain SGD, which does not blow differences up; a bad batch is left out of both."""
    plain = {**GROUPS, **BAD, "optimizer.name": "torch.optim.SGD"}
    grouped, single = (run_well(tmp_path / str(k), {**plain, "train.batches_per_group": k}) for k in (3, 1))
    for name, array in single.weights().items():
        np.testing.assert_allclose(grouped.weights()[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
    assert [r["loss"] for r in grouped.metrics()] == pytest.approx([r["loss"] for r in single.metrics()], rel=1e-5)
    assert whole_run(GROUPS).digest() != run_well(tmp_path / "k", {**GROUPS, "train.batches_per_group": 4}).digest()


def test_a_run_that_goes_on_ends_with_the_same_bits(whole_run: WholeRun, tmp_path: Path) -> None:
    """I9. Another k would give others, and is refused."""
    cut = copied(whole_run({**GROUPS, "train.steps": 3}), tmp_path / "run")
    refused = run(cut, {**GROUPS, "train.batches_per_group": 2}, "--resume")
    assert (refused.code, "batches_per_group: 2 now, 3 then" in refused.err) == (2, True), refused.err
    assert run_well(cut, GROUPS, "--resume").digest() == whole_run(GROUPS).digest()


def test_members_are_the_runs_that_they_would_be_alone(tmp_path: Path) -> None:
    """A batch that is bad for one of them is left out of its sum alone."""
    settings = {**GROUPS, "train.on_bad_batch": "skip", "pool.devices": ["fake:0", "fake:1"]}
    together = run_well(tmp_path / "together", ensemble(settings, MEMBERS))
    assert "batch 10 of step 1" in together.out
    for m, own in enumerate(MEMBERS):
        alone = run_well(tmp_path / str(m), {**settings, **own})
        assert digest(together.dir / "checkpoints/last", m) == digest(alone.dir / "checkpoints/last")


def test_rounded_gradients_have_the_same_bits_whoever_computes_them_and_dies(tmp_path: Path) -> None:
    """Also beside sums of parts that were added up early, and of a bad batch's group; they are another result."""
    settings = {**GROUPS, **BAD, "train.gradient_dtype": "bfloat16"}
    one = run_well(tmp_path / "one", {**settings, **ONE_WORKER, "pool.gradient_slots": 1})
    two = run_well(tmp_path / "two", {**settings, **ALL_DIE})
    assert one.digest() == two.digest()
    refused = run(tmp_path / "one", {**settings, "train.steps": 8, "train.gradient_dtype": "float32"}, "--resume")
    assert (refused.code, "gradient_dtype: float32 now, bfloat16 then" in refused.err) == (2, True), refused.err
