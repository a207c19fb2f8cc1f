"""`loader inspect`: what data files hold, in numbers and pictures."""

from __future__ import annotations

import sys

import typer

from loader.cli.families import FamilyOptions, FamilyTools, with_family_options
from loader.cli.options import ALL_THREADS, AnyFiles, Format, Json, Threads
from loader.command_line.json_line import json_line
from loader.files.pipes import resolve_input

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def register(app: typer.Typer) -> None:
    app.command(name="inspect")(inspect_files)


@with_family_options("inspect")
def inspect_files(
    files: AnyFiles,
    options: FamilyOptions,
    as_json: Json = False,
    input_format: Format = None,
    threads: Threads = ALL_THREADS,
) -> None:
    """Show what files hold: scores, results, plies, pieces, moves, lengths of games; rows of numbers and columns.

    Every entry is read, compressed or not. Of positions: score against result
    beside the win-rate model, where kings stand, how many positions repeat another (by the keys of `loader dedupe`;
    estimated where there are more than 65,536 different ones), and of each filter that is given what it would leave,
    alone and together with the others. What a format does not have is left out, and said. Damage ends in the line of
    `loader verify`; with --on-bad-data skip the game, line or record is left out, and counted.
    """
    from loader.cli.terminal import print_table

    family_tools = FamilyTools(len(files), options)
    for file in [resolve_input(path) for path in files]:
        tools, format = family_tools.select(file, input_format)
        statistics = tools.inspect(file, format, threads)
        if as_json:
            sys.stdout.write(json_line(statistics.to_dict()))
        else:
            print_table(str(file.path), statistics.rows())
            solid = "\u2588" if sys.stdout.isatty() and sys.stdout.encoding.lower() == "utf-8" else "#"
            sys.stdout.writelines(f"{line}\n" for line in statistics.charts(solid))
        for path in statistics.draw():
            sys.stderr.write(f"loader: {path} drawn\n")
