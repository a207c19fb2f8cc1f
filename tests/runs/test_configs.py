"""Every config that comes with the package can be trained: on the bundled sample, with small layers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pool.config import bundle
from pool.stages.recipe import is_recipe
from tests.support.paths import SAMPLE
from tests.support.runs import toml
from tests.support.warm import call_pool

STEPS = 20


def changes(name: str, tmp_path: Path) -> list[str]:
    """The smallest changes with which a config runs here and now: the sample, few steps, one worker."""
    tree: dict[str, Any] = tomllib.loads(bundle.read_text(name))
    sets = [f"run.dir={tmp_path / 'runs'}", 'pool.devices=["fake:0"]', "data.batch_size=256", "data.threads=1"]
    if tree["task"] != "clicks":
        sets += [f'data.train=["{SAMPLE / "train.binpack"}"]', "train.batches_per_step=1"]
        sets += [f'data.validation=["{SAMPLE / "validation.binpack"}"]', "data.validation_share=0"]
    if is_recipe(tree):
        return sets  # its stages count on from one another: `shortened`
    return [*sets, f"train.steps={STEPS}", "train.validate_every=10", "train.validation_batches=1"]


def shortened(text: str) -> str:
    """A recipe of billions of positions with a small network, 10 steps more in each stage, and no file beside the
    sample; others as they are."""
    tree: dict[str, Any] = tomllib.loads(text)
    if max(stage["train"]["steps"] for stage in tree["stage"]) < 1000:
        return text
    tree["stages"]["permute"] = [str(SAMPLE / "validation.binpack")]
    tree["model"]["l1"] = 16
    tree["train"] |= {"validate_every": 10, "validation_batches": 1, "keep_every": 0, "checkpoint_every": 10}
    for number, stage in enumerate(tree["stage"], 1):
        stage["train"]["steps"] = 10 * number
        for part in stage.get("loss", {}).get("lambda_parts", ())[:-1]:
            part["steps"] = 3
    return toml(tree)


@pytest.mark.parametrize("name", bundle.list_names())
def test_it_passes_the_check_and_trains(name: str, tmp_path: Path) -> None:
    config = tmp_path / f"{name}.toml"
    text = bundle.read_text(name)
    config.write_text(shortened(text) if is_recipe(tomllib.loads(text)) else text)
    options = [word for change in changes(name, tmp_path) for word in ("--set", change)]
    for command in ("check", "recipe" if is_recipe(tomllib.loads(text)) else "train"):
        done = call_pool(command, str(config), *options, timeout=280, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
