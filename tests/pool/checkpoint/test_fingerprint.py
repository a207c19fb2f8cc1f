"""The fingerprint: what changes bits is in it, what does not is not, and a difference has to be asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from pool import numerics
from pool.checkpoint.fingerprint import ARITHMETIC, differences
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.device.names import parse_device
from pool.device.precision import describe_changed_arithmetic, read_arithmetic_settings
from pool.errors import RunError
from pool.exchange.plan import TensorSpec, build_plan
from pool.protocol.identity import Peer
from pool.run_folder.first_steps import FILE
from tests.support.crafted import reseal
from tests.support.runs import TOY, WholeRun, copied, run, run_well

PLAN = build_plan([TensorSpec("w", (100, 16), "float32", 4)], [], [1 << 20])


def config(**changes: object) -> Config:
    tree: dict[str, dict[str, object]] = {"pool": {"threads": 1}, "train": {}, "optimizer": {}}
    for key, value in changes.items():
        section, _, name = key.partition("_")
        tree[section][name] = value
    return parse_config({**tree, "task": "tests.support.toy"}, "test")


def test_the_number_of_workers_and_their_names_are_no_part_of_it() -> None:
    """I2."""
    one = numerics.reference(config(), PLAN, ("fake:0",))
    assert one == numerics.reference(config(), PLAN, ("fake:0", "fake:1?compute_ms=3", "cpu"))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"pool_threads": 2}, "devices"),
        ({"pool_coordinator_threads": 1000}, "coordinator threads"),
        ({"train_batches_per_step": 4}, "batches_per_step"),
        ({"train_batches_per_group": 2}, "batches_per_group"),
        ({"optimizer_args": {"fused": True}}, "optimizer"),
        ({"optimizer_name": "torch.optim.SGD"}, "optimizer"),
    ],
)
def test_what_changes_bits_is_part_of_it(changes: dict[str, object], key: str) -> None:
    before = numerics.reference(config(), PLAN, ("cpu",))
    after = numerics.reference(config(**changes), PLAN, ("cpu",))
    assert [name for name in before if before[name] != after[name]] == [key]
    assert differences(before, after) == f"{key}: {after[key]} now, {before[key]} then"


def test_other_buckets_and_another_environment_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = numerics.reference(config(), PLAN, ("cpu",))
    other = numerics.reference(config(), replace(PLAN, nbytes=PLAN.nbytes + 4096), ("cpu",))
    assert [name for name in before if before[name] != other[name]] == ["buckets"]
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")  # how threads wait is in no bit
    changed = numerics.reference(config(), PLAN, ("cpu",))
    assert [name for name in before if before[name] != changed[name]] == ["environment"]
    assert "MKL_CBWR=COMPATIBLE" in changed["environment"]
    assert "WAIT" not in changed["environment"]


def test_what_an_older_checkpoint_does_not_say_is_a_difference() -> None:
    assert differences({}, {"torch": "2"}) == "torch: 2 now, not known then"
    assert differences({"torch": "2"}, {"torch": "2"}) == ""


def test_a_process_that_would_compute_other_bits_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    fingerprint = numerics.reference(config(pool_threads=threads, pool_coordinator_threads=threads), PLAN, ("cpu",))
    peer = Peer("worker", 3)
    numerics.check_worker(fingerprint, peer, parse_device("cpu"))
    numerics.check_coordinator(fingerprint, Peer("coordinator"))
    with pytest.raises(RunError, match=rf"worker 3 would .*: devices: CPU with {threads} threads here, a GPU in its"):
        numerics.check_worker({**fingerprint, "devices": "a GPU"}, peer, parse_device("cpu"))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    with pytest.raises(RunError, match="worker 3 would compute other bits than the run: environment: ATEN_CPU_CAP"):
        numerics.check_worker(fingerprint, peer, parse_device("cpu"))


def test_of_the_environment_only_what_differs_is_shown() -> None:
    then = {"environment": "MKL_CBWR=AVX2 OMP_NUM_THREADS=2 OMP_PLACES={0}, {1}", "devices": "CPU with 1 threads; A"}
    now = {"environment": "OMP_NUM_THREADS=4 OMP_PLACES={0}, {1}", "devices": "CPU with 1 threads"}
    assert differences(then, now) == (
        "environment: OMP_NUM_THREADS=4 now, MKL_CBWR=AVX2, OMP_NUM_THREADS=2 then; devices: nothing now, A then"
    )


@pytest.fixture
def usual_arithmetic() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")
    torch.set_flush_denormal(False)
    torch.backends.mkldnn.matmul.fp32_precision = "none"  # type: ignore[attr-defined]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            partial(torch.set_float32_matmul_precision, "medium"),
            "backends.mkldnn.matmul.fp32_precision = bf16, backends.cuda.matmul.fp32_precision = tf32",
        ),
        (
            partial(setattr, attrgetter("mkldnn.matmul")(torch.backends), "fp32_precision", "bf16"),
            "fp32_precision = bf16",
        ),
        (partial(torch.set_flush_denormal, True), "flush denormal = True"),
    ],
    ids=["medium", "mkldnn", "denormal"],
)
@pytest.mark.usefixtures("usual_arithmetic")
def test_settings_of_torch_that_a_task_may_change_are_part_of_it(change: Callable[[], object], named: str) -> None:
    before = numerics.reference(config(), PLAN, ("cpu",))
    assert ARITHMETIC not in before
    settings = read_arithmetic_settings()
    change()
    assert read_arithmetic_settings() != settings
    after = numerics.reference(config(), PLAN, ("cpu",))
    assert {key for key in after if after[key] != before.get(key)} == {ARITHMETIC}
    assert named in after[ARITHMETIC]
    peer = Peer("worker", 3)
    with pytest.raises(RunError, match=r"worker 3 would compute other bits than the run: torch's settings: "):
        numerics.check_members(before, peer, [], "float32")
    numerics.check_members(after, peer, [], "float32")


@pytest.mark.usefixtures("usual_arithmetic")
def test_what_pool_dense_products_chooses_is_no_setting_of_a_task() -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    assert describe_changed_arithmetic("tf32") == ""
    assert describe_changed_arithmetic("float32") == "backends.cuda.matmul.fp32_precision = tf32"


@pytest.mark.runs
def test_a_resume_with_other_numerics_has_to_be_asked_for(
    whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(whole_run(TOY), tmp_path / "run")
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    assert "MKL_CBWR" in os.environ
    longer = {**TOY, "train.steps": 14}
    refused = run(tmp_path / "run", longer, "--resume")
    assert refused.code == 69
    assert len(refused.err.splitlines()) == 1
    assert "environment: " in refused.err
    assert "MKL_CBWR=AVX2" in refused.err
    assert "--allow-different-numerics" in refused.err
    allowed = run_well(tmp_path / "run", longer, "--resume", "--allow-different-numerics")
    assert "the run is bit for bit the same only up to step 12" in allowed.out
    again = run_well(tmp_path / "run", {**TOY, "train.steps": 16}, "--resume")
    assert "numerics" not in again.out


def test_the_version_that_older_builds_wrote_behind_their_optimizers_is_no_difference() -> None:
    now = numerics.reference(config(), PLAN, ("cpu",))
    assert "sparsepool" not in now["optimizer"]
    then = {**now, "optimizer": "pool.optim.Adam (sparsepool 0.1.0), fused=True"}
    assert differences(then, {**now, "optimizer": "pool.optim.Adam, fused=True"}) == ""
    assert differences({"optimizer": "torch.optim.Adam (torch 2.1)"}, {"optimizer": "torch.optim.Adam (torch 2.2)"})


def built_by_another(run_dir: Path) -> None:
    """The newest checkpoint is another build's."""

    def change(tree: dict[str, Any]) -> None:
        tree["fingerprint"]["native code"] = "0123456789abcdef 0123456789abcdef"

    reseal(run_dir / "checkpoints/last", change)


