"""Checkpoints that were written when the task was called nnue: they export, predict and resume under its name now."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from loader.files.identity import identify
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.state import FOLDER, OptimizerNumbers, describe_files, read_state
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.export.export import export_checkpoint
from pool.export.load import load_network
from pool.supervisor.prepare.resume import resume_point
from pool.task.factory import make_task
from pool.tasks.chess.networks.network_files import open_network
from tests.support.crafted import Tree, reseal
from tests.support.paths import ROOT

DATA = [ROOT / "configs/sample/validation.binpack"]
BATCHES = 2  # of a step


@pytest.fixture
def config(tmp_path: Path) -> Config:
    tree = {"task": "stockfish", "model": {"l1": 16}, "run": {"dir": str(tmp_path / "run")}}
    return parse_config({**tree, "data": {"train": [str(path) for path in DATA]}}, "test")


@pytest.fixture
def checkpoint(config: Config, tmp_path: Path) -> Path:
    """Of step 1; state.json has the task's old name, and only the keys of [model] that there were."""
    torch.manual_seed(0)
    step = store.Checkpoint(
        step=1,
        cursor=Cursor(BATCHES),
        config=config.model_dump(mode="json"),
        fingerprint={},
        data=describe_files(identify(DATA)),
        weights=make_task(config.task, config.model, config.loss).build_model().state_dict(),
        optimizer_tensors={},
        optimizer=OptimizerNumbers({}, [], []),
    )
    path = store.save_checkpoint(tmp_path / FOLDER, step)

    def as_it_was(tree: Tree) -> None:
        tree["config"]["task"] = "nnue"
        known = ("l1", "factorized", "shared_fc_0", "clip_weights", "kernels", "start_from")
        tree["config"]["model"] = {key: tree["config"]["model"][key] for key in known}

    reseal(path, as_it_was)
    return path


def test_a_checkpoint_of_the_old_name_is_exported_and_evaluated(checkpoint: Path, tmp_path: Path) -> None:
    assert read_state(checkpoint).config["task"] == load_network(checkpoint, None).name == "stockfish"
    export_checkpoint(checkpoint, tmp_path / "net.nnue", "", None)
    assert open_network(tmp_path / "net.nnue").inputs == open_network(checkpoint).inputs


def test_a_run_of_the_old_name_goes_on(config: Config, checkpoint: Path) -> None:
    assert resume_point(config, checkpoint, identify(DATA)) == (1, Cursor(BATCHES))
