"""Every config that comes with the package can be trained: on the bundled sample, with small layers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pool.config import bundle
from pool.stages.recipe import is_recipe
from tests.support.paths import SAMPLE
from tests.support.warm import call_pool

STEPS = 20


def changes(name: str, tmp_path: Path) -> list[str]:
    """The smallest changes with which a config runs here and now: the sample, few steps, one worker."""
    tree: dict[str, Any] = tomllib.loads(bundle.text(name))
    sets = [f"run.dir={tmp_path / 'runs'}", 'pool.devices=["fake:0"]', "data.batch_size=256", "data.threads=1"]
    if tree["task"] != "clicks":
        sets += [f'data.train=["{SAMPLE / "train.binpack"}"]', "train.batches_per_step=1"]
        sets += [f'data.validation=["{SAMPLE / "validation.binpack"}"]', "data.validation_share=0"]
    if is_recipe(tree):
        return sets  # its stages count on from one another
    return [*sets, f"train.steps={STEPS}", "train.validate_every=10", "train.validation_batches=1"]


@pytest.mark.parametrize("name", bundle.names())
def test_it_passes_the_check_and_trains(name: str, tmp_path: Path) -> None:
    config = tmp_path / f"{name}.toml"
    config.write_text(bundle.text(name))
    options = [word for change in changes(name, tmp_path) for word in ("--set", change)]
    for more in (["--check"], []):
        done = call_pool("train", str(config), *options, *more, timeout=280, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
