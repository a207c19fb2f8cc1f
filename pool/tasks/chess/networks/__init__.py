"""The commands that inspect and use networks of chess engines, whatever task they are of."""

from __future__ import annotations

import typer

from pool.tasks.chess.networks.convert import convert
from pool.tasks.chess.networks.eval import eval_command
from pool.tasks.chess.networks.inspect import inspect
from pool.tasks.chess.networks.rescore import rescore
from pool.tasks.chess.networks.validate import validate


def register(app: typer.Typer) -> None:
    app.command(name="eval")(eval_command)
    app.command(name="inspect")(inspect)
    app.command(name="convert")(convert)
    app.command(name="validate")(validate)
    app.command(name="rescore")(rescore)
