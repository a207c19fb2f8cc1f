"""What a resumed run must have in common with the one that wrote its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from loader.files import identify
from pool.checkpoint import store
from pool.checkpoint.state import describe_files
from pool.checkpoint.store import Checkpoint
from pool.config import Config, parse_config
from pool.errors import EXIT_DATA, ConfigError, RunError
from pool.protocol.messages import CursorState
from pool.supervisor.resuming import compare_optimizer, resume_point
from pool.supervisor.run_folder import RunFolder


def config(folder: Path, **sections: dict[str, Any]) -> Config:
    return parse_config({"task": "tests.support.toy", "run": {"dir": str(folder / "run")}, **sections}, "test")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two training files; their content is nobody's concern here."""
    names = [tmp_path / "data" / name for name in ("a.binpack", "b.binpack")]
    names[0].parent.mkdir()
    for size, path in enumerate(names, 3):
        path.write_bytes(bytes(size))
    return names


@pytest.fixture
def checkpoint(tmp_path: Path, files: list[Path]) -> Path:
    """Of step 7 of a run with these files."""
    return store.save(
        tmp_path / "checkpoints",
        Checkpoint(
            step=7,
            cursor=CursorState(14, 0, 2, 3),
            config=config(tmp_path).model_dump(mode="json"),
            fingerprint={},
            data=describe_files(identify(files)),
            weights={"w": torch.zeros(2)},
            optimizer={},
            optimizer_plain={},
        ),
        keep=1,
    )


def test_the_same_files_in_another_folder_go_on_where_the_run_was(
    tmp_path: Path, files: list[Path], checkpoint: Path
) -> None:
    moved = files[0].parent.rename(tmp_path / "elsewhere")
    assert resume_point(config(tmp_path), checkpoint, identify(sorted(moved.iterdir()))) == (
        7,
        CursorState(14, 0, 2, 3),
    )


def test_other_files_are_refused_by_name_and_a_changed_one_by_size(
    tmp_path: Path, files: list[Path], checkpoint: Path
) -> None:
    for changed in (files[::-1], files[:1], [*files, files[0]]):
        with pytest.raises(ConfigError, match=r"data.train: .* a resumed run must take the same batches"):
            resume_point(config(tmp_path), checkpoint, identify(changed))
    files[1].write_bytes(bytes(99))
    with pytest.raises(RunError, match=r"b.binpack: has changed: 99 bytes now, 4 when .* was written") as raised:
        resume_point(config(tmp_path), checkpoint, identify(files))
    assert raised.value.exit_code == EXIT_DATA


def test_another_seed_is_refused(tmp_path: Path, files: list[Path], checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match=r"run.seed: 5 now, 42 in"):
        resume_point(config(tmp_path, run={"seed": 5}), checkpoint, identify(files))


def test_a_changed_learning_rate_is_said_to_have_no_effect(tmp_path: Path, checkpoint: Path) -> None:
    changed = config(tmp_path, optimizer={"args": {"lr": 0.5}})
    folder = RunFolder(changed, resume=True)
    try:
        compare_optimizer(config(tmp_path), checkpoint, folder)
        assert folder.take_notes() == []
        compare_optimizer(changed, checkpoint, folder)
        assert "optimizer: the config has changed" in folder.take_notes()[0]
    finally:
        folder.close()
