"""`loader filter` and `loader dedupe`: write files without some of their positions."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from loader.chess.cli.filter_options import FilterOptions, with_filter_options
from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import (
    BadData,
    Files,
    FilesOrPipes,
    Lossy,
    OnBadData,
    OutputFile,
    OutputOrPipe,
    To,
    choose_file_target,
    choose_target,
    open_output,
    parse_bad_data_policy,
    parse_memory,
    report_conversion,
    show_progress,
)
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.options import ALL_THREADS, Format, Seed, Threads

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def register(app: typer.Typer) -> None:
    app.command(name="filter")(filter_files)
    app.command(name="dedupe")(dedupe_files)


@with_filter_options
@with_pgn_options
def filter_files(
    files: FilesOrPipes,
    output: OutputOrPipe,
    filters: FilterOptions,
    seed: Seed = 0,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    mark: Annotated[
        bool, typer.Option("--mark", help="Write all positions; those that do not pass lose their score (32002).")
    ] = False,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write the positions of files that pass all filters that are given, in their order.

    The filters are those of training, [data.chess.filters], and leave the same out as its first epoch with the same
    files and seed. OUT can't be of a format of whole games, unless with --mark: chains and games stay whole then, and
    training leaves out what has no score. What EXPR may speak of, and which format has what a filter
    needs, is in docs/reference/configuration.md. OUT appears when it is complete and never replaces a file. A pipe
    gets the files' own format, or that of --to.
    """
    from loader.chess.filters import needed_parts
    from loader.chess.positions.format import refuse_games
    from loader.chess.positions.inputs import open_inputs
    from loader.chess.tools.filter import filter_positions, refuse_lacking

    config = filters.config()
    sources = open_inputs(
        files, input_format, needed=needed_parts(config), policy=parse_bad_data_policy(on_bad_data), comments=comments
    )
    file_or_pipe = open_output(output)
    target = choose_target(sources, file_or_pipe, to)
    if not mark:
        refuse_games(target.format)
    refuse_lacking(sources, config)
    report_conversion(sources, target.format, lossy=lossy)
    with show_progress(output.name, sources) as on_progress:
        result = filter_positions(sources, target, file_or_pipe, config, seed, threads, on_progress, marks=mark)
    messages = sys.stdout if isinstance(file_or_pipe, Path) else sys.stderr
    name = "standard output" if output == Path("-") else str(output)
    messages.write(f"{name}: {result}\n")


@with_pgn_options
def dedupe_files(
    files: Files,
    output: OutputFile,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory to use: 64MiB or more, of dense binpack files 128MiB.")
    ] = "1GiB",
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write each position of files once: the first in their order stays, with its score, move and result.

    Positions are the same if their pieces, side to move, castling rights and an en-passant square that a pawn can
    take on are; clocks and move numbers do not count. What memory does not hold is written to the disk, beside OUT, 32
    bytes a position. Neither --memory nor --threads changes a byte of OUT, which can't be of a format of whole games,
    appears when it is complete and never replaces a file.
    """
    from loader.chess.positions.format import refuse_games
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.dedupe import dedupe

    began = time.monotonic()
    max_bytes = parse_memory(memory)
    sources = open_sources(files, input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
    target = choose_file_target(output, to)
    refuse_games(target.format)
    report_conversion(sources, target.format, lossy=lossy)
    with show_progress(output.name, sources) as on_progress:
        result = dedupe(sources, target, output, max_bytes, threads, on_progress)
    sys.stdout.write(f"{output}: {result}, in {time.monotonic() - began:.0f} s\n")
