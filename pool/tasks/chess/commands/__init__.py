"""The commands for networks of chess engines."""

from __future__ import annotations

import typer

from pool.tasks.chess.commands.converting import convert
from pool.tasks.chess.commands.evaluating import eval_command
from pool.tasks.chess.commands.inspecting import inspect
from pool.tasks.chess.commands.validate import validate


def register(app: typer.Typer) -> None:
    app.command(name="eval")(eval_command)
    app.command(name="inspect")(inspect)
    app.command(name="convert")(convert)
    app.command(name="validate")(validate)
