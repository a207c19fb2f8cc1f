"""`loader generate`: makes training data by self-play of a UCI engine."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from loader.chess.cli.engine_options import (
    DEFAULT_TIMEOUT,
    OPENING,
    BookFile,
    Depth,
    EngineProgram,
    Nodes,
    Options,
    RandomPlies,
    Timeout,
    UnitsPer100cp,
    check_chess,
    choose_random_plies,
    choose_units_per_100cp,
    describe_scores,
    parse_options,
)
from loader.errors import UsageError

if TYPE_CHECKING:
    from loader.chess.engines.opening import Variant
    from loader.chess.positions.format import PositionFormat

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

ENDING = "End of a game"
DEFAULT_NODES = 150


def register(app: typer.Typer) -> None:
    app.command(name="generate")(generate_file)


def generate_file(
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE", help="File to write; its ending says the format.", show_default=False
        ),
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
    units_per_100cp: UnitsPer100cp = None,
    variant: Annotated[
        Literal["chess", "chess960", "dfrc"],
        typer.Option(
            help="What games without a book begin with: chess960 arranges pieces at random, dfrc those of each side.",
            rich_help_panel=OPENING,
        ),
    ] = "chess",
    book: BookFile = None,
    random_plies: RandomPlies = None,
    opening_score: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=32000,
            metavar="N",
            help="Openings beyond it are left out (1000; of centipawns 277).",
            rich_help_panel=OPENING,
        ),
    ] = None,
    win_score: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=32000,
            metavar="N",
            help="Won at it or beyond (2500; of centipawns 693) ...",
            rich_help_panel=ENDING,
        ),
    ] = None,
    win_plies: Annotated[
        int,
        typer.Option(
            min=0, max=1000, metavar="N", help="... so many plies in a row; 0: never.", rich_help_panel=ENDING
        ),
    ] = 4,
    draw_score: Annotated[
        int | None,
        typer.Option(
            min=0, max=32000, metavar="N", help="Drawn within it (8; of centipawns 2) ...", rich_help_panel=ENDING
        ),
    ] = None,
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
    """Make a file of positions by self-play of a UCI engine: binpack, or another format that has whole games.

    A game begins with a position of the book, or the start position, and random moves, which are not recorded. Then
    every position is stored with the engine's move, its score in units of the file, ply and the game's result (score
    and result from the side to move's point of view; a mate in n plies scores 32000 - n). Games end by the rules or
    when the scores have settled them. Scores of the options below are in units of the file.

    A search has 150 nodes unless --nodes or --depth say otherwise. The engine gets one thread and forgets everything
    between games, so the same engine, options and seed give the same file, for any number of --engines. A file that
    exists is never replaced. Unfinished work lies in FILE.part, which `loader inspect` reads, with FILE.part.journal;
    the same command goes on with it, after Ctrl-C, a crash or a power failure. A move without a score is played, and
    its position marked as without one (32002). An engine that crashes, does not answer or plays an illegal move is
    started again; if it fails in the same game once more, that game is dropped. Five dropped games in a row end the
    command.
    """
    check_chess("generate")
    from loader.chess.cli.position_progress import position_progress
    from loader.chess.engines.engine import EngineSettings, Limits
    from loader.chess.engines.game import GameSettings
    from loader.chess.engines.generate import DROPPED, GAMES, POSITIONS, generate
    from loader.chess.engines.opening import Variant
    from loader.chess.engines.selfplay_settings import SCORES, SCORES_IN_CENTIPAWNS, GenerateSettings
    from loader.files.pipes import is_stream

    if is_stream(output):
        raise UsageError(f"{output}: is no file, and generate writes one, so that it can be gone on with: name it")
    rules = Variant(variant)
    format = _choose_format(output, rules)
    usual_opening, usual_win, usual_draw = SCORES_IN_CENTIPAWNS if format.in_centipawns else SCORES
    opening = usual_opening if opening_score is None else opening_score
    win = usual_win if win_score is None else win_score
    draw = usual_draw if draw_score is None else draw_score
    options = parse_options(option or [], "--engines")
    if rules.shows_rooks and "uci_chess960" not in [name.lower() for name, _ in options]:
        options = (*options, ("UCI_Chess960", "true"))
    limits = Limits(DEFAULT_NODES if nodes is None and depth is None else nodes, depth)
    game = GameSettings(limits, opening, win, win_plies, draw, draw_plies, draw_from_ply, max_ply)
    settings = GenerateSettings(
        EngineSettings(engine, options, choose_units_per_100cp(format, units_per_100cp), timeout),
        positions,
        seed,
        choose_random_plies(random_plies, book),
        engines,
        append,
        book,
        game,
        rules,
        format.name,
    )
    began = time.monotonic()
    with position_progress(positions) as report:
        state = generate(settings, output, report)
    seconds = time.monotonic() - began
    dropped = f", {state[DROPPED]:,} dropped" if state[DROPPED] else ""
    games = state[GAMES] - state[DROPPED]
    noun = "game" if games == 1 else "games"
    sys.stdout.write(f"{output}: {state[POSITIONS]:,} positions of {games:,} {noun}{dropped} in {seconds:.0f} s\n")
    sys.stdout.write(f"{describe_scores(format, settings.engine.units_per_100cp)}\n")
    return 0


def _choose_format(output: Path, variant: Variant) -> PositionFormat:
    """Determines the format of the output by its name. A name without an ending means binpack. Raises UsageError for a
    compressed file, and for a format that can't store all parts of a game."""
    from loader.chess.filters import CHESS960
    from loader.chess.positions.format import BINPACK, named_format, target_from_name, written_formats

    optional_parts = set() if variant.shows_rooks else {CHESS960}
    able = [name for name in written_formats() if optional_parts.issuperset(named_format(name).lacks)]
    with contextlib.suppress(UsageError):
        target = target_from_name(output, None if output.suffix else BINPACK)
        if target.packing is None and target.format.name in able:
            return target.format
    games = "games" if variant is variant.CHESS else f"games of {variant}"
    raise UsageError(f"{output}: generate writes {games} as {', '.join(able)}: give such a name, and convert it then")
