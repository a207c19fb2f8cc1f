"""Options of the commands that run a UCI engine."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.errors import UsageError

if TYPE_CHECKING:
    from loader.chess.positions.format import PositionFormat

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

PANEL = "Engine"
OPENING = "Opening"
DEFAULT_TIMEOUT = 60.0
DEFAULT_PLIES = 8

EngineProgram = Annotated[
    str, typer.Option("--engine", metavar="PATH", help="A UCI engine.", show_default=False, rich_help_panel=PANEL)
]
Nodes = Annotated[
    int | None,
    typer.Option("--nodes", min=1, max=10**12, metavar="N", help="Nodes of each search.", rich_help_panel=PANEL),
]
Depth = Annotated[
    int | None,
    typer.Option("--depth", min=1, max=245, metavar="N", help="Depth of each search.", rich_help_panel=PANEL),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of the engine, as EvalFile. Any number.",
        rich_help_panel=PANEL,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        max=86400,
        metavar="S",
        help="Seconds for each answer of an engine.",
        rich_help_panel=PANEL,
    ),
]
UnitsPer100cp = Annotated[
    int | None,
    typer.Option(
        "--units-per-100cp",
        min=1,
        max=10000,
        metavar="N",
        help="Score stored for 100 printed centipawns (100; of binpack, packedsfen, plain 361, Stockfish 15.1's).",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
BookFile = Annotated[
    Path | None,
    typer.Option("--book", metavar="FILE", help="Positions to begin with: EPD, FEN or PGN.", rich_help_panel=OPENING),
]
RandomPlies = Annotated[
    int | None,
    typer.Option(
        "--random-plies",
        min=0,
        max=40,
        metavar="N",
        help=f"Random plies a game begins with ({DEFAULT_PLIES}; after a book's position 0).",
        rich_help_panel=OPENING,
    ),
]


def check_chess(command: str) -> None:
    """Checks that python-chess is installed, which `command` needs for the rules of chess. Raises UsageError."""
    if importlib.util.find_spec("chess") is None:
        raise UsageError(f"loader {command} needs python-chess: pip install 'sparsepool[generate]'")


def choose_random_plies(random_plies: int | None, book: Path | None) -> int:
    """Returns the number of random plies at the beginning of a game: that of --random-plies, else 0 with an opening
    book and DEFAULT_PLIES without."""
    if random_plies is not None:
        return random_plies
    return DEFAULT_PLIES if book is None else 0


def choose_units_per_100cp(format: PositionFormat, units_per_100cp: int | None) -> int:
    """Returns the number that is stored for a score of 100 centipawns: that of --units-per-100cp, else that of the
    format's usual unit."""
    from loader.chess.engines.engine import UNITS_PER_100CP

    if units_per_100cp is not None:
        return units_per_100cp
    return 100 if format.in_centipawns else UNITS_PER_100CP


def describe_scores(format: PositionFormat, units_per_100cp: int) -> str:
    """Describes the unit of the scores in a written file. If it is not the usual one of the format, also says which
    setting training needs."""
    if units_per_100cp == choose_units_per_100cp(format, None):
        unit = format.score_unit
    elif units_per_100cp == 100:
        unit = "centipawns"
    else:
        unit = "a unit of their own"
    line = f"scores: {unit}, {units_per_100cp} for 100 centipawns of the engine"
    if unit == format.score_unit:
        return line
    setting = '; {files = "...", score_unit = "centipawns"} says so in data.train' if unit == "centipawns" else ""
    return f"{line}; usual in {format.name} are {format.score_unit}{setting}"


def parse_options(texts: list[str], engines_option: str) -> tuple[tuple[str, str], ...]:
    """Splits values of --option into names and values.

    Raises BadParameter for a text without a name, for an option given twice, and for Threads other than 1, because a
    search gives the same result each time only with one thread. `engines_option` is the option for the number of
    engines, for the message.
    """
    from loader.chess.engines.uci import parse_setting

    try:
        settings = tuple(parse_setting(text) for text in texts)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--option") from None
    names = [name.lower() for name, _ in settings]
    for name, _ in settings:
        if names.count(name.lower()) > 1:
            raise typer.BadParameter(f"{name} is given twice", param_hint="--option")
    for name, value in settings:
        if name.lower() == "threads" and value != "1":
            raise typer.BadParameter(f"an engine has one thread; more engines: {engines_option}", param_hint="--option")
    return settings
