"""`loader convert`, `head`, `sample`, `count`: write or count positions of files, in their own format or another."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import (
    BadData,
    FilesOrPipes,
    Lossy,
    OnBadData,
    OptionalOutput,
    OutputOrPipe,
    To,
    choose_target,
    open_output,
    parse_bad_data_policy,
    report_conversion,
    show_progress,
)
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.options import ALL_THREADS, Format, Seed, Threads
from loader.command_line.json_line import json_line

if TYPE_CHECKING:
    from loader.chess.positions.format import Target
    from loader.files.pipes import OutputPipe

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Units = Annotated[
    int,
    typer.Option(
        "-n", "--units", min=1, max=10**12, metavar="N", help="Records, lines, games or chains.", show_default=True
    ),
]


def register(app: typer.Typer) -> None:
    app.command(name="convert")(convert_files)
    app.command(name="head")(head_files)
    app.command(name="sample")(sample_files)
    app.command(name="count")(count_files)


@with_pgn_options
def convert_files(
    files: FilesOrPipes,
    output: OutputOrPipe,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
    scale: Annotated[
        float,
        typer.Option("--scale", min=1e-3, max=1e3, metavar="X", help="Multiply scores by this.", show_default=False),
    ] = 1.0,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write all entries of files, one file after another, to one file of any format that can hold them.

    OUT's ending says the format: .binpack, .viri, .bf, .marlin, .psv, .txt, .montyvalue, .pgn, .plain; .zst or .gz
    behind it compresses. What OUT's format has no room for (moves, ply, castling rights, ...) is named, and refused
    without --lossy. An entry that it can't hold at all, as of Chess960 in binpack, ends the command with its place.
    Entries that follow one another become a game or a chain again where the format has them. Scores keep their units,
    unless --scale gives them others: rounded to nearest even, at most 32000 in size, no score stays none. Moves of PGN
    without a score are counted by the kind of comment.
    What single entries lack stays open where OUT's format can leave it open; else it is named with its count, and so is
    a half-move clock beyond the format's, which becomes the longest. What can't be read, and a position or move that no
    game can have, ends the command with its place; with --on-bad-data skip the game, line or record is left out, and
    how many were is said, with the first of them.

    OUT appears when it is complete and never replaces a file; the free space is checked first. The same files give the
    same bytes, with any --threads. A pipe gets the files' own format, or that of --to.
    """
    from loader.chess.positions.inputs import open_inputs
    from loader.chess.tools.convert import convert

    began = time.monotonic()
    sources = open_inputs(
        files, input_format, policy=parse_bad_data_policy(on_bad_data), scale=scale, comments=comments
    )
    file_or_pipe = open_output(output)
    target = choose_target(sources, file_or_pipe, to)
    report_conversion(sources, target.format, lossy=lossy, keeps_scores=scale == 1)
    with show_progress(output.name, sources) as on_progress:
        convert(sources, target, file_or_pipe, threads, on_progress)
    if isinstance(file_or_pipe, Path):
        sys.stdout.write(
            f"{output}: {target.format.name}, {output.stat().st_size:,} bytes in {time.monotonic() - began:.0f} s\n"
        )


def _print_summary(output: Path | OutputPipe, target: Target, positions: int) -> None:
    """Prints format and size of a written file, nothing for a pipe."""
    if isinstance(output, Path):
        sys.stdout.write(f"{output}: {target.format.name}, {positions:,} positions\n")


@with_pgn_options
def head_files(
    files: FilesOrPipes,
    output: OptionalOutput = None,
    units: Units = 10,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
) -> None:
    """Write the first records, lines, games or chains of files to standard output or a file."""
    from loader.chess.positions.inputs import open_inputs
    from loader.chess.tools.convert import read_first_units, write_units

    sources = open_inputs(files, input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
    file_or_pipe = open_output(output)
    target = choose_target(sources, file_or_pipe, to)
    report_conversion(sources, target.format, lossy=lossy)
    with show_progress("head", sources) as on_progress:
        written = write_units(read_first_units(sources, target.format, units, on_progress), target, file_or_pipe)
    _print_summary(file_or_pipe, target, written)


@with_pgn_options
def sample_files(
    files: FilesOrPipes,
    output: OptionalOutput = None,
    units: Units = 1000,
    seed: Seed = 0,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    to: To = None,
    lossy: Lossy = False,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write some of the records, lines, games or chains of files, each as likely as any other, in their order.

    They are held in memory. The same files, seed and number give the same bytes.
    """
    from loader.chess.positions.inputs import open_inputs
    from loader.chess.tools.convert import sample_units, write_units

    sources = open_inputs(files, input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
    file_or_pipe = open_output(output)
    target = choose_target(sources, file_or_pipe, to)
    report_conversion(sources, target.format, lossy=lossy)
    with show_progress("sample", sources) as on_progress:
        written = write_units(
            [sample_units(sources, target.format, units, seed, threads, on_progress)], target, file_or_pipe
        )
    _print_summary(file_or_pipe, target, written)


@with_pgn_options
def count_files(
    files: FilesOrPipes,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Count the positions of files, and their records, lines, games or chains. Everything is decoded."""
    from loader.chess.positions.input import read_source_units
    from loader.chess.positions.inputs import open_input
    from loader.files.pipes import resolve_input

    for file in [resolve_input(path) for path in files]:
        source = open_input(file, input_format, policy=parse_bad_data_policy(on_bad_data), comments=comments)
        entries = units = 0
        with show_progress(file.path.name, [source]) as on_progress:
            for block, done in read_source_units(source, source.format, threads):
                entries += int(block.entries.sum())
                units += len(block)
                on_progress(done, source.size)
        if as_json:
            counts = {
                "file": str(source.path),
                "format": source.format.name,
                "positions": entries,
                source.format.units: units,
            }
            sys.stdout.write(json_line(counts))
        else:
            in_units = f" in {units:,} {source.format.units}" if source.format.keeps_games else ""
            sys.stdout.write(f"{source.path}: {source.format.name}, {entries:,} positions{in_units}\n")