LONGER = {**TOY, "train.steps": 16, "schedule.every": 4}


@pytest.mark.runs
def test_a_build_that_computes_the_same_bits_goes_on(whole_run: WholeRun, tmp_path: Path) -> None:
    """What its first steps make of the weights tells."""
    whole = whole_run(LONGER)
    run_well(tmp_path / "run", {**LONGER, "train.steps": 8})
    built_by_another(tmp_path / "run")
    again = run_well(tmp_path / "run", LONGER, "--resume")
    assert "the run's first 3 steps, done again, have the bits that they had" in again.out
    assert again.digest() == whole.digest()
    assert "done again" not in run_well(tmp_path / "run", {**LONGER, "train.steps": 17}, "--resume").out


@pytest.mark.runs
@pytest.mark.parametrize("recorded", ["other bits", "nothing"])
def test_a_build_that_computes_other_bits_is_refused(recorded: str, whole_run: WholeRun, tmp_path: Path) -> None:
    copied(whole_run(TOY), tmp_path / "run")
    built_by_another(tmp_path / "run")
    path = tmp_path / "run" / FILE
    if recorded == "nothing":
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "digest": "0" * 32}))
    refused = run(tmp_path / "run", {**TOY, "train.steps": 14}, "--resume")
    assert (refused.code, len(refused.err.splitlines())) == (69, 1)
    assert "native code: " in refused.err


@pytest.mark.runs
@pytest.mark.parametrize("stops_early", [False, True])
def test_a_finished_run_that_is_resumed_with_other_numerics_is_finished(
    stops_early: bool, whole_run: WholeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has stopped before its last step."""
    early = {"train.steps": 40, "train.validate_every": 1, "train.early_stopping": 1, "optimizer.args.lr": 5.0}
    settings = {**TOY, **(early if stops_early else {})}
    ended = whole_run(settings)
    assert ("stopped early" in ended.out) == stops_early
    copied(ended, tmp_path / "run")
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    again = run_well(tmp_path / "run", settings, "--resume")
    assert "nothing is left to compute with them" in again.out
    assert again.digest() == ended.digest()
