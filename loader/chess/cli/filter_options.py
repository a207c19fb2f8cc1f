"""Command-line options that choose which positions are left out. Each is a key of [data.chess.filters], with its name
and meaning.

A command gets all of them in one parameter `filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loader.cli.option_group import with_options
from loader.errors import UsageError
from loader.formats.file_tools import Options

if TYPE_CHECKING:
    from loader.chess.filters import FilterConfig

# late imports: a command loads what it uses, so that --help and mistakes are answered at once

Where = Annotated[
    str,
    typer.Option(
        "--where", metavar="EXPR", help="Only positions of which this holds, as 'ply >= 16 and not in_check'."
    ),
]
MaxScore = Annotated[
    int | None, typer.Option("--max-score", min=0, max=32768, metavar="N", help="Not beyond N or below -N.")
]
MaxScoreAgainstResult = Annotated[
    int | None,
    typer.Option(
        "--max-score-against-result",
        min=0,
        max=32768,
        metavar="N",
        help="Not beyond N in a drawn game; not below -N for the winner of another.",
    ),
]
SkipZeroPlaceholders = Annotated[
    bool,
    typer.Option("--skip-zero-placeholders", help="No zeros in decided games behind scores beyond 100 or -100."),
]
SkipInCheck = Annotated[bool, typer.Option("--skip-in-check", help="No positions in check.")]
SkipCaptures = Annotated[bool, typer.Option("--skip-captures", help="No captures.")]
SkipPromotions = Annotated[bool, typer.Option("--skip-promotions", help="No promotions.")]
SkipPlyUpTo = Annotated[
    int, typer.Option("--skip-ply-up-to", min=-1, max=65535, metavar="N", help="Not plies 0 to N.", show_default=False)
]
KeepByPly = Annotated[
    str, typer.Option("--keep-by-ply", metavar="PLY,CHANCE,...", help="By chance, in straight lines between plies.")
]
RandomSkip = Annotated[
    float, typer.Option("--random-skip", min=0, max=1e6, metavar="R", help="Not R of every R + 1.", show_default=False)
]
WinDrawLoss = Annotated[
    bool, typer.Option("--win-draw-loss", help="By the chance that the win-rate model gives the result.")
]
PieceCount = Annotated[bool, typer.Option("--piece-count", help="Fewer of common piece counts.")]
PieceCountCurve = Annotated[
    str,
    typer.Option(
        "--piece-count-curve", metavar="A,B,C,D,E", help="The same, towards shares given for 0, 8, 16, 24, 32 pieces."
    ),
]
PieceCountLeast = Annotated[
    float,
    typer.Option(
        "--piece-count-least",
        min=0,
        max=1,
        metavar="SHARE",
        help="Of the most frequent piece count at least.",
        show_default=False,
    ),
]
Viriformat = Annotated[
    Path | None, typer.Option("--viriformat", metavar="FILE", help="By a TOML file of viriformat's Filter.")
]
KeepNoScore = Annotated[
    bool, typer.Option("--keep-no-score", help="Also positions without a score (32002), which are left out otherwise.")
]


# By the name of the command's parameter: what typer is told, and the default.
OPTIONS: Options = {
    "where": (Where, ""),
    "max_score": (MaxScore, None),
    "max_score_against_result": (MaxScoreAgainstResult, None),
    "skip_zero_placeholders": (SkipZeroPlaceholders, False),
    "skip_in_check": (SkipInCheck, False),
    "skip_captures": (SkipCaptures, False),
    "skip_promotions": (SkipPromotions, False),
    "skip_ply_up_to": (SkipPlyUpTo, -1),
    "keep_by_ply": (KeepByPly, ""),
    "random_skip": (RandomSkip, 0.0),
    "win_draw_loss": (WinDrawLoss, False),
    "piece_count": (PieceCount, False),
    "piece_count_curve": (PieceCountCurve, ""),
    "piece_count_least": (PieceCountLeast, 0.1),
    "viriformat": (Viriformat, None),
    "keep_no_score": (KeepNoScore, False),
}


class FilterOptions:
    """The filter options as given on a command line."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    @property
    def has_changes(self) -> bool:
        """Returns True if an option is not at its default."""
        return any(value != OPTIONS[name][1] for name, value in self._values.items())

    def config(self) -> FilterConfig:
        """Returns the options as settings of filters. Raises UsageError."""
        return make_filter_config(**self._values)


def with_filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a command: gives it all options of OPTIONS, and passes their values as FilterOptions in its parameter
    `filters`."""
    return with_options(command, "filters", {"filters": OPTIONS}, FilterOptions)


def make_filter_config(
    *, keep_no_score: bool, keep_by_ply: str, piece_count_curve: str, viriformat: Path | None, **values: Any
) -> FilterConfig:
    """Makes settings of filters from the values of the options. Raises UsageError."""
    from pydantic import ValidationError

    from loader.chess.filters import FilterConfig
    from loader.section import describe_first_problem

    keys: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    keys["skip_no_score"] = not keep_no_score
    keys["keep_by_ply"] = _parse_numbers(keep_by_ply, "--keep-by-ply")
    keys["piece_count_curve"] = _parse_numbers(piece_count_curve, "--piece-count-curve")
    if viriformat is not None:
        keys["viriformat"] = str(viriformat)
    try:
        return FilterConfig(**keys)
    except ValidationError as error:
        (key, *subkeys), reason = describe_first_problem(error)
        option = f"--{key.replace('_', '-')}"
        raise UsageError(": ".join([option, *subkeys, reason])) from None


def _parse_numbers(text: str, option: str) -> Sequence[float]:
    if not text.strip():
        return ()
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no list of numbers, as 0,0.1,20,1") from None
