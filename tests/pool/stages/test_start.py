"""A stage that goes on from another's checkpoint: what its folder gets, whole or not at all."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from loader.stream.interface import Cursor
from pool.checkpoint.folder import list_checkpoints
from pool.checkpoint.state import FOLDER, read_state
from pool.config.load import parse_config
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.stages.start import copy_start_checkpoint
from tests.support.checkpoints import save
from tests.support.failing_calls import SHORT_WRITE, failing_call

TREE: dict[str, Any] = {"task": "tests.support.toy", "data": {"source": "synthetic", "batch_size": 64}}


def config(tmp_path: Path, **sections: Any) -> Any:
    return parse_config({**TREE, "run": {"dir": str(tmp_path / "stage")}, **sections}, "test")


def test_it_is_the_checkpoint_of_a_run_that_would_have_had_these_batches(tmp_path: Path) -> None:
    start = save(tmp_path / "before", TREE, step=7)
    own = config(tmp_path, train={"batches_per_step": 4, "steps": 20})
    copy_start_checkpoint(own, tmp_path / "before")
    (made,) = list_checkpoints(own.run_dir / FOLDER)
    state, before = read_state(made), read_state(start)
    assert state.cursor == Cursor(batch=28)
    assert state.config["train"]["batches_per_step"] == 4
    assert state.optimizer == before.optimizer
    assert state.config["model"]["start_from"] == str(start)
    for name in state.files:
        assert (made / name).read_bytes() == (start / name).read_bytes()


@pytest.mark.parametrize(
    "own",
    [
        {"optimizer": {"args": {"lr": 0.5}}},
        {"optimizer": {"groups": [{"tensors": ["*"], "args": {"lr": 0.5}}]}},
        {"schedule": {"name": "torch.optim.lr_scheduler.ExponentialLR", "args": {"gamma": 0.5}}},
        {"schedule": {"parts": [{}]}},
    ],
    ids=str,
)
def test_numbers_that_it_says_itself_are_made_anew(tmp_path: Path, own: dict[str, Any]) -> None:
    save(tmp_path / "before", TREE, step=7)
    stage = config(tmp_path, **own)
    copy_start_checkpoint(stage, tmp_path / "before")
    state = read_state(list_checkpoints(stage.run_dir / FOLDER)[0])
    assert (state.optimizer.groups, state.optimizer.schedulers) == (None, [])
    said = stage.model_dump(mode="json")
    assert (state.config["optimizer"], state.config["schedule"]) == (said["optimizer"], said["schedule"])


def test_a_checkpoint_with_as_many_steps_is_refused_before_it_is_put_there(tmp_path: Path) -> None:
    save(tmp_path / "before", TREE, step=7)
    own = config(tmp_path, train={"steps": 7})
    with pytest.raises(ConfigError, match=r"train\.steps: 7 in all, and .*step-000000007 has done 7; a stage"):
        copy_start_checkpoint(own, tmp_path / "before")
    assert not list_checkpoints(own.run_dir / FOLDER)


def test_a_folder_that_has_a_checkpoint_is_left_alone(tmp_path: Path) -> None:
    save(tmp_path / "before", TREE, step=7)
    own = save(tmp_path / "stage", TREE, step=9)
    copy_start_checkpoint(config(tmp_path), tmp_path / "before")
    assert list_checkpoints(tmp_path / "stage" / FOLDER) == [own]


def test_a_checkpoint_of_another_task_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "before", TREE)
    other = parse_config({"task": "stockfish", "run": {"dir": str(tmp_path / "stage")}}, "test")
    with pytest.raises(
        CheckpointError, match=r"start_from: a checkpoint of the task tests\.support\.toy, not of stockfi"
    ):
        copy_start_checkpoint(other, tmp_path / "before")
    assert not list_checkpoints(tmp_path / "stage" / FOLDER)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, SHORT_WRITE])
def test_whatever_fails_the_next_try_makes_the_same(tmp_path: Path, fault: int | str) -> None:
    save(tmp_path / "before", TREE, step=7)
    own, number = config(tmp_path), 0
    while True:
        number += 1
        with failing_call(number, fault) as calls, suppress(PoolError):
            copy_start_checkpoint(own, tmp_path / "before")
        assert all(read_state(there).step == 7 for there in list_checkpoints(own.run_dir / FOLDER))
        if not calls.failed:
            break
        copy_start_checkpoint(own, tmp_path / "before")
        assert [path.name for path in (own.run_dir / FOLDER).iterdir() if path.is_dir() and not path.is_symlink()] == [
            "step-000000007"
        ]
        for path in sorted(own.run_dir.rglob("*"), reverse=True):
            path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
    assert number > 20
