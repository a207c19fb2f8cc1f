"""Command-line options for the meaning of scores in comments of PGN, the keys of [data.chess.pgn]. A command gets them
in one parameter `comments`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from loader.chess.positions.pgn_comments import PgnComments
from loader.cli.option_group import with_options
from loader.formats.file_tools import Options


class View(StrEnum):
    MOVER = "mover"
    WHITE = "white"


class Unit(StrEnum):
    PAWNS = "pawns"
    CENTIPAWNS = "centipawns"


OPTIONS: Options = {
    "pgn_view": (
        Annotated[
            View | None,
            typer.Option("--pgn-view", metavar="VIEW", help="Whose scores comments of PGN have: mover or white."),
        ],
        None,
    ),
    "pgn_unit": (
        Annotated[
            Unit | None,
            typer.Option("--pgn-unit", metavar="UNIT", help="What whole numbers in PGN are: pawns or centipawns."),
        ],
        None,
    ),
}


def with_pgn_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command: gives it the options of OPTIONS, and passes their values as PgnComments in its parameter
    `comments`."""
    return with_options(command, "comments", {"comments": OPTIONS}, comments_of)


def comments_of(pgn_view: View | None, pgn_unit: Unit | None) -> PgnComments:
    """Returns the settings for comments that the options stand for."""
    return PgnComments(None if pgn_view is None else pgn_view.value, None if pgn_unit is None else pgn_unit.value)
