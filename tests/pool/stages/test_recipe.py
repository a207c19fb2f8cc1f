"""Recipes: what a stage's config is made of, and what is refused before anything begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pool.config.load import load_config
from pool.errors import ConfigError
from pool.stages.recipe import Recipe, is_recipe, parse_recipe
from tests.support.runs import toml

Tree = dict[str, Any]


def recipe(tree: Tree, *sets: str) -> Recipe:
    return parse_recipe(tree, sets, "x.toml")


def test_tables_are_merged_key_by_key_and_anything_else_is_replaced(tree: Tree) -> None:
    tree["optimizer"]["args"]["eps"] = 1e-7
    tree["stage"][1]["optimizer"] = {"args": {"lr": 2e-3}}
    tree["stage"][1]["data"] = {"train": [*tree["data"]["train"], *tree["data"]["validation"]]}
    first, second, third = recipe(tree).stages
    assert second.config.optimizer.args == {"lr": 2e-3, "eps": 1e-7}
    assert first.config.optimizer.args == third.config.optimizer.args == {"lr": 1e-3, "eps": 1e-7}
    assert [len(stage.config.data.train) for stage in (first, second, third)] == [1, 2, 1]
    assert [stage.config.train.steps for stage in (first, second, third)] == [10, 10, 20]


def test_a_class_of_schedule_takes_the_place_of_parts(tree: Tree) -> None:
    tree["schedule"] = {
        "parts": [{"steps": 5}, {"name": "torch.optim.lr_scheduler.ExponentialLR", "args": {"gamma": 0.9}}]
    }
    tree["stage"][1]["schedule"] = {"name": "torch.optim.lr_scheduler.StepLR", "args": {"step_size": 3}}
    tree["stage"][2]["start_from"] = "first"
    first, second, _ = recipe(tree).stages
    assert first.config.schedule.parts
    assert not second.config.schedule.parts
    assert second.config.schedule.args == {"step_size": 3}


def test_a_stage_starts_from_the_one_before_or_from_what_it_names(tree: Tree, tmp_path: Path) -> None:
    tree["stage"][2]["start_from"] = "first"
    first, second, third = recipe(tree).stages
    assert (first.parent, first.start) == (None, None)
    assert second.parent is first
    assert third.parent is first
    tree["stage"][2].update(start_from=str(tmp_path), start_with="weights")
    tree["stage"][1]["start_from"] = ""
    _, second, third = recipe(tree).stages
    assert (second.parent, second.start) == (None, None)
    assert (third.parent, third.start) == (None, str(tmp_path))


def test_the_first_stage_starts_from_what_the_config_says(tree: Tree) -> None:
    tree["model"]["start_from"] = "nets/a.nnue"
    first, second, _ = recipe(tree).stages
    assert first.start == "nets/a.nnue"
    assert second.start is None


def test_what_is_set_on_the_command_line_wins_in_all_stages_or_in_one(tree: Tree) -> None:
    stages = recipe(tree, "model.l1=64", "stage.third.train.steps=40").stages
    assert {stage.config.model.model_dump()["l1"] for stage in stages} == {64}
    assert [stage.config.train.steps for stage in stages] == [10, 10, 40]


def test_the_end_of_stages_is_set_on_the_command_line_for_all_or_for_one(tree: Tree) -> None:
    stages = recipe(tree, 'stages.test=["true"]', "stage.second.export=false", "stage.second.test=[]").stages
    assert [(stage.options.export, list(stage.options.test)) for stage in stages] == [
        (True, ["true"]),
        (False, []),
        (True, ["true"]),
    ]
    with pytest.raises(ConfigError, match=r"stages: permutes: unknown key.*did you mean permute"):
        recipe(tree, "stages.permutes=[]")
    with pytest.raises(ConfigError, match=r"x\.toml: stages: "):
        recipe({**tree, "stages": 1}, "stages.permute=[]")


def test_what_stages_says_holds_for_all_and_a_stage_may_say_otherwise(tree: Tree) -> None:
    tree["stage"][0]["export"] = False
    assert [stage.options.export for stage in recipe(tree).stages] == [False, True, True]


def without(key: str) -> Callable[[Tree], object]:
    return lambda tree: tree.pop(key)


def stage(number: int, **keys: Any) -> Callable[[Tree], object]:
    return lambda tree: tree["stage"][number].update(keys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("stage"), r"x\.toml: a recipe has one table \[\[stage\]\] or more"),
        (lambda tree: tree.update(stage=[]), "one table"),
        (lambda tree: tree.update(stage=[1]), "one table"),
        (stage(0, name="a/b"), r"stage 1: name: .*not \"a/b\""),
        (lambda tree: tree["stage"][0].pop("name"), "stage 1: name: is missing: each stage has one"),
        (stage(1, startwith="weights"), "stage 2: startwith: unknown key; a stage has .*did you mean start_with"),
        (stage(1, name="first"), "stage 2: name: there are two stages first"),
        (stage(1, steps=3), "stage 2: steps: unknown key; a stage has .*, and sections"),
        (stage(1, train={"stepz": 3}), r"stage 2 \(second\): train.stepz: unknown key"),
        (lambda tree: tree["stages"].update(exprot=True), "stages: exprot: unknown key.*did you mean export"),
        (stage(0, start_with="checkpoint"), 'start_with: "checkpoint" needs a stage, a run or a checkpoint'),
        (stage(2, train={"steps": 10}), "train.steps: 10 in all, and second has done 10"),
        (stage(2, optimizer={"name": "torch.optim.SGD"}), "optimizer.name: torch.optim.SGD, but the checkpoint of sec"),
        (
            stage(2, train={"steps": 30, "start_weights": "averaged"}),
            'start_weights: "averaged" goes with start_with = "weights"',
        ),
        (
            stage(1, start_from="", train={"start_weights": "averaged"}),
            'start_weights: "averaged" needs a stage, a run or a checkpoint to start from',
        ),
        (
            lambda tree: (stage(0, train={})(tree), stage(1, train={"start_weights": "averaged"})(tree)),
            'start_weights: "averaged", but first makes no average: set train.average there',
        ),
        (
            lambda tree: (
                stage(0, train={"average": {"kind": "swa", "start": 11}})(tree),
                stage(1, train={"start_weights": "averaged"})(tree),
            ),
            'start_weights: "averaged", but first makes no average',
        ),
        (stage(1, export=False, test=["true"]), r"\(second\): test: without export = true"),
        (stage(1, export=False, weights="newest"), r"\(second\): weights: without export = true"),
        (stage(1, weights="averaged"), r'\(second\): weights: "averaged", but the stage makes no average'),
        (stage(1, export=False, permute=["a"]), r"\(second\): permute: without export = true"),
        (stage(1, ensemble={"members": 2}), r"\(second\): export: of an ensemble"),
        (stage(1, run={"dir": "elsewhere"}), "run.dir: all stages lie in one folder"),
    ],
)
def test_what_can_not_be_a_recipe_is_one_line(tree: Tree, change: Callable[[Tree], object], message: str) -> None:
    change(tree)
    with pytest.raises(ConfigError, match=message) as error:
        recipe(tree)
    assert "\n" not in str(error.value)


def test_a_change_of_a_stage_that_is_not_there_names_those_that_are(tree: Tree) -> None:
    with pytest.raises(ConfigError, match=r"--set stage\.forth\.train\.steps: no such stage; there are first, second"):
        recipe(tree, "stage.forth.train.steps=3")


@pytest.mark.parametrize("change", ["stages=1", "stage=3", "stage.first=5"])
def test_a_change_of_too_few_parts_is_refused(tree: Tree, change: str) -> None:
    with pytest.raises(ConfigError, match=r"expected stage\.NAME\.KEY=VALUE or stages\.KEY=VALUE"):
        recipe(tree, change)


def test_a_recipe_is_no_config_of_one_run(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(toml({"task": "stockfish"}) + "[[stage]]\nname = 'a'\n")
    with pytest.raises(ConfigError, match=r"has \[\[stage\]\] tables: pool recipe trains it"):
        load_config(path)
    assert is_recipe({"stages": {}})
    assert not is_recipe({"train": {}})
