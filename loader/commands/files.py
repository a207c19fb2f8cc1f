"""`loader verify`, `loader dump`: whether data files are whole, and every entry of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.commands.tool_options import ALL_THREADS, Format, working
from loader.errors import DataError, UsageError
from loader.files.pipes import Input, input_of

if TYPE_CHECKING:
    from loader.formats.format import InspectedFormat, Verdict

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Data files.", show_default=False)]
AnyFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Data files, or pipes of positions; - is standard input.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def register(app: typer.Typer) -> None:
    app.command(name="verify")(verify_files)
    app.command(name="dump")(dump_file)


def format_of(path: Path, given: str | None = None) -> InspectedFormat:
    """By content or name, or the one that is given; an empty file that no format claims is one of binpack. Raises
    UsageError; DataError for any other that no format claims."""
    from loader.formats.format import InspectedFormat
    from loader.formats.registry import built_in, format_by_name, format_of_file, refused_packing, unclaimed

    if given is not None and given not in built_in():
        raise UsageError(f"--format: {given!r} is none of the formats {', '.join(built_in())}")
    try:
        name = given or format_of_file(path)
    except ValueError as error:
        raise UsageError(f"{error}; --format says which") from None
    if given is not None and (reason := refused_packing(path, given)):
        raise DataError(path, reason)
    if name is None and (reason := unclaimed(path)):
        raise DataError(path, f"{reason}; --format says which it is")
    found = format_by_name(name or "binpack")
    if not isinstance(found, InspectedFormat):
        raise UsageError(f"{path}: the format {name} can't be inspected")
    return found


def verify_files(
    files: AnyFiles,
    as_json: Json = False,
    input_format: Format = None,
    threads: Annotated[int, typer.Option(min=1, max=256, help="Threads that read.")] = ALL_THREADS,
) -> int:
    """Read everything in files and say of each whether it is whole.

    Of a damaged one: the offset of the damage, what is wrong, and how many entries before it are good. An
    offset inside a chunk is that of the chain's first entry. Exit code 1 if any file is damaged or can't be
    read.
    """
    damaged = False
    for each in [input_of(path) for path in files]:
        verdict = _verdict(each, input_format, threads)
        damaged |= not verdict.ok
        if as_json:
            sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
        elif verdict.ok:
            sys.stdout.write(f"{verdict.file}: ok, {verdict.entries:,} entries\n")
        else:
            sys.stdout.flush()
            sys.stderr.write(describe_damage(verdict) + "\n")
    return 1 if damaged else 0


def _verdict(named: Input, given: str | None, threads: int) -> Verdict:
    from loader.commands.terminal import byte_progress
    from loader.formats.format import Verdict

    path = named.path
    if named.is_pipe:
        from loader.chess.piped.inputs import open_input
        from loader.chess.piped.look import verify

        source = open_input(named, given)
        with working(path.name, [source]) as tick:
            return verify(source, threads, tick)
    try:
        found = format_of(path, given)
    except DataError as error:
        return Verdict(str(path), ok=False, entries=0, offset=error.offset, reason=error.reason)
    with byte_progress(path.name) as progress:
        return found.verify(path, threads, progress)


def describe_damage(verdict: Verdict) -> str:
    if verdict.offset is None:
        return f"loader: {verdict.file}: {verdict.reason}"
    where = f"{verdict.file}: offset {verdict.offset}"
    return f"loader: {where}: {verdict.reason}; {verdict.entries:,} good entries before it"


def dump_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A data file, or a pipe of positions; - is standard input.", show_default=False
        ),
    ],
    limit: Annotated[int | None, typer.Option(min=0, max=10**15, metavar="N", help="Stop after N entries.")] = None,
    input_format: Format = None,
) -> None:
    """Print entries, one a line: FEN, move (UCI), score, ply, result, separated by tabs.

    Score (in the file's units) and result (-1, 0, 1) are from the side to move's point of view. Damage ends in an
    error that names file and offset, after the good entries before it.
    """
    out = sys.stdout.buffer
    for lines in _lines(input_of(file), input_format, limit):
        out.write(lines)
        out.flush()


def _lines(named: Input, given: str | None, limit: int | None) -> Iterator[bytes]:
    if not named.is_pipe:
        return format_of(named.path, given).dump(named.path, limit)
    from loader.chess.piped.inputs import open_input
    from loader.chess.piped.look import dump

    return dump(open_input(named, given), limit)
