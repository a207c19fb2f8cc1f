"""What processes are told at their start, through the one converter and back."""

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
from pool.device.cards import Card
from pool.exchange.plan import TensorSpec, make_plan
from pool.metrics.layout import Measured
from pool.metrics.metric import Column
from pool.process.document import to_json
from pool.process.launch import Launch
from pool.process.plan_result import Planned
from pool.protocol.identity import COORDINATOR, WORKER, Peer
from pool.shm.segment import SegmentHandle
from tests.support.launches import launch

NO_UTF8 = Path(os.fsdecode(b"/data/\xff.binpack"))
FILES = (DataFile(NO_UTF8, 1 << 40, 2, (1 << 64) - 1, 1_700_000_000_123_456_789), DataFile(Path("/b"), 1, 2, 3, None))
SPECS = (TensorSpec("table", (64, 8), "float32", 4, "features"), TensorSpec("bias", (), "float32", 4))
PLANNED = Planned(
    schema=BatchSchema(8, (SparseField("features", 64, 4, 2),), (DenseField("score", "int16"),), num_buckets=3),
    plans=(make_plan(SPECS, [TensorSpec("buffer", (2, 3), "int64", 8)], [512], split_tables=True),),
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


def full(run_dir: Path) -> Launch:
    """No field is as in a launch that has not been planned."""
    return launch(
        run_dir,
        Peer(WORKER, 1, 2),
        coordinator=Peer(COORDINATOR, incarnation=3),
        coordinator_pid=77,
        train_files=FILES,
        validation_files=FILES[:1],
        segments={"ring": SegmentHandle(3, writable=False)},
        bells={"worker.1": 4},
        step=5,
        start=Cursor(1, 2, 3, 4),
        checkpoint=run_dir / "checkpoints/step-000000005",
        snapshot=1,
        saved=4,
        answer=PLANNED,
        overrides=(Override(3, "optimizer.args.lr", [0.5, {"a": inf}]),),
        only_check=True,
        start_from=NO_UTF8,
    )


def test_a_launch_is_the_same_on_the_other_side_in_the_run_folder_that_it_has_there() -> None:
    told = full(Path("/proc/self/fd/7"))
    told.planned.schema.regions  # noqa: B018  (what is computed from a field is not told)
    heard = Launch.from_json(told.to_json(), Path("/proc/self/fd/9"))
    assert repr(heard.config) == repr(told.config)
    expected = full(Path("/proc/self/fd/9"))
    assert replace(heard, config=expected.config, address_key=expected.address_key) == expected
    assert heard.address_key == told.address_key


def test_the_launch_above_has_every_field_set() -> None:
    bare, told = launch(Path("/a"), Peer(WORKER)), full(Path("/b"))
    same = [field.name for field in fields(Launch) if getattr(bare, field.name) == getattr(told, field.name)]
    assert same == []


def test_what_has_no_form_names_its_type() -> None:
    with pytest.raises(TypeError, match="set has no form in a document"):
        to_json({"a": {1}})
