"""`loader split`, `shuffle`, `interleave`: files of positions put in another order."""

from __future__ import annotations

import sys
import time
from fractions import Fraction
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
    file_target,
    memory_of,
    prepared,
    rule_of,
    working,
)
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.amounts import exact_number, share_of
from loader.cli.options import ALL_THREADS, Format, Seed, Threads
from loader.errors import UsageError

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

_LARGEST_SHARE = 10**6


def register(app: typer.Typer) -> None:
    app.command(name="split")(split_file)
    app.command(name="shuffle")(shuffle_files)
    app.command(name="interleave")(interleave_files)


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

    The files appear when both are complete and never replace others. What is done lies beside them, in .part and
    .part.journal; the same command goes on with it, after Ctrl-C, a crash or a power failure.
    """
    from loader.chess.positions.format import Target
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.split import part_paths, split

    share = share_of(validation, "--validation")
    (source,) = open_sources([file], input_format, rule=rule_of(on_bad_data), comments=comments)
    if not source.format.keeps_games and not by_record:
        raise UsageError(
            f"{file}: {source.format.name} does not say which positions are of a game; --by-record splits it "
            "nevertheless"
        )
    target = Target(source.format)
    paths = part_paths(file, into)
    paths = (_plain(paths[0]), _plain(paths[1]))
    with working(file.name, [source]) as tick:
        parts = split(source, target, paths, share, seed, threads, tick)
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
    --memory and --threads. What memory does not hold is written to OUT.buckets.part first, which takes up to twice
    the space of OUT; the same command goes on with it, after Ctrl-C, a crash or a power failure.
    """
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.shuffle import shuffle

    began = time.monotonic()
    allowed = memory_of(memory)
    sources = open_sources(files, input_format, rule=rule_of(on_bad_data), comments=comments)
    target = file_target(output, to)
    prepared(sources, target.format, lossy=lossy)
    with working(output.name, sources) as tick:
        entries = shuffle(sources, target, output, seed, allowed, threads, tick)
    sys.stdout.write(f"{output}: {entries:,} positions in {time.monotonic() - began:.0f} s\n")


@with_pgn_options
def interleave_files(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE=SHARE", help="Files, each with its share of the positions.", show_default=False),
    ],
    output: OutputFile,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Mix files in a ratio of positions: at any place of OUT it is that of the shares, to within a game.

    Each file keeps its order; nothing is drawn. OUT ends with the first file that does, and what is left of the others
    is said: shares in the ratio of the files' positions (`loader count`) use all up at once. What is done lies in
    OUT.part; the same command goes on with it.
    """
    from loader.chess.positions.input import open_sources
    from loader.chess.tools.interleave import interleave

    paths, shares = zip(*(_file_and_share(each) for each in files), strict=True)
    sources = open_sources(paths, input_format, rule=rule_of(on_bad_data), comments=comments)
    target = file_target(output, to)
    prepared(sources, target.format, lossy=lossy)
    with working(output.name, sources) as tick:
        taken = interleave(sources, shares, target, output, threads, tick)
    for each in taken:
        sys.stdout.write(
            f"{each.path}: {each.positions:,} positions{', all' if each.whole else ', the rest is left'}\n"
        )


def _plain(path: Path) -> Path:
    """Parts are not compressed."""
    from loader.files.compression import READ_ENDINGS

    return path.with_suffix("") if path.suffix in READ_ENDINGS[1:] else path


def _file_and_share(text: str) -> tuple[Path, Fraction]:
    name, _, text_of_share = text.rpartition("=")
    share = exact_number(text_of_share)
    if not name or share is None or not 0 < share <= _LARGEST_SHARE or share.denominator > _LARGEST_SHARE:
        raise UsageError(
            f"{text!r}: give FILE=SHARE, as a.binpack=3: a share is a number above 0, up to {_LARGEST_SHARE:,}, of six "
            "decimals at most"
        )
    return Path(name), share
