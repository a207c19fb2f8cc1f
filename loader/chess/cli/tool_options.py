"""Options shared by commands that write files of positions, and helpers for their output, progress and messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.cli.amounts import parse_bytes
from loader.errors import UsageError

if TYPE_CHECKING:
    from loader.chess.positions.file import BadDataPolicy
    from loader.chess.positions.format import PositionFormat, Target
    from loader.chess.positions.input import Source
    from loader.files.pipes import OutputPipe
    from loader.formats.format import OnProgress

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Files of positions, of any formats.", show_default=False)
]
FilesOrPipes = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE", help="Files or pipes of positions, of any formats; - is standard input.", show_default=False
    ),
]
OutputFile = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="OUT", help="File to write; its ending says the format.", show_default=False
    ),
]
OutputOrPipe = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="File to write, whose ending says the format; or a pipe; - is standard output.",
        show_default=False,
    ),
]
OptionalOutput = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="OUT", help="File or pipe to write; standard output without it.", show_default=False
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="FORMAT", help="OUT's format, if its ending is not that format's."),
]
Lossy = Annotated[bool, typer.Option("--lossy", help="Leave out what OUT's format has no room for.")]


class BadData(StrEnum):
    STOP = "stop"
    SKIP = "skip"


OnBadData = Annotated[
    BadData,
    typer.Option(
        "--on-bad-data",
        help="At what can't be read, and positions and moves that no game can have: stop, or leave the game, line or "
        "record out and count it.",
    ),
]


@contextmanager
def show_progress(title: str, sources: Sequence[Source] = ()) -> Iterator[OnProgress]:
    """Shows the progress of a command as `show_interruptible_progress`. At the end reports what was changed and left
    out."""
    from loader.cli.terminal import show_interruptible_progress

    with show_interruptible_progress(title, sources) as on_progress:
        yield on_progress
    _report_changes(sources)


def _report_changes(sources: Sequence[Source]) -> None:
    """Reports on stderr how many positions were changed while they were written, and what was left out."""
    if not sources:
        return
    from loader.chess.positions.input import sum_changes, sum_skipped

    for change, positions in sorted(sum_changes(sources).items()):
        noun = "position" if positions == 1 else "positions"
        sys.stderr.write(f"loader: {change}: {positions:,} {noun}\n")
    for kind in sum_skipped(sources):
        sys.stderr.write(f"loader: {kind.describe('positions')}\n")


def parse_bad_data_policy(on_bad_data: BadData) -> BadDataPolicy:
    """Returns the policy that --on-bad-data stands for. All positions are checked for legality."""
    from loader.chess.positions.file import BadDataPolicy

    return BadDataPolicy(on_bad_data.value, every=True)


def report_conversion(
    sources: Sequence[Source], target: PositionFormat, *, lossy: bool, keeps_scores: bool = True
) -> None:
    """Reports on stderr what the target format loses and makes up, and scores whose unit is not the usual one there.
    Raises UsageError if something is lost and `lossy` is not set.

    `keeps_scores` says that scores are written with their numbers unchanged.
    """
    from loader.chess.tools.convert import check_conversion

    effects = check_conversion(sources, target, lossy=lossy)
    if effects.lost:
        sys.stderr.write(f"loader: left out, {target.name} has no room for it: {', '.join(effects.lost)}\n")
    if effects.made_up:
        sys.stderr.write(f"loader: not known, written as if there were none: {', '.join(effects.made_up)}\n")
    if not keeps_scores:
        return
    score_units = {source.format.name: source.format.score_unit for source in sources}
    for name, unit in score_units.items():
        if unit != target.score_unit:
            sys.stderr.write(
                f"loader: scores keep their numbers: {unit} of {name}, and usual in {target.name} are "
                f"{target.score_unit}; loader convert --scale changes them\n"
            )


def open_output(path: Path | None) -> Path | OutputPipe:
    """Opens the output that the user has named, if it is a pipe. Returns the pipe, or the path of a file. Raises
    OSError."""
    from loader.files.pipes import open_output_pipe

    pipe = open_output_pipe(path)
    if pipe is not None:
        return pipe
    assert path is not None
    return path


def choose_file_target(output: Path, to: str | None) -> Target:
    """Determines format and compression of an output by its name and --to. Raises UsageError, also for a pipe."""
    from loader.chess.positions.format import target_from_name
    from loader.files.pipes import is_stream

    if is_stream(output):
        raise UsageError(f"{output}: is no file, and this command writes one: write it, then loader convert FILE -o -")
    return target_from_name(output, to)


def choose_target(sources: Sequence[Source], output: Path | OutputPipe, to: str | None) -> Target:
    """Determines the format of an output: for a file by its name and --to, for a pipe by --to or else that of the
    inputs. Raises UsageError."""
    from loader.chess.positions.format import Target, target_from_name, written_format

    if isinstance(output, Path):
        return target_from_name(output, to)
    formats = list(dict.fromkeys(source.format for source in sources))
    if to is None and len(formats) > 1:
        raise UsageError(
            f"files of several formats ({', '.join(format.name for format in formats)}): --to says which to write"
        )
    format = written_format(formats[0].name if to is None else to)
    if output.isatty() and format.name != "text":
        raise UsageError(f"{format.name} is not for a terminal: give -o, or redirect the output")
    return Target(format)


def parse_memory(text: str) -> int:
    """Parses --memory. Returns bytes. Raises UsageError if they are fewer than 64 MiB."""
    from loader.chess.tools.external_sort.memory import SMALLEST_MEMORY

    memory = parse_bytes(text, "--memory")
    if memory < SMALLEST_MEMORY:
        raise UsageError(f"--memory: {text} is less than {SMALLEST_MEMORY >> 20}MiB")
    return memory
