"""`loader convert`, `cat`, `head`, `sample`, `count`: files of positions taken as they are, or into another format."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from loader.commands.tool_options import (
    ALL_THREADS,
    Files,
    Lossy,
    OptionalOutput,
    OutputFile,
    Seed,
    Threads,
    To,
    prepared,
    target_for,
    working,
)

Units = Annotated[
    int,
    typer.Option(
        "-n", "--units", min=1, max=10**12, metavar="N", help="Records, lines, games or chains.", show_default=True
    ),
]


def register(app: typer.Typer) -> None:
    app.command(name="convert")(convert_files)
    app.command(name="cat")(cat_files)
    app.command(name="head")(head_files)
    app.command(name="sample")(sample_files)
    app.command(name="count")(count_files)


def convert_files(
    files: Files, output: OutputFile, to: To = None, lossy: Lossy = False, threads: Threads = ALL_THREADS
) -> None:
    """Write all entries of files, one file after another, to one file of any format that can hold them.

    OUT's ending says the format: .binpack, .viri, .bf, .marlin, .psv, .txt, .montyvalue; .zst or .gz behind it
    compresses (not binpack). What OUT's format has no room for (moves, ply, castling rights, ...) is named, and refused
    without --lossy. An entry that it can't hold at all, as of Chess960 in binpack, ends the command with its place.
    Entries that follow one another become a game or a chain again where the format has them. Scores keep their units.

    OUT appears when it is complete and never replaces a file; the free space is checked first.
    """
    from loader.chess.tools.convert import convert
    from loader.chess.tools.source import open_sources

    began = time.monotonic()
    sources = open_sources(files)
    target = target_for(sources, output, to)
    prepared(sources, target.kind, lossy=lossy)
    with working(output.name) as tick:
        convert(sources, target, output, threads, tick)
    sys.stdout.write(
        f"{output}: {target.kind.name}, {output.stat().st_size:,} bytes in {time.monotonic() - began:.0f} s\n"
    )


def cat_files(
    files: Files,
    output: OptionalOutput = None,
    to: To = None,
    lossy: Lossy = False,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write files one after another, decompressed, to standard output or a file.

    As convert, but for pipes: without -o the format is that of the files. Damage ends it with file and offset.
    """
    from loader.chess.tools.convert import write_units
    from loader.chess.tools.source import all_units, open_sources

    sources = open_sources(files)
    target = target_for(sources, output, to)
    prepared(sources, target.kind, lossy=lossy)
    with working("cat") as tick:
        write_units(all_units(sources, target.kind, threads, tick), target, output)


def head_files(
    files: Files, output: OptionalOutput = None, units: Units = 10, to: To = None, lossy: Lossy = False
) -> None:
    """Write the first records, lines, games or chains of files to standard output or a file."""
    from loader.chess.tools.convert import first_units, write_units
    from loader.chess.tools.source import open_sources

    sources = open_sources(files)
    target = target_for(sources, output, to)
    prepared(sources, target.kind, lossy=lossy)
    with working("head") as tick:
        write_units(first_units(sources, target.kind, units, tick), target, output)


def sample_files(
    files: Files,
    output: OptionalOutput = None,
    units: Units = 1000,
    seed: Seed = 0,
    to: To = None,
    lossy: Lossy = False,
    threads: Threads = ALL_THREADS,
) -> None:
    """Write some of the records, lines, games or chains of files, each as likely as any other, in their order.

    They are held in memory. The same files, seed and number give the same bytes.
    """
    from loader.chess.tools.convert import sampled_units, write_units
    from loader.chess.tools.source import open_sources

    sources = open_sources(files)
    target = target_for(sources, output, to)
    prepared(sources, target.kind, lossy=lossy)
    with working("sample") as tick:
        write_units([sampled_units(sources, target.kind, units, seed, threads, tick)], target, output)


def count_files(
    files: Files,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
    threads: Threads = ALL_THREADS,
) -> None:
    """Count the positions of files, and their records, lines, games or chains. Everything is decoded."""
    from loader.chess.tools.source import open_sources, units_of

    for path in files:
        source = open_sources([path])[0]
        entries = units = 0
        with working(path.name) as tick:
            for block, done in units_of(source, source.kind, threads):
                entries += int(block.entries.sum())
                units += len(block)
                tick(done, source.size)
        if as_json:
            counts = {"file": str(path), "format": source.kind.name, "positions": entries, source.kind.units: units}
            sys.stdout.write(json.dumps(counts) + "\n")
        else:
            inside = f" in {units:,} {source.kind.units}" if source.kind.keeps_games else ""
            sys.stdout.write(f"{path}: {source.kind.name}, {entries:,} positions{inside}\n")
