"""A checkpoint is copied from another machine as a whole, or not at all."""

from __future__ import annotations

import filecmp
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from loader.stream.interface import Cursor
from pool.checkpoint.folder import list_checkpoints, step_path
from pool.checkpoint.state import OptimizerNumbers
from pool.checkpoint.store import Checkpoint, save_checkpoint
from pool.errors import CheckpointError
from pool.machines import checkpoint_copy
from pool.machines.checkpoint_copy import copy_checkpoint, read_block
from pool.protocol.messages import CheckpointRequest, CheckpointShard

STEP = 400


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Checkpoints, and a folder without."""
    monkeypatch.setattr(checkpoint_copy, "BLOCK_NBYTES", 1000)
    there, here = tmp_path / "there", tmp_path / "here"
    here.mkdir()
    save_checkpoint(
        there,
        Checkpoint(
            step=STEP,
            cursor=Cursor(1600),
            config={},
            fingerprint={},
            data=[],
            weights={"table": torch.arange(1000.0), "bias": torch.zeros(3)},
            optimizer_tensors={"table/exp_avg": torch.ones(1000)},
            optimizer=OptimizerNumbers({}, [], []),
        ),
    )
    return there, here


def asks(there: Path) -> Callable[[CheckpointRequest], tuple[CheckpointShard, memoryview]]:
    def ask(request: CheckpointRequest) -> tuple[CheckpointShard, memoryview]:
        piece, data = read_block(there, request)
        return piece, memoryview(data)

    return ask


def test_every_file_comes_whole(folders: tuple[Path, Path]) -> None:
    there, here = folders
    copy = copy_checkpoint(asks(there), here, STEP)
    source = step_path(there, STEP)
    names = sorted(path.name for path in source.iterdir())
    assert sorted(path.name for path in copy.iterdir()) == names
    assert filecmp.cmpfiles(source, copy, names, shallow=False)[0] == names


@pytest.mark.parametrize("count", range(1, 12, 2))
def test_a_copy_that_ends_too_early_leaves_nothing(count: int, folders: tuple[Path, Path]) -> None:
    there, here = folders
    left = count

    def ask(request: CheckpointRequest) -> tuple[CheckpointShard, memoryview]:
        nonlocal left
        left -= 1
        if left < 0:
            raise InterruptedError
        return asks(there)(request)

    with pytest.raises(InterruptedError):
        copy_checkpoint(ask, here, STEP)
    assert not list(here.iterdir())


def test_what_arrives_damaged_is_no_checkpoint(folders: tuple[Path, Path]) -> None:
    there, here = folders

    def ask(request: CheckpointRequest) -> tuple[CheckpointShard, memoryview]:
        piece, data = asks(there)(request)
        return piece, memoryview(bytes(data[:-1]) + b"!") if request.name == "weights.safetensors" else data

    with pytest.raises(CheckpointError, match=r"weights\.safetensors"):
        copy_checkpoint(ask, here, STEP)
    assert not list_checkpoints(here)


@pytest.mark.parametrize("name", ["../there/secret", "/etc/passwd", "optimizer", ""])
def test_only_files_of_a_checkpoint_are_given_out(name: str, folders: tuple[Path, Path]) -> None:
    there, _ = folders
    (there / "secret").write_text("x")
    piece, data = read_block(there, CheckpointRequest(STEP, name, 0))
    assert "no file of that name" in piece.refused
    assert not data


def test_a_checkpoint_that_is_gone_is_one_line(folders: tuple[Path, Path]) -> None:
    there, here = folders
    with pytest.raises(CheckpointError, match=r"the checkpoint of step 401 can't be copied: .*No such file"):
        copy_checkpoint(asks(there), here, STEP + 1)
    assert not list(here.iterdir())
