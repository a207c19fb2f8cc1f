"""`model.start_from`: another run's weights, for every task; the rest of the run is its own."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from pool.checkpoint.folder import step_path
from pool.checkpoint.state import FOLDER
from pool.config.load import parse_config
from pool.errors import CheckpointError, ConfigError
from pool.task.registry import load_task_module
from pool.task.start import check_member_starts, start_checkpoint, task_model_section
from tests.pool.export.test_export import save
from tests.support.refusals import refused
from tests.support.runs import TOY, run_well

NNUE, TOY_TASK = "stockfish", "tests.support.toy"


def start(task: str, path: Path | None) -> Path | None:
    model = parse_config({"task": task, "model": {} if path is None else {"start_from": str(path)}}, "test").model
    return start_checkpoint(model, load_task_module(task), task)


def test_a_folder_is_a_checkpoint_for_every_task_and_a_file_is_the_tasks(tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "run", 3)
    file = tmp_path / "a.nnue"
    file.touch()
    for task in (NNUE, TOY_TASK):
        assert start(task, None) is None
        assert start(task, checkpoint) == start(task, tmp_path / "run") == checkpoint
        with pytest.raises(CheckpointError, match="is no checkpoint folder"):
            start(task, tmp_path)
    assert start(NNUE, file) is None
    for given in (file, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"model.start_from: .* is no folder, and the task tests.support.toy can"):
            start(TOY_TASK, given)


def test_the_task_is_told_of_files_only(tmp_path: Path) -> None:
    folder = parse_config({"model": {"start_from": str(tmp_path)}}, "test").model
    file = parse_config({"model": {"start_from": "a.nnue"}}, "test").model
    assert getattr(task_model_section(folder), "start_from") is None  # noqa: B009
    assert getattr(task_model_section(file), "start_from") == "a.nnue"  # noqa: B009


def test_members_begin_with_one_folder_or_each_with_a_file_that_the_task_reads(tmp_path: Path) -> None:
    checkpoint, other = save(tmp_path / "run", 3), save(tmp_path / "other", 3)
    one, file = str(checkpoint), str(tmp_path / "a.nnue")
    (tmp_path / "a.nnue").touch()
    table: list[tuple[str, str | None, list[str | None], str]] = [
        (NNUE, None, [None, file], ""),
        (NNUE, one, [None, one], ""),
        (NNUE, None, [None, one], "ensemble.member.1.model.start_from: can't differ where it is a folder"),
        (NNUE, one, [file], "ensemble.member.0.model.start_from: can't differ where it is a folder"),
        (TOY_TASK, one, [None, str(other)], "ensemble.member.1.model.start_from: can't differ where it is a folder"),
        (TOY_TASK, None, [file], "ensemble.member.0.model.start_from: .* is no folder, and the task"),
    ]
    for task, of_run, of_members, said in table:
        own = [{} if path is None else {"model": {"start_from": path}} for path in of_members]
        model = {} if of_run is None else {"start_from": of_run}
        config = parse_config({"task": task, "model": model, "ensemble": {"member": own}}, "test")
        with pytest.raises(ConfigError, match=said) if said else nullcontext():
            check_member_starts(config.model, [member.model for member in config.members], load_task_module(task), task)


TUNED = {**TOY, "train.steps": 2, "data.batch_size": 32, "optimizer.name": "torch.optim.SGD", "optimizer.args.lr": 0.0}


@pytest.mark.runs
def test_a_run_starts_with_the_weights_and_nothing_else_of_another(tmp_path: Path) -> None:
    first = run_well(tmp_path / "first", {**TOY, "train.steps": 4})
    settings = {**TUNED, "model.start_from": str(first.dir)}
    tuned = run_well(tmp_path / "tuned", {**settings, "testing.crash_points": ["coordinator.after_publish@1=kill"]})
    assert f"starting with the weights of {step_path(first.dir / FOLDER, 4)}" in tuned.out
    before, after = first.weights(), tuned.weights()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    shutil.rmtree(first.dir)
    longer = run_well(tmp_path / "tuned", {**settings, "train.steps": 3}, "--resume")
    assert "starting with" not in longer.out


def test_another_model_is_refused_by_its_first_layer(tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "first", 1)
    error = refused(tmp_path / "run", {**TUNED, "model.start_from": str(checkpoint), "model.hidden": 8})
    assert error.exit_code == 2
    assert str(error) == (
        f"another model than that of {checkpoint}: table.weight: float32 1000 x 8 in the config's model, "
        "float32 1000 x 16 in the checkpoint; model.hidden: 8 now, 16 then"
    )
