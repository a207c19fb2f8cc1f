"""Options of `loader inspect` that only files of positions have, except filters and options of PGN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from loader.chess.cli.tool_options import BadData, OnBadData
from loader.cli.options import Seed
from loader.errors import UsageError
from loader.formats.file_tools import Options

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
STATISTICS_OPTIONS: Options = {"pictures": (Pictures, None), "king_buckets": (KingBuckets, ""), "seed": (Seed, 0)}
READING_OPTIONS: Options = {"on_bad_data": (OnBadData, BadData.STOP)}


def check_pictures(pictures: Path | None, num_files: int) -> Path | None:
    """Returns the folder of --pictures. Raises UsageError if matplotlib is missing, if there are several files, or if
    pictures or a file are in the way."""
    if pictures is None:
        return None
    from loader.pictures import require_matplotlib

    require_matplotlib("--pictures")
    if num_files > 1:
        raise UsageError(f"--pictures: of one file; these are {num_files}")
    if pictures.exists() and not pictures.is_dir():
        raise UsageError(f"--pictures {pictures}: is a file, not a folder")
    from loader.chess.positions.output import refuse_existing_file
    from loader.chess.statistics.pictures import picture_paths

    for path in picture_paths(pictures):
        refuse_existing_file(path)
    return pictures


def parse_king_buckets(text: str) -> Sequence[int]:
    """Parses --king-buckets, 32 or 64 numbers or the path of a config that has them. Returns the layout, empty without
    the option. Raises UsageError."""
    if not text:
        return ()
    from pydantic import ValidationError

    from loader.chess.settings import ChessConfig
    from loader.section import describe_first_problem

    try:
        numbers = _read_layout(Path(text)) if text.endswith(".toml") else [int(number) for number in text.split(",")]
        layout = ChessConfig.model_validate({"features": "chess768", "king_buckets": numbers}).king_buckets
    except ValidationError as error:
        raise UsageError(f"--king-buckets: {describe_first_problem(error)[1]}") from None
    except ValueError:
        raise UsageError(
            f"--king-buckets: {text!r} is neither numbers, as 0,0,1,1, nor a config, as net.toml"
        ) from None
    if not layout:
        raise UsageError("--king-buckets: there are no numbers; allowed are 64, or 32 for files a to d")
    return layout


def _read_layout(path: Path) -> object:
    """Reads `data.chess.king_buckets` of a config file, without validation. Raises UsageError."""
    from loader.files.text import parse_toml
    from loader.files.user_file import read_user_file

    try:
        return parse_toml(read_user_file(path))["data"]["chess"]["king_buckets"]
    except OSError as error:
        raise UsageError(f"--king-buckets: {path}: {error.strerror}") from None
    except (KeyError, TypeError):
        raise UsageError(f"--king-buckets: {path}: has no king_buckets in [data.chess]") from None
    except ValueError as error:
        raise UsageError(f"--king-buckets: {path}: {error}") from None
