"""`pool export`: which checkpoint is meant, what of it is believed, and that nothing it names is imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.folder import find_checkpoint
from pool.checkpoint.state import FOLDER, OptimizerNumbers
from pool.commands.main import main
from pool.config.load import parse_config
from pool.config.tree import Config
from pool.errors import CheckpointError, ConfigError, PoolError
from pool.export.export import export_checkpoint
from pool.export.member import Choice
from pool.task.factory import make_task
from tests.support.crafted import reseal
from tests.support.toy import LossConfig, ModelConfig, create_task

TASK = "tests.support.toy"


def save(folder: Path, step: int, **sections: Any) -> Path:
    """A checkpoint of a run in `folder`."""
    model = create_task(ModelConfig(), LossConfig()).build_model()
    return save_model(folder, parse_config({"task": TASK, **sections}, "test"), model, step)


def save_model(folder: Path, config: Config, model: nn.Module, step: int = 1) -> Path:
    """A checkpoint of a model in `folder`."""
    folder.mkdir(exist_ok=True)
    return store.save_checkpoint(
        folder / FOLDER,
        store.Checkpoint(
            step=step,
            cursor=Cursor(2 * step, 0, 0, 0),
            config=config.model_dump(mode="json"),
            fingerprint={},
            data=[],
            weights=model.state_dict(),
            optimizer_tensors={},
            optimizer=OptimizerNumbers({}, [], []),
        ),
    )


def test_a_runs_folder_means_its_newest_checkpoint(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first, second = save(run, 1), save(run, 2)
    for where in (run, run / FOLDER, run / FOLDER / "last", second):
        assert export_checkpoint(where, tmp_path / "net", "toy", TASK).checkpoint == second
    assert export_checkpoint(first, tmp_path / "net", "toy", TASK).checkpoint == first
    (run / FOLDER / "last").unlink()
    assert find_checkpoint(run) == second
    assert (tmp_path / "net").read_text().startswith("toy ")


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({}, "has no averaged weights: its run has no train.average.kind"),
        (
            {"train": {"average": {"kind": "swa", "start": 8}}},
            "has no averaged weights: it is of step 2, and the first that its run averages come later",
        ),
    ],
)
def test_a_checkpoint_without_averaged_weights_says_why(sections: dict[str, Any], why: str, tmp_path: Path) -> None:
    save(tmp_path / "run", 2, **sections)
    with pytest.raises(CheckpointError, match=why):
        export_checkpoint(tmp_path / "run", tmp_path / "net", "", TASK, Choice(averaged=True))


@pytest.mark.parametrize("target", ["..", "/etc", "../../other/checkpoints/step-000000001", "step-000000007"])
def test_a_link_that_leaves_its_folder_is_not_followed(target: str, tmp_path: Path) -> None:
    save(tmp_path / "other", 1)
    last = save(tmp_path / "run", 1).with_name("last")
    last.unlink()
    last.symlink_to(target)
    for where in (tmp_path / "run", last):
        with pytest.raises(CheckpointError, match=r"last: points to |is no checkpoint folder|there is no such folder"):
            find_checkpoint(where)


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: there is no such folder"):
        find_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("where", [".", "file", "run/logs"])
def test_what_is_no_checkpoint_is_said_to_be_none(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "run/logs").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=f"{where.strip('.')}.*: is no checkpoint folder: it has no state.json"):
        find_checkpoint(tmp_path / where)


def test_a_task_that_is_no_part_of_the_program_must_be_named_by_the_caller(tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "run", 1)
    with pytest.raises(ConfigError, match=rf"is the module {TASK}; .* only if you name it too: --task {TASK}"):
        export_checkpoint(checkpoint, tmp_path / "net", "", None)
    with pytest.raises(ConfigError, match=rf"--task stockfish: the task of .* is {TASK}"):
        export_checkpoint(checkpoint, tmp_path / "net", "", "stockfish")
    export_checkpoint(checkpoint, tmp_path / "net", "", TASK)


CANARY = "import pathlib\npathlib.Path(__file__).with_name('sung').touch()\n"
NAMES = ("task", "data/source", "data/features", "optimizer/name", "schedule/name")


@pytest.mark.parametrize(
    "arguments", [(), ("--task", "stockfish"), ("--task", TASK)], ids=["no task", "another", "its own"]
)
def test_no_module_that_a_checkpoint_names_is_imported(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = save(tmp_path / "run", 1)
    (tmp_path / "canary.py").write_text(CANARY)
    monkeypatch.syspath_prepend(tmp_path)  # it could be imported

    def change(tree: dict[str, Any]) -> None:
        for key in NAMES[1 if TASK in arguments else 0 :]:
            *path, last = key.split("/")
            section = tree["config"]
            for part in path:
                section = section[part]
            section[last] = "canary.sings" if key.endswith("name") else "canary"
        tree["config"]["data"]["source"] = "canary:sings"

    reseal(checkpoint, change)
    code = main(["export", str(checkpoint), "-o", str(tmp_path / "net"), *arguments])
    assert not (tmp_path / "sung").exists()
    assert code == (0 if TASK in arguments else 2)
    assert len(capsys.readouterr().err.splitlines()) == (0 if TASK in arguments else 1)


@pytest.mark.parametrize("task", ["stockfish", "perspective", "clicks"])
def test_others_may_read_a_network_where_the_users_umask_lets_them(task: str, tmp_path: Path) -> None:
    model = {"stockfish": {"l1": 32}, "perspective": {"width": 32}, "clicks": {"fields": {"user": 10}}}[task]
    source = {"source": "rows", "rows": {"fields": {"user": [0, 10]}}} if task == "clicks" else {}
    config = parse_config({"task": task, "model": model, "data": source}, "test")
    made = make_task(config.task, config.model, config.loss).build_model()
    save_model(tmp_path / "run", config, made)
    before = os.umask(0o027)
    try:
        export_checkpoint(tmp_path / "run", tmp_path / "net", None, None)
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("net*")} == {"0o640"}


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_a_regular_file_is_written(kind: str, tmp_path: Path) -> None:
    checkpoint, output = save(tmp_path / "run", 1), tmp_path / "net"
    if kind == "fifo":
        os.mkfifo(output)
    elif kind == "folder":
        output.mkdir()
    else:
        output = Path("/dev/null")
    with pytest.raises(PoolError, match=f"{output}: is (a folder|not a regular file)"):
        export_checkpoint(checkpoint, output, "", TASK)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ({"hidden": "wide"}, "state.json: config.model: hidden: input should be a valid integer"),
        ({"depth": 3}, "state.json: config.model: depth: extra inputs are not permitted"),
        (5, "state.json: config.model: the whole: input should be"),
        (
            {"hidden": -1},
            "the task can't build the model of its config: ValueError: num_features and out",
        ),
        ({"hidden": 32}, "table.weight: float32 1000 x 32 in the config's model, float32 1000 x 16 in the checkpoint"),
    ],
    ids=["type", "unknown", "no section", "range", "shape"],
)
def test_a_model_that_the_weights_are_not_of_is_refused(model: Any, complaint: str, tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "run", 1)
    reseal(checkpoint, lambda tree: tree["config"].update(model=model))
    with pytest.raises(CheckpointError) as error:
        export_checkpoint(checkpoint, tmp_path / "net", "", TASK)
    assert complaint in str(error.value)
    assert not (tmp_path / "net").exists()


def test_a_task_whose_units_have_no_order_to_change_says_so(tmp_path: Path) -> None:
    save(tmp_path / "run", 1)
    with pytest.raises(ConfigError, match=r"export: --permute: the task tests.support.toy can't change the order of"):
        export_checkpoint(tmp_path / "run", tmp_path / "net", "", TASK, permute=["x.binpack"])
    assert not (tmp_path / "net").exists()
