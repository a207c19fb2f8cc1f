"""`loader inspect`, `loader verify`, `loader dump`: what is in data files."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.errors import UsageError

if TYPE_CHECKING:
    from loader.formats.format import InspectedFormat, Verdict

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Data files.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def register(app: typer.Typer) -> None:
    app.command(name="inspect")(inspect_files)
    app.command(name="verify")(verify_files)
    app.command(name="dump")(dump_file)


def format_of(path: Path) -> InspectedFormat:
    """By content or name; what no format claims is read as a binpack file, which says what is wrong with it."""
    from loader.formats.format import InspectedFormat
    from loader.formats.registry import format_by_name, format_of_file

    try:
        name = format_of_file(path) or "binpack"
    except ValueError as error:
        raise UsageError(f"{error}; its name should end as that format's do") from None
    found = format_by_name(name)
    if not isinstance(found, InspectedFormat):
        raise UsageError(f"{path}: the format {name} can't be inspected")
    return found


def inspect_files(files: Files, as_json: Json = False) -> None:
    """Show what files hold: chunks, chains, entries; statistics of score, ply, result, pieces and moves.

    Every entry is read. Damage ends in an error that names file and offset.
    """
    from loader.commands.terminal import byte_progress, show_table

    for path in files:
        with byte_progress(path.name) as progress:
            statistics = format_of(path).inspect(path, progress)
        if as_json:
            sys.stdout.write(json.dumps(statistics.to_dict()) + "\n")
        else:
            show_table(str(path), statistics.rows())


def verify_files(
    files: Files,
    as_json: Json = False,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that read.")] = min(os.cpu_count() or 1, 8),
) -> int:
    """Read everything in files and say of each whether it is whole.

    Of a damaged one: the offset of the damage, what is wrong, and how many entries before it are good. An
    offset inside a chunk is that of the chain's first entry. Exit code 1 if any file is damaged or can't be
    read.
    """
    from loader.commands.terminal import byte_progress

    damaged = False
    for path in files:
        with byte_progress(path.name) as progress:
            verdict = format_of(path).verify(path, threads, progress)
        damaged |= not verdict.ok
        if as_json:
            sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
        elif verdict.ok:
            sys.stdout.write(f"{verdict.file}: ok, {verdict.entries:,} entries\n")
        else:
            sys.stdout.flush()
            sys.stderr.write(describe_damage(verdict) + "\n")
    return 1 if damaged else 0


def describe_damage(verdict: Verdict) -> str:
    if verdict.offset is None:
        return f"loader: {verdict.file}: {verdict.reason}"
    where = f"{verdict.file}: offset {verdict.offset}"
    return f"loader: {where}: {verdict.reason}; {verdict.entries:,} good entries before it"


def dump_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A data file.", show_default=False)],
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Stop after N entries.")] = None,
) -> None:
    """Print entries, one a line: FEN, move (UCI), score, ply, result, separated by tabs.

    Score (internal units) and result (-1, 0, 1) are from the side to move's point of view. Damage ends in an
    error that names file and offset, after the good entries before it.
    """
    out = sys.stdout.buffer
    for lines in format_of(file).dump(file, limit):
        out.write(lines)
        out.flush()
