"""The start documents of processes, through the one converter and back."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from math import inf
from pathlib import Path

import pytest

from loader.files.identity import DataFile
from loader.stream.interface import Cursor
from loader.stream.schema import BatchSchema, DenseField, SparseField
from pool.checkpoint.overrides import Override
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.device.cards import Card
from pool.exchange.plan import TensorSpec, build_plan
from pool.machines.rank import MachineRank
from pool.metrics.layout import Measured
from pool.metrics.metric import Column
from pool.process.document import to_json
from pool.process.plan_result import Planned
from pool.process.start import RunStart, Start, decode_start
from pool.protocol.blame import DeathInBatch
from pool.protocol.identity import COORDINATOR, FEEDER, PLANNER, WORKER, Peer
from pool.shm.segment import SegmentHandle
from pool.supervisor.prepare.run_plan import RunPlan
from tests.support.run_plans import TREE, run_plan

NO_UTF8 = Path(os.fsdecode(b"/data/\xff.binpack"))
FILES = (DataFile(NO_UTF8, 1 << 40, 2, (1 << 64) - 1, 1_700_000_000_123_456_789), DataFile(Path("/b"), 1, 2, 3, None))
SPECS = (TensorSpec("table", (64, 8), "float32", 4, "features"), TensorSpec("bias", (), "float32", 4))
PLANNED = Planned(
    schema=BatchSchema(8, (SparseField("features", 64, 4, 2),), (DenseField("score", "int16"),), num_buckets=3),
    plans=(build_plan(SPECS, [TensorSpec("buffer", (2, 3), "int64", 8)], [512], split_tables=True),),
    measured=Measured(8, (("auc", "max"),), (("scores", Column("float32", 2)),)),
    num_chunks={"train": 6, "validate": 7},
    devices=("cpu", "fake:0?compute_ms=20"),
    device_names=("cpu", "fake:0"),
    state_nbytes=1 << 40,
    fingerprint={"torch": "2"},
    cards=(
        Card("cuda:0", "RTX", 2, 1, "8.9", "GPU-1", False, ("cuda:1",)),
        Card("cuda:1", "RTX", 2, 1, "8.9", problem="busy"),
    ),
)


def full(run_dir: Path) -> RunPlan:
    """A run of which no field is as in one that has not been planned."""
    return run_plan(
        run_dir,
        config=parse_config({**TREE, "run": {"seed": 9}, "train": {"validation_batches": "all"}}, "test"),
        coordinator=Peer(COORDINATOR, incarnation=3),
        train_files=FILES,
        validation_files=FILES[:1],
        step=5,
        cursor=Cursor(1, 2, 3, 4),
        checkpoint=run_dir / "checkpoints/step-000000005",
        snapshot=1,
        saved=4,
        answer=PLANNED,
        overrides=(Override(3, "optimizer.args.lr", [0.5, {"a": inf}]),),
        only_check=True,
        start_from=NO_UTF8,
        deaths=(DeathInBatch("train", 5, 11, f"KeyError; traceback in {NO_UTF8}"),),
        rank=MachineRank(3, 1, "10.0.0.2", "a" * 40, 7),
        validation_samples=12,
        validation_digests=("a1", "b2"),
    )


def document(role: str, run_dir: Path) -> Start:
    run = replace(full(run_dir), address_key="key")
    start: Start = run.planner_start(Peer(role)) if role == PLANNER else run.start_document(Peer(role, 1, 2))
    if isinstance(start, RunStart):
        start = replace(start, coordinator_pid=77)
    return replace(start, segments={"ring": SegmentHandle(3, writable=False)}, signal_fds={"worker.1": 4})


@pytest.mark.parametrize("role", [PLANNER, FEEDER, WORKER, COORDINATOR])
def test_a_start_document_is_the_same_on_the_other_side_in_the_run_folder_that_it_has_there(role: str) -> None:
    received = decode_start(document(role, Path("/proc/self/fd/7")).to_json(), Path("/proc/self/fd/9"))
    assert repr(received) == repr(document(role, Path("/proc/self/fd/9")))


@pytest.mark.parametrize("role", [FEEDER, WORKER])
def test_only_who_needs_the_whole_config_is_given_it(role: str) -> None:
    start = document(role, Path("/a"))
    assert not any(isinstance(value, Config) for value in vars(start).values())
    assert b"early_stopping" not in start.to_json()


def test_the_run_above_has_every_field_set() -> None:
    bare, run = run_plan(Path("/a")), full(Path("/b"))
    same = [field.name for field in fields(RunPlan) if getattr(bare, field.name) == getattr(run, field.name)]
    assert same == []


def test_what_has_no_form_names_its_type() -> None:
    with pytest.raises(TypeError, match="set has no form in a document"):
        to_json({"a": {1}})
