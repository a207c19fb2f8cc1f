"""`loader verify`, `loader dump`: whether data files are whole, and every entry of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import ALL_THREADS, AS_MANY_AS_CORES, Format, working
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.command_line.json_line import json_line
from loader.errors import DataError, UsageError
from loader.files.pipes import Input, input_of

if TYPE_CHECKING:
    from loader.chess.positions.format import PositionFormat
    from loader.formats.format import RowsFormat, Verdict

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Data files.", show_default=False)]
AnyFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Data files, or pipes of positions; - is standard input.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]


def register(app: typer.Typer) -> None:
    app.command(name="verify")(verify_files)
    app.command(name="dump")(dump_file)


def format_of(path: Path, given: str | None = None) -> PositionFormat | RowsFormat:
    """Finds a file's format as `find_format`; `given`: its name, if it is given. Raises UsageError, DataError."""
    from loader.chess.positions.format import named_format
    from loader.formats.registry import built_in, find_format, format_by_name

    if given is not None and given not in built_in():
        raise UsageError(f"--format: {given!r} is none of the formats {', '.join(built_in())}")
    name = find_format(path, setting="--format", name=given)
    format = format_by_name(name)
    return named_format(name) if format.FAMILY == "chess" else cast("RowsFormat", format)


@with_pgn_options
def verify_files(
    files: AnyFiles,
    as_json: Json = False,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Threads that read.", show_default=AS_MANY_AS_CORES)
    ] = ALL_THREADS,
) -> int:
    """Read everything in files and say of each whether it is whole.

    Of a damaged one: the offset of the damage, what is wrong, and how many entries before it are good. An
    offset inside a chunk is that of the chain's first entry. Positions and moves that no game can have are counted by
    kind, with the place of the first. Exit code 1 if any file is damaged, has such entries, or can't be read.
    """
    damaged = False
    for each in [input_of(path) for path in files]:
        verdict = _verdict(each, input_format, comments, threads)
        damaged |= not verdict.ok
        if as_json:
            sys.stdout.write(json_line(_fields(verdict)))
        elif verdict.ok:
            sys.stdout.write(f"{verdict.file}: ok, {verdict.entries:,} entries\n")
        else:
            sys.stdout.flush()
            sys.stderr.writelines(f"{line}\n" for line in describe(verdict))
    return 1 if damaged else 0


def _verdict(named: Input, given: str | None, comments: PgnComments, threads: int) -> Verdict:
    from loader.chess.positions.file import COUNTED
    from loader.chess.positions.format import PositionFormat, refuse_unused
    from loader.chess.positions.inputs import open_input
    from loader.chess.positions.verify import verify
    from loader.cli.terminal import byte_progress
    from loader.formats.format import Verdict

    path = named.path
    try:
        format = None if named.is_pipe else format_of(path, given)
        if format is not None and not isinstance(format, PositionFormat):
            refuse_unused(comments, [format])
            with byte_progress(path.name) as progress:
                return format.verify(path, threads, progress)
        source = open_input(named, format or given, comments=comments, rule=COUNTED, indexed=False)
    except DataError as error:
        if named.is_pipe:
            raise
        return Verdict(str(path), ok=False, entries=0, offset=error.offset, reason=error.reason)
    with working(path.name, [source]) as tick:
        return verify(source, threads, tick)


def _fields(verdict: Verdict) -> dict[str, Any]:
    fields = asdict(verdict)
    if not verdict.illegal:
        del fields["illegal"]
    return fields


def describe(verdict: Verdict) -> Iterator[str]:
    for found in verdict.illegal:
        count = "the only one" if found.entries == 1 else f"the first of {found.entries:,}"
        yield f"loader: {verdict.file}: offset {found.offset}: {found.first} ({count})"
    if verdict.illegal:
        illegal = sum(found.entries for found in verdict.illegal)
        counts = f"{illegal:,} of {verdict.entries:,} entries"
        yield f"loader: {verdict.file}: {counts} are positions or moves that no game can have"
    if verdict.offset is not None:
        good = f"{verdict.entries:,} good entries before it"
        yield f"loader: {verdict.file}: offset {verdict.offset}: {verdict.reason}; {good}"
    elif verdict.reason is not None:
        yield f"loader: {verdict.file}: {verdict.reason}"


@with_pgn_options
def dump_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A data file, or a pipe of positions; - is standard input.", show_default=False
        ),
    ],
    limit: Annotated[int | None, typer.Option(min=0, max=10**15, metavar="N", help="Stop after N entries.")] = None,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
) -> None:
    """Print entries, one a line: FEN, move (UCI), score, ply, result, separated by tabs.

    Score (in the file's units) and result (-1, 0, 1) are from the side to move's point of view. Damage ends in an
    error that names file and offset, after the good entries before it.
    """
    out = sys.stdout.buffer
    for lines in _lines(input_of(file), input_format, comments, limit):
        out.write(lines)
        out.flush()


def _lines(named: Input, given: str | None, comments: PgnComments, limit: int | None) -> Iterator[bytes]:
    from loader.chess.positions.format import PositionFormat, refuse_unused
    from loader.chess.positions.inputs import open_input
    from loader.chess.positions.verify import dump

    format = None if named.is_pipe else format_of(named.path, given)
    if format is not None and not isinstance(format, PositionFormat):
        refuse_unused(comments, [format])
        return format.dump(named.path, limit)
    return dump(open_input(named, format or given, comments=comments, indexed=False), limit)
