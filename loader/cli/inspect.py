"""`loader inspect`: what data files hold, in numbers and pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader.chess.cli.filter_options import FilterOptions, with_filter_options
from loader.chess.cli.pgn_options import with_pgn_options
from loader.chess.cli.tool_options import ALL_THREADS, BadData, Format, OnBadData, Seed, Threads, rule_of, working
from loader.chess.positions.pgn_comments import NO_SETTINGS, PgnComments
from loader.cli.verify import AnyFiles, Json, format_of
from loader.command_line.json_line import json_line
from loader.errors import UsageError
from loader.files.pipes import input_of

if TYPE_CHECKING:
    from loader.chess.statistics.statistics import FileStatistics
    from loader.formats.format import Statistics

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Pictures = Annotated[
    Path | None,
    typer.Option("--pictures", metavar="DIR", help="Also draw them: scores, positions, kings; needs matplotlib."),
]
KingBuckets = Annotated[
    str,
    typer.Option(
        "--king-buckets",
        metavar="LAYOUT",
        help="How often a layout's buckets are used: its 32 or 64 numbers, 0,1,..., or a config that has it.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command(name="inspect")(inspect_files)


@with_filter_options
@with_pgn_options
def inspect_files(
    files: AnyFiles,
    filters: FilterOptions,
    as_json: Json = False,
    pictures: Pictures = None,
    king_buckets: KingBuckets = "",
    seed: Seed = 0,
    input_format: Format = None,
    comments: PgnComments = NO_SETTINGS,
    on_bad_data: OnBadData = BadData.STOP,
    threads: Threads = ALL_THREADS,
) -> None:
    """Show what files hold: scores, results, plies, pieces, moves, lengths of games; rows of numbers and columns.

    Every entry is read, compressed or not. Of positions: score against result
    beside the win-rate model, where kings stand, how many positions repeat another (by the keys of `loader dedupe`;
    estimated where there are more than 65,536 different ones), and of each filter that is given what it would leave,
    alone and together with the others. What a format does not have is left out, and said. Damage ends in the line of
    `loader verify`; with --on-bad-data skip the game, line or record is left out, and counted.
    """
    layout = _layout_of(king_buckets) if king_buckets else ()
    config = filters.config() if filters.any else None
    folder = _folder_for(pictures, files)
    from loader.chess.positions.file import KEPT
    from loader.chess.positions.format import PositionFormat, refuse_unused
    from loader.chess.statistics.inspection import inspect_source, open_inspected
    from loader.cli.terminal import show_table

    is_skipping = on_bad_data is BadData.SKIP
    rule = rule_of(on_bad_data) if is_skipping else KEPT
    for each in [input_of(path) for path in files]:
        path = each.path
        format = None if each.is_pipe else format_of(path, input_format)
        if format is None or isinstance(format, PositionFormat):
            source = open_inspected(each, config, format or input_format, comments, rule)
            with working(path.name, [source]) as tick:
                positions = inspect_source(source, config, seed, layout, threads, tick)
            if as_json:
                _print_json(positions)
            else:
                _show_positions(positions)
            if folder is not None:
                _draw(positions, folder)
        else:
            refuse_unused(comments, [format])
            given = {
                "filters": config,
                "--king-buckets": layout,
                "--pictures": folder,
                "--on-bad-data skip": is_skipping,
            }
            for option, value in given.items():
                if value:
                    raise UsageError(f"{option}: only of positions; {path} has none")
            with working(path.name) as tick:
                statistics = format.inspect(path, tick)
            if as_json:
                _print_json(statistics)
            else:
                show_table(str(path), statistics.rows())


def _show_positions(positions: FileStatistics) -> None:
    from loader.chess.statistics.text import rows, sections
    from loader.cli.terminal import show_table

    show_table(positions.facts.file, rows(positions))
    solid = "\u2588" if sys.stdout.isatty() and sys.stdout.encoding.lower() == "utf-8" else "#"
    sys.stdout.writelines(f"{line}\n" for line in sections(positions, solid))


def _print_json(statistics: FileStatistics | Statistics) -> None:
    sys.stdout.write(json_line(statistics.to_dict()))


def _folder_for(pictures: Path | None, files: Sequence[Path]) -> Path | None:
    """Raises UsageError before anything is read."""
    if pictures is None:
        return None
    from loader.pictures import need_matplotlib

    need_matplotlib("--pictures")
    if len(files) > 1:
        raise UsageError(f"--pictures: of one file; these are {len(files)}")
    if pictures.exists() and not pictures.is_dir():
        raise UsageError(f"--pictures {pictures}: is a file, not a folder")
    from loader.chess.positions.output import refuse_taken
    from loader.chess.statistics.pictures import paths_in

    for path in paths_in(pictures):
        refuse_taken(path)
    return pictures


def _draw(positions: FileStatistics, folder: Path) -> None:
    from loader.chess.statistics.pictures import draw

    for path in draw(positions, folder):
        sys.stderr.write(f"loader: {path} drawn\n")


def _layout_of(text: str) -> Sequence[int]:
    """Raises UsageError."""
    from pydantic import ValidationError

    from loader.chess.settings import ChessConfig
    from loader.section import first_problem

    try:
        given = _layout_in(Path(text)) if text.endswith(".toml") else [int(number) for number in text.split(",")]
        layout = ChessConfig.model_validate({"features": "chess768", "king_buckets": given}).king_buckets
    except ValidationError as error:
        raise UsageError(f"--king-buckets: {first_problem(error)[1]}") from None
    except ValueError:
        raise UsageError(
            f"--king-buckets: {text!r} is neither numbers, as 0,0,1,1, nor a config, as net.toml"
        ) from None
    if not layout:
        raise UsageError("--king-buckets: there are no numbers; allowed are 64, or 32 for files a to d")
    return layout


def _layout_in(path: Path) -> object:
    from loader.files.text import toml_of
    from loader.files.user_file import read_user_file

    try:
        return toml_of(read_user_file(path))["data"]["chess"]["king_buckets"]
    except OSError as error:
        raise UsageError(f"--king-buckets: {path}: {error.strerror}") from None
    except (KeyError, TypeError):
        raise UsageError(f"--king-buckets: {path}: has no king_buckets in [data.chess]") from None
    except ValueError as error:
        raise UsageError(f"--king-buckets: {path}: {error}") from None
