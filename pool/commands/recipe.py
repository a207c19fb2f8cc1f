"""The command `pool recipe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import AllowDifferentNumerics, Overrides

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="recipe")(train_recipe)


def train_recipe(
    config: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="a config with [[stage]] tables")],
    overrides: Overrides = None,
    list_stages: Annotated[
        bool, typer.Option("--list", help="show the stages, what is done and what is to do; start nothing")
    ] = False,
    until: Annotated[str | None, typer.Option("--until", metavar="STAGE", help="end when this stage is done")] = None,
    rerun: Annotated[
        str | None,
        typer.Option(
            "--rerun",
            metavar="STAGE",
            help="train this stage, and those that follow from it, though they are done; what they left keeps another "
            "name",
        ),
    ] = None,
    allow_different_numerics: AllowDifferentNumerics = False,
) -> None:
    """Train a recipe, a config with [[stage]] tables, stage by stage.

    Each stage is a run in a folder of run.dir that is named by all its result depends on. Given again, the command goes
    on with what is not done. `pool check RECIPE.toml` looks at all stages before. Exit codes are those of pool train.
    Example: pool configs stages -o stages.toml, then pool recipe stages.toml
    """
    from pool.commands.tables import print_table
    from pool.config.load import read_toml
    from pool.stages.recipe import parse_recipe
    from pool.stages.train import stage_table, train_stages
    from pool.supervisor.summary import format_command

    recipe = parse_recipe(read_toml(config), overrides or (), str(config))
    if list_stages:
        print_table(stage_table(recipe), left="stage")
        return
    arguments = ["recipe", str(config)]
    for change in overrides or ():
        arguments += ["--set", change]
    if until is not None:
        arguments += ["--until", until]
    code = train_stages(
        recipe,
        until=until,
        rerun=rerun,
        allow_different_numerics=allow_different_numerics,
        again=lambda _: format_command(*arguments),
    )
    raise typer.Exit(code)
