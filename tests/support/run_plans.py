"""A run's plan as the supervisor knows it, for tests of what it and the processes do with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from loader.files.identity import DataFile
from loader.stream.interface import Cursor
from loader.stream.schema import BatchSchema, SparseField
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.exchange.plan import TensorSpec, build_plan
from pool.metrics.layout import NOTHING
from pool.process.plan_result import Planned
from pool.process.start import run_data
from pool.protocol.address import new_key
from pool.protocol.identity import COORDINATOR, Peer
from pool.supervisor.prepare.run_plan import RunPlan

TREE: dict[str, Any] = {
    "task": "tests.support.toy",
    "data": {"source": "synthetic", "batch_size": 64},
    "pool": {"devices": ["fake:0"]},
}


def planned(**changes: Any) -> Planned:
    """The answer of a planner; `changes`: fields that are others."""
    answer = Planned(
        schema=BatchSchema(8, (SparseField("features", 64, 4, 2),), ()),
        plans=(build_plan([TensorSpec("bias", (), "float32", 4)], [], [512]),),
        num_chunks={},
        devices=("fake:0",),
        device_names=("fake:0",),
        measured=NOTHING,
        state_nbytes=4,
        fingerprint={},
    )
    return replace(answer, **changes)


def run_plan(
    run_dir: Path,
    config: Config | None = None,
    train_files: tuple[DataFile, ...] = (),
    validation_files: tuple[DataFile, ...] = (),
    **changes: Any,
) -> RunPlan:
    """Makes the plan of a run that begins, of the toy task if there is no config; `changes`: fields that are others."""
    config = config or parse_config(TREE, "test")
    plan = RunPlan(
        config=config,
        run_dir=run_dir,
        address_key=new_key(),
        coordinator=Peer(COORDINATOR),
        data=run_data(config, train_files, validation_files),
        step=0,
        cursor=Cursor(0, 0, 0, 0),
        checkpoint=None,
        snapshot=None,
        saved=-1,
    )
    return replace(plan, **changes)
