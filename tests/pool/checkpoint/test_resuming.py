"""What a resumed run must have in common with the one that wrote its checkpoint."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from loader.exit_codes import EXIT_DATA
from loader.files.identity import identify
from loader.section import Effect, union_types
from loader.stream.interface import Cursor
from pool.checkpoint import store
from pool.checkpoint.state import OptimizerNumbers, describe_files
from pool.checkpoint.store import Checkpoint
from pool.config.key_path import walk_fields
from pool.config.load import parse_config
from pool.config.tree import Config, config_class
from pool.errors import ConfigError, RunError
from pool.exchange.plan import TensorSpec, build_plan
from pool.run_folder.strict_json import ABSENT, are_equal, find_changed_entry
from pool.supervisor.prepare.resume import compare_model, compare_optimizer, resume_point, saved_state
from pool.supervisor.resources.run_folder import RunFolder

STEP_LR = {"name": "torch.optim.lr_scheduler.StepLR", "every": 3, "args": {"step_size": 1, "gamma": 0.5}}
RECIPE: dict[str, Any] = {"optimizer": {"args": {"lr": 0.01}}, "schedule": STEP_LR}


def config(folder: Path, **sections: Any) -> Config:
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
    return store.save_checkpoint(
        tmp_path / "checkpoints",
        Checkpoint(
            step=7,
            cursor=Cursor(14, 0, 2, 3),
            config=config(tmp_path, **RECIPE).model_dump(mode="json"),
            fingerprint={},
            data=describe_files(identify(files)),
            weights={"w": torch.zeros(2)},
            optimizer_tensors={},
            optimizer=OptimizerNumbers(
                {"w": {}},
                [[{"lr": 0.0025, "initial_lr": 0.01}]],
                [{"step_size": 1, "gamma": 0.5, "last_epoch": 2}],
            ),
        ),
    )


def test_the_same_files_in_another_folder_go_on_where_the_run_was(
    tmp_path: Path, files: list[Path], checkpoint: Path
) -> None:
    moved = files[0].parent.rename(tmp_path / "elsewhere")
    assert resume_point(config(tmp_path, **RECIPE), checkpoint, identify(sorted(moved.iterdir()))) == (
        7,
        Cursor(14, 0, 2, 3),
    )


def test_other_files_are_refused_by_name_and_a_changed_one_by_size(
    tmp_path: Path, files: list[Path], checkpoint: Path
) -> None:
    for changed in (files[::-1], files[:1], [*files, files[0]]):
        with pytest.raises(ConfigError, match=r"data.train: .* a resumed run must take the same batches"):
            resume_point(config(tmp_path, **RECIPE), checkpoint, identify(changed))
    files[1].write_bytes(bytes(99))
    with pytest.raises(RunError, match=r"b.binpack: has changed: 99 bytes now, 4 when .* was written") as raised:
        resume_point(config(tmp_path, **RECIPE), checkpoint, identify(files))
    assert raised.value.exit_code == EXIT_DATA


FIXED = [
    (key, field)
    for key, field in walk_fields(config_class("tests.support.toy"))
    if Effect.of(field) is Effect.FIXED and key not in ("task", "schedule.parts", "ensemble.member")
]


CHOSEN: dict[str, Any] = {
    "optimizer.groups": [{"tensors": ["*bias"], "args": {}}],
    "data.chess.king_buckets": [0] * 64,
    "data.chess.output_buckets": "single",
    "data.chess.filters.where": "ply > 3",
    "data.chess.filters.keep_by_ply": [10.0, 0.5],
    "data.chess.filters.piece_count_curve": [0.0, 1.0, 2.0, 1.0, 0.0],
    "data.chess.filters.viriformat.wdl_model_params_a": [1.0, 2.0, 3.0, 4.0],
    "data.chess.filters.viriformat.wdl_model_params_b": [1.0, 2.0, 3.0, 4.0],
    "data.chess.filters.viriformat.material_count_probabilities": [0.5] * 33,
}


def another(key: str, value: Any, field: FieldInfo) -> Any:
    """A value that the key may have, and that is not this one."""
    if key in CHOSEN:
        return CHOSEN[key]
    for kind in union_types(field.annotation):
        if get_origin(kind) is Literal:
            return next(choice for choice in get_args(kind) if choice != value)
    if isinstance(value, bool):
        return not value
    if value is None and int in union_types(field.annotation):
        return 5
    if isinstance(value, float):
        return value + 0.25
    if isinstance(value, str | None):
        return "another"
    return value - 1 if any(getattr(limit, "le", None) == value for limit in field.metadata) else value + 1


@pytest.mark.parametrize(("key", "field"), FIXED, ids=[key for key, _ in FIXED])
def test_a_key_that_says_which_batches_train_which_model_is_kept(
    key: str, field: FieldInfo, tmp_path: Path, files: list[Path], checkpoint: Path
) -> None:
    given = config(tmp_path, **RECIPE).model_dump(mode="json")
    *sections, name = key.split(".")
    place = given
    for section in sections:
        place = place[section]
    if key == "data.source":
        before = place[name]
        given["data"] = {**{k: v for k, v in place.items() if k != before}, name: "synthetic"}
        place = given["data"]
    else:
        before, place[name] = place[name], another(key, place[name], field)
    now = place[name]
    if isinstance(now, list) and before and len(now) == len(before):  # the first number that differs is named
        key, now, before = f"{key}.0", now[0], before[0]
    with pytest.raises(ConfigError) as error:
        resume_point(parse_config(given, "test"), checkpoint, identify(files))
    assert str(error.value).startswith(
        f"{key}: {now} now, {before} in {checkpoint}; a resumed run keeps it: set it back"
    )


def test_parts_in_place_of_a_schedule_are_another_schedule(tmp_path: Path, files: list[Path], checkpoint: Path) -> None:
    part = {"name": STEP_LR["name"], "args": STEP_LR["args"]}
    given = config(tmp_path, **{**RECIPE, "schedule": {"every": 3, "parts": [part]}})
    with pytest.raises(ConfigError, match=r"^schedule\.(name|parts): .* a resumed run keeps it: set it back"):
        resume_point(given, checkpoint, identify(files))


def test_of_tables_in_a_list_the_one_that_differs_is_named() -> None:
    then, now = ([{"seed": 1}, {"loss": {"scale": scale}}] for scale in (1.0, 2.0))
    assert find_changed_entry("ensemble.member", now, then) == ("ensemble.member.1.loss.scale", 2.0, 1.0)
    assert find_changed_entry("ensemble.member", now, then[:1]) == ("ensemble.member", now, then[:1])


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc", max_size=3),
    lambda inner: st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(TREES, TREES)
def test_of_tables_that_differ_one_key_is_named(now: Any, then: Any) -> None:
    if are_equal(now, then):
        return
    key, new, old = find_changed_entry("model", now, then)
    assert not (isinstance(new, dict) and isinstance(old, dict))
    assert not are_equal(new, old) if ABSENT not in (new, old) else new is not old
    path = key.split(".")[1:]
    for tree, value in ((now, new), (then, old)):
        for name in path[:-1]:
            tree = tree[name]
        assert (tree.get(path[-1], ABSENT) if path else tree) is value


def test_another_task_is_refused(tmp_path: Path, files: list[Path], checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match=r"task: stockfish now, tests.support.toy in"):
        resume_point(config(tmp_path, task="stockfish"), checkpoint, identify(files))


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, []),
        (
            {"optimizer": {"args": {"lr": 0.5}}},
            [
                "optimizer.args.lr: 0.5 now, 0.01 then; in force is what {checkpoint} holds: 0.0025; "
                "--override optimizer.args.lr=... changes it"
            ],
        ),
        (
            {"optimizer": {"args": {"lr": 0.01, "depth": 3}}},
            ["optimizer.args.depth: 3 now, not set then; {checkpoint} holds no such number: the config's is in force"],
        ),
        (
            {"schedule": {**STEP_LR, "every": 7, "args": {"step_size": 1, "gamma": 0.9}}},
            [
                "schedule.args.gamma: 0.9 now, 0.5 then; in force is what {checkpoint} holds: 0.5; "
                "--override schedule.args.gamma=... changes it",
                "schedule.every: 7 now, 3 then; the config's is in force",
            ],
        ),
    ],
    ids=["the same", "another rate", "an argument without a number", "another schedule"],
)
def test_what_stays_in_force_is_said_from_the_checkpoints_own_state(
    changes: dict[str, Any], notes: list[str], tmp_path: Path, checkpoint: Path
) -> None:
    """The rate of 0.01 has been halved twice by the schedule."""
    changed = config(tmp_path, **{**RECIPE, **changes})
    folder = RunFolder(changed, resume=True)
    try:
        compare_optimizer(changed, checkpoint, saved_state(checkpoint), folder)
        assert folder.pop_notes() == [note.format(checkpoint=checkpoint) for note in notes]
    finally:
        folder.close()


def test_what_stays_in_force_may_be_another_number_for_each_member(tmp_path: Path, checkpoint: Path) -> None:
    changed = config(tmp_path, **{**RECIPE, "optimizer": {"args": {"lr": 0.5}}})
    saved = saved_state(checkpoint)
    assert saved.optimizer.groups is not None
    ((group, *_), *_) = saved.optimizer.groups
    groups = [[{**group, "lr": lr}] for lr in (0.25, 0.25, 0.125)]
    folder = RunFolder(changed, resume=True)
    try:
        compare_optimizer(
            changed, checkpoint, replace(saved, optimizer=replace(saved.optimizer, groups=groups)), folder
        )
        (note,) = folder.pop_notes()
        assert f"in force is what {checkpoint} holds: 0.25, 0.125; " in note
    finally:
        folder.close()


def test_nan_again_is_no_change(tmp_path: Path, checkpoint: Path) -> None:
    given = config(tmp_path, optimizer={"args": {"lr": 0.01, "limits": [0.0, math.nan]}}, schedule=STEP_LR)
    saved = replace(saved_state(checkpoint), config=json.loads(json.dumps(given.model_dump(mode="json"))))
    folder = RunFolder(given, resume=True)
    try:
        compare_optimizer(given, checkpoint, saved, folder)
        assert folder.pop_notes() == []
    finally:
        folder.close()


def test_another_model_is_refused_by_its_first_layer_that_differs(tmp_path: Path, checkpoint: Path) -> None:
    def run(*tensors: TensorSpec) -> Any:
        plan = build_plan(list(tensors), [], [1])
        given = config(tmp_path, model={"hidden": 4})
        return SimpleNamespace(config=given, planned=SimpleNamespace(plans=(plan,)))

    saved = saved_state(checkpoint)
    compare_model(run(TensorSpec("w", (2,), "float32", 4)), checkpoint, saved)
    for tensor, difference in (
        (TensorSpec("w", (4,), "float32", 4), "w: float32 4 in the config's model, float32 2 in the checkpoint"),
        (TensorSpec("w", (2,), "float16", 2), "w: float16 2 in the config's model, float32 2 in the checkpoint"),
        (TensorSpec("v", (2, 3), "float32", 4), "v: float32 2 x 3 in the config's model, not in the checkpoint"),
    ):
        with pytest.raises(ConfigError) as error:
            compare_model(run(tensor), checkpoint, saved)
        assert str(error.value) == (
            f"another model than that of {checkpoint}: {difference}; model.hidden: 4 now, 16 then"
        )
