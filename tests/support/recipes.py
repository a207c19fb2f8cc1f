"""Recipes of several stages for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.runs import Ended, toml
from tests.support.warm import call_pool


def write(folder: Path, settings: Mapping[str, Any], stages: str) -> Path:
    """A file of a recipe whose runs lie in `folder`/runs."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "recipe.toml"
    config.write_text(toml({**settings, "run.dir": str(folder / "runs")}) + stages)
    return config


def train(config: Path, *options: str, code: int | None = 0, name: str = "recipe") -> str:
    """What `pool NAME` said; None: with whatever exit code."""
    done = call_pool(name, str(config), *options, timeout=280)
    assert code is None or done.returncode == code, done.stderr
    return done.stdout + done.stderr


def stage(runs: Path, name: str) -> Path:
    """The folder of a stage."""
    (found,) = runs.glob(f"{name}-????????????")
    return found


def digests(runs: Path) -> dict[str, str]:
    """Of weights and optimizer state of each stage, by name."""
    stages = sorted(runs.glob("*-????????????"))
    return {path.name.rpartition("-")[0]: Ended(path, 0, "", "").digest() for path in stages}
