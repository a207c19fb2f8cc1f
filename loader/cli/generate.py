"""`loader generate`: training data by self-play of a UCI engine."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from loader.cli.engine_options import (
    DEFAULT_TIMEOUT,
    OPENING,
    PANEL,
    BookFile,
    Depth,
    EngineProgram,
    Nodes,
    Options,
    RandomPlies,
    Timeout,
    check_chess,
    parse_options,
    plies_of,
)
from loader.errors import UsageError

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

ENDING = "End of a game"
DEFAULT_NODES = 150


def register(app: typer.Typer) -> None:
    app.command(name="generate")(generate_file)


def generate_file(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.binpack", help="File to write.", show_default=False)
    ],
    engine: EngineProgram,
    positions: Annotated[
        int, typer.Option(min=1, max=10**15, metavar="N", help="Entries to write.", show_default=False)
    ],
    append: Annotated[bool, typer.Option("--append", help="Add to the end of FILE, if there is one.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed makes other games.")] = 0,
    engines: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Processes that play.")] = 1,
    nodes: Nodes = None,
    depth: Depth = None,
    option: Options = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    units_per_100cp: Annotated[
        int,
        typer.Option(
            min=1,
            max=10000,
            metavar="N",
            help="Score stored for 100 printed centipawns (Stockfish 15.1: 361).",
            rich_help_panel=PANEL,
        ),
    ] = 361,
    book: BookFile = None,
    random_plies: RandomPlies = None,
    opening_score: Annotated[
        int,
        typer.Option(min=0, max=32000, metavar="N", help="Openings beyond it are left out.", rich_help_panel=OPENING),
    ] = 1000,
    win_score: Annotated[
        int, typer.Option(min=1, max=32000, metavar="N", help="Won at it or beyond ...", rich_help_panel=ENDING)
    ] = 2500,
    win_plies: Annotated[
        int,
        typer.Option(
            min=0, max=1000, metavar="N", help="... so many plies in a row; 0: never.", rich_help_panel=ENDING
        ),
    ] = 4,
    draw_score: Annotated[
        int, typer.Option(min=0, max=32000, metavar="N", help="Drawn within it ...", rich_help_panel=ENDING)
    ] = 8,
    draw_plies: Annotated[
        int,
        typer.Option(
            min=0, max=1000, metavar="N", help="... so many plies in a row; 0: never ...", rich_help_panel=ENDING
        ),
    ] = 10,
    draw_from_ply: Annotated[
        int, typer.Option(min=0, max=16000, metavar="N", help="... and not before it.", rich_help_panel=ENDING)
    ] = 80,
    max_ply: Annotated[
        int,
        typer.Option(min=1, max=16000, metavar="N", help="Games that last longer are drawn.", rich_help_panel=ENDING),
    ] = 400,
) -> int:
    """Make a binpack file by self-play of a UCI engine.

    A game begins with a position of the book, or the start position, and random moves, which are not recorded. Then
    every position is stored with the engine's move, its score in internal units, ply and the game's result (score
    and result from the side to move's point of view; a mate in n plies scores 32000 - n). Games end by the rules or
    when the scores have settled them. Scores of the options below are in internal units.

    A search has 150 nodes unless --nodes or --depth say otherwise. The engine gets one thread and forgets everything
    between games, so the same engine, options and seed give the same file, for any number of --engines. A file that
    exists is never replaced. Unfinished work lies in FILE.part, which `loader inspect` reads, with FILE.part.journal;
    the same command goes on with it, after Ctrl-C, a crash or a power failure. A move without a score is played, and
    its position marked as without one (32002). An engine that crashes, does not answer or plays an illegal move is
    started again; if it fails in the same game once more, that game is dropped. Five dropped games in a row end the
    command.
    """
    check_chess("generate")
    from loader.chess.positions.format import BINPACK, target_of
    from loader.cli.position_progress import position_progress
    from loader.engines.engine import EngineSettings, Limits
    from loader.engines.game import GameSettings
    from loader.engines.generate import DROPPED, GAMES, POSITIONS, generate
    from loader.engines.selfplay_settings import GenerateSettings
    from loader.files.pipes import is_stream

    if is_stream(output):
        raise UsageError(f"{output}: is no file, and generate writes one, so that it can be gone on with: name it")
    try:
        target_of(output, BINPACK)
    except UsageError:
        raise UsageError(f"{output}: generate writes binpack: give NAME.binpack, and convert it then") from None
    limits = Limits(DEFAULT_NODES if nodes is None and depth is None else nodes, depth)
    game = GameSettings(limits, opening_score, win_score, win_plies, draw_score, draw_plies, draw_from_ply, max_ply)
    settings = GenerateSettings(
        EngineSettings(engine, parse_options(option or [], "--engines"), units_per_100cp, timeout),
        positions,
        seed,
        plies_of(random_plies, book),
        engines,
        append,
        book,
        game,
    )
    began = time.monotonic()
    with position_progress(positions) as report:
        made = generate(settings, output, report)
    seconds = time.monotonic() - began
    dropped = f", {made[DROPPED]:,} dropped" if made[DROPPED] else ""
    games = made[GAMES] - made[DROPPED]
    noun = "game" if games == 1 else "games"
    sys.stdout.write(f"{output}: {made[POSITIONS]:,} positions of {games:,} {noun}{dropped} in {seconds:.0f} s\n")
    return 0
