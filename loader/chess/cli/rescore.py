"""`loader rescore`: gives the positions of files new scores, by searches of a UCI engine."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from loader.chess.cli.engine_options import (
    DEFAULT_TIMEOUT,
    Depth,
    EngineProgram,
    Nodes,
    Options,
    Timeout,
    UnitsPer100cp,
    choose_units_per_100cp,
    describe_scores,
    parse_options,
)
from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import Files, Lossy, OutputFile, To, choose_file_target, report_conversion
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.options import Format

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

DEFAULT_NODES = 5000


def register(app: typer.Typer) -> None:
    app.command(name="rescore")(rescore_files)


@with_pgn_options
def rescore_files(
    files: Files,
    output: OutputFile,
    engine: EngineProgram,
    nodes: Nodes = None,
    depth: Depth = None,
    threads: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="Engines at once, of one thread each; changes no byte.")
    ] = 1,
    option: Options = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    units_per_100cp: UnitsPer100cp = None,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    drop_unscored: Annotated[
        bool,
        typer.Option("--drop-unscored", help="Leave out positions that the engine gives no score, instead of marking."),
    ] = False,
) -> None:
    """Write files of positions anew, each position with the score that a UCI engine finds.

    Each position is searched in a new game by an engine with one thread (5000 nodes, unless --nodes or --depth say
    otherwise), so its score depends on nothing else: the same files, engine and options give the same bytes, with any
    --threads. Moves and results stay. A score is stored in units of OUT's format and from its view; a mate in n plies
    is 32000 - n, being mated in n plies -32000 + n, in every format. Entries marked as without a score (32002) stay
    marked.

    A position for which the engine prints no score or bounds alone, or at which it crashes or does not answer, again
    after a new start, gets 32002 or is left out (--drop-unscored). These are counted and listed at the end. An engine
    that fails at the start position, too, ends the command.

    OUT appears when it is complete and never replaces a file. The scores that are there lie in OUT.part, with
    OUT.part.journal; the same command goes on with them, after Ctrl-C, a crash or a power failure, also where the files
    have been changed: scores of positions that they still have are kept.
    """
    from loader.chess.cli.position_progress import position_progress
    from loader.chess.engines.engine import EngineSettings, Limits
    from loader.chess.engines.rescore import POSITIONS, UNSCORED, prepare, rescore
    from loader.chess.engines.rescore_settings import RescoreSettings
    from loader.chess.positions.input import open_sources
    from loader.cli.terminal import show_byte_progress

    sources = open_sources(files, input_format, comments=comments)
    target = choose_file_target(output, to)
    report_conversion(sources, target.format, lossy=lossy, keeps_scores=False)
    options = parse_options(option or [], "--threads")
    units = choose_units_per_100cp(target.format, units_per_100cp)
    limits = Limits(DEFAULT_NODES if nodes is None and depth is None else nodes, depth)
    settings = RescoreSettings(EngineSettings(engine, options, units, timeout), limits, threads, drop_unscored)
    began = time.monotonic()
    warnings: list[str] = []
    with show_byte_progress(f"checking {output.name}") as progress:
        num_positions = prepare(settings, sources, target, output, progress, warnings.append)
    with position_progress(num_positions) as report:
        for warning in warnings:
            report.notify(warning)
        state = rescore(settings, sources, num_positions, target, output, report)
    unscored = f", {state[UNSCORED]:,} without a score" if state.get(UNSCORED) else ""
    left_out = " (left out)" if unscored and drop_unscored else ""
    seconds = time.monotonic() - began
    sys.stdout.write(f"{output}: {state[POSITIONS]:,} positions{unscored}{left_out} in {seconds:.0f} s\n")
    sys.stdout.write(f"{describe_scores(target.format, settings.engine.units_per_100cp)}\n")
