"""`loader verify`, `loader dump`: whether data files are whole, and every entry of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.cli.families import FamilyOptions, FamilyTools, with_family_options
from loader.cli.options import ALL_THREADS, AS_MANY_AS_CORES, AnyFiles, Format, Json
from loader.command_line.json_line import json_line
from loader.errors import DataError
from loader.files.pipes import Input, resolve_input

if TYPE_CHECKING:
    from loader.formats.file_tools import VerifyResult

# late imports: a command loads what it uses, so that --help and mistakes are answered at once


def register(app: typer.Typer) -> None:
    app.command(name="verify")(verify_files)
    app.command(name="dump")(dump_file)


@with_family_options("verify")
def verify_files(
    files: AnyFiles,
    options: FamilyOptions,
    as_json: Json = False,
    input_format: Format = None,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Threads that read.", show_default=AS_MANY_AS_CORES)
    ] = ALL_THREADS,
) -> int:
    """Read everything in files and say of each whether it is whole.

    Of a damaged one: the offset of the damage, what is wrong, and how many entries before it are good. An
    offset inside a chunk is that of the chain's first entry. Positions and moves that no game can have are counted by
    kind, with the place of the first. Exit code 1 if any file is damaged, has such entries, or can't be read.
    """
    family_tools = FamilyTools(len(files), options)
    exit_code = 0
    for file in [resolve_input(path) for path in files]:
        result = _verify_file(file, input_format, family_tools, threads)
        if not result.ok:
            exit_code = 1
        if as_json:
            sys.stdout.write(json_line(_to_dict(result)))
        elif result.ok:
            sys.stdout.write(f"{result.file}: ok, {result.entries:,} entries\n")
        else:
            sys.stdout.flush()
            sys.stderr.writelines(f"{line}\n" for line in describe_damage(result))
    return exit_code


def _verify_file(file: Input, format_option: str | None, family_tools: FamilyTools, threads: int) -> VerifyResult:
    """Verifies a file and returns the result, also for a file that can't be opened. Raises DataError for a pipe of
    which nothing can be read."""
    from loader.formats.file_tools import VerifyResult

    try:
        tools, format = family_tools.select(file, format_option)
        return tools.verify(file, format, threads)
    except DataError as error:
        if file.is_pipe:
            raise
        return VerifyResult(str(file.path), ok=False, entries=0, offset=error.offset, reason=error.reason)


def _to_dict(result: VerifyResult) -> dict[str, Any]:
    fields = asdict(result)
    if not result.illegal:
        del fields["illegal"]
    return fields


def describe_damage(result: VerifyResult) -> Iterator[str]:
    """Yields the lines for the user about a file that is damaged or has illegal entries."""
    for illegal in result.illegal:
        count = "the only one" if illegal.entries == 1 else f"the first of {illegal.entries:,}"
        yield f"loader: {result.file}: offset {illegal.offset}: {illegal.first} ({count})"
    if result.illegal:
        num_illegal = sum(illegal.entries for illegal in result.illegal)
        counts = f"{num_illegal:,} of {result.entries:,} entries"
        yield f"loader: {result.file}: {counts} are positions or moves that no game can have"
    if result.offset is not None:
        num_good = f"{result.entries:,} good entries before it"
        yield f"loader: {result.file}: offset {result.offset}: {result.reason}; {num_good}"
    elif result.reason is not None:
        yield f"loader: {result.file}: {result.reason}"


@with_family_options("dump")
def dump_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A data file, or a pipe of positions; - is standard input.", show_default=False
        ),
    ],
    options: FamilyOptions,
    limit: Annotated[int | None, typer.Option(min=0, max=10**15, metavar="N", help="Stop after N entries.")] = None,
    input_format: Format = None,
) -> None:
    """Print entries, one a line: FEN, move (UCI), score, ply, result, separated by tabs.

    Score (in the file's units) and result (-1, 0, 1) are from the side to move's point of view. Damage ends in an
    error that names file and offset, after the good entries before it.
    """
    family_tools = FamilyTools(1, options)
    opened = resolve_input(file)
    tools, format = family_tools.select(opened, input_format)
    for lines in tools.dump(opened, format, limit):
        sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()
