"""`loader split` and `loader shuffle`: divide a file of positions in two, or write its units in a random order."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import (
    BadData,
    Files,
    Lossy,
    OnBadData,
    OutputFile,
    To,
    choose_file_target,
    parse_bad_data_policy,
    parse_memory,
    report_conversion,
    show_progress,
)
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.amounts import parse_share
from loader.cli.options import ALL_THREADS, Format, Seed, Threads
from loader.errors import UsageError

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def register(app: typer.Typer) -> None:
    app.command(name="split")(split_file)
    app.command(name="shuffle")(shuffle_files)


@with_pgn_options
def split_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of games.", show_default=False)],
    validation: Annotated[str, typer.Option(metavar="SHARE", help="Of the games: 2% or 0.02.", show_default=False)],
    seed: Seed = 0,
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where to write, not beside FILE.")] = None,
    by_record: Annotated[
        bool, typer.Option("--by-record", help="Allow files without games: then a game may be on both sides.")
    ] = False,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Split a file by games into NAME.train.ENDING and NAME.validation.ENDING, so that none has positions in both.

    Each game goes to the validation side with probability SHARE, by a draw that depends on the seed and the game's
    place in the file alone. Both keep the order and the bytes of games. Games that a file has in several parts (chains,
    in binpack) stay together as long as the parts follow one another: a part goes on with the one before it if its
    plies do and its result is the same. In a shuffled file nothing can say what is of one game.

    The files appear when both are complete and never replace others.
    """
    from loader.chess.positions.format import Target
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.split import split, split_paths

    share = parse_share(validation, "--validation")
    (source,) = open_sources([file], input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
    if not source.format.keeps_games and not by_record:
        raise UsageError(
            f"{file}: {source.format.name} does not say which positions are of a game; --by-record splits it "
            "nevertheless"
        )
    target = Target(source.format)
    train, validation_file = split_paths(file, into)
    paths = (_uncompressed_path(train), _uncompressed_path(validation_file))
    with show_progress(file.name, [source]) as on_progress:
        parts = split(source, target, paths, share, seed, threads, on_progress)
    for part in parts:
        sys.stdout.write(f"{part.path}: {part.entries:,} positions in {part.units:,} {source.format.units}\n")
    if source.format.keeps_games and sum(part.entries for part in parts) < 2 * sum(part.units for part in parts):
        sys.stderr.write(
            f"loader: {file}: most {source.format.units} have one position, as those of a shuffled file: positions of "
            "a game may be on both sides\n"
        )


@with_pgn_options
def shuffle_files(
    files: Files,
    output: OutputFile,
    seed: Seed = 0,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory to use, 64MiB or more.")] = "1GiB",
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write all records, lines, games or chains of files in a random order. Games stay whole.

    Every order is as likely as any other, over all files. The same files and seed give the same bytes, with any
    --memory and --threads. What memory does not hold is written to OUT.part first, with OUT.part.journal, which takes
    up to twice the space of OUT; the same command goes on with it, after Ctrl-C, a crash or a power failure.
    """
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.shuffle import shuffle

    began = time.monotonic()
    max_bytes = parse_memory(memory)
    sources = open_sources(files, input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
    target = choose_file_target(output, to)
    report_conversion(sources, target.format, lossy=lossy)
    with show_progress(output.name, sources) as on_progress:
        entries = shuffle(sources, target, output, seed, max_bytes, threads, on_progress)
    sys.stdout.write(f"{output}: {entries:,} positions in {time.monotonic() - began:.0f} s\n")


def _uncompressed_path(path: Path) -> Path:
    """Returns the path without the ending of a compressed file, because the two files of a split are not compressed."""
    from loader.files.compression import READABLE_ENDINGS

    return path.with_suffix("") if path.suffix in READABLE_ENDINGS[1:] else path
