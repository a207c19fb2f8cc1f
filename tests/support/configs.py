"""Configs as files have them: of one run, or of the stages of a recipe."""

from __future__ import annotations

import tomllib

from pool.config.load import parse_config
from pool.config.tree import Config
from pool.stages.recipe import is_recipe, parse_recipe


def configs_in(text: str, name: str) -> list[Config]:
    """The configs of all runs that a file describes. Raises ConfigError."""
    tree = tomllib.loads(text)
    if is_recipe(tree):
        return [stage.config for stage in parse_recipe(tree, (), name).stages]
    return [parse_config(tree, name)]
