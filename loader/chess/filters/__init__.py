"""Filters of positions, the keys of [data.chess.filters], which leave entries out of the training stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from loader import _native
from loader.chess.filters.curves import CURVE_POINTS, chances_by_ply, shares_by_piece_count
from loader.chess.filters.viriformat import ViriformatRules, agrees_with_result, table_or_file
from loader.chess.filters.where import compile_condition
from loader.section import Effect, Section, as_tuple

# Parts of an entry that some formats do not store.
MOVE, PLY, SIDE, CASTLING, EN_PASSANT, CLOCK, CHESS960 = PARTS = (
    "move",
    "ply",
    "side to move",
    "castling rights",
    "en passant",
    "half-move clock",
    "Chess960",
)
NO_LIMIT = 1 << 15  # beyond every score, so that the filter is off


@dataclass(frozen=True)
class Need:
    """A part of a position (move, ply, ...) that a filter needs and that some formats do not store."""

    key: str  # of [data.chess.filters]
    part: str  # one of PARTS
    name: str | None = None  # the name in an expression that needs the part

    def __str__(self) -> str:
        return f"{'it' if self.name in (None, self.part) else self.name} needs the {self.part}"


class FilterConfig(Section):
    """Entries left out of the stream. Every filter is off unless it is set."""

    skip_no_score: Annotated[
        bool, Field(description="skip entries without a score (the placeholder 32002)"), Effect.FIXED
    ] = True
    skip_zero_placeholders: Annotated[
        bool,
        Field(
            description="skip entries of decided games whose score is 0 where the last score before it in the game was "
            "beyond 100 or -100: zeros that mean no score; for files that hold games in order"
        ),
        Effect.FIXED,
    ] = False
    skip_in_check: Annotated[bool, Field(description="skip positions whose side to move is in check"), Effect.FIXED] = (
        False
    )
    skip_captures: Annotated[
        bool,
        Field(description="skip if an enemy piece stands on the move's destination (en passant does not count)"),
        Effect.FIXED,
    ] = False
    skip_promotions: Annotated[bool, Field(description="skip if the move played promotes"), Effect.FIXED] = False
    skip_ply_up_to: Annotated[
        int,
        Field(ge=-1, le=65535, description="skip entries with ply <= this; -1 skips none, 0 skips start positions"),
        Effect.FIXED,
    ] = -1
    random_skip: Annotated[
        float, Field(ge=0, le=1e6, description="skip with probability r / (r + 1)"), Effect.FIXED
    ] = 0.0
    win_draw_loss: Annotated[
        bool,
        Field(
            description="keep with the probability that the engine's win-rate model gives the result, by score and ply"
        ),
        Effect.FIXED,
    ] = False
    piece_count: Annotated[
        bool,
        Field(
            description="thin out common piece counts, chunk by chunk, towards shares of 2 - ((count - 16) / 16)^2; "
            "exactly if that leaves piece_count_least of each count, else as near as leaving this allows"
        ),
        Effect.FIXED,
    ] = False

    where: Annotated[
        str,
        Field(
            max_length=4096,
            description="keep only positions of which this holds: an expression, as 'ply >= 16 and abs(score) < 3000 "
            "and not in_check'; empty: all",
        ),
        Effect.FIXED,
    ] = ""
    max_score: Annotated[
        int,
        Field(ge=0, le=NO_LIMIT, description="skip if |score| > this, in the file's unit; 32768 skips none"),
        Effect.FIXED,
    ] = NO_LIMIT
    max_score_against_result: Annotated[
        int,
        Field(
            ge=0,
            le=NO_LIMIT,
            description="skip if |score| > this in a drawn game, or the winner's score < -this in another; 32768 skips "
            "none",
        ),
        Effect.FIXED,
    ] = NO_LIMIT
    keep_by_ply: Annotated[
        tuple[Annotated[float, Field(ge=0, le=65535)], ...],
        BeforeValidator(as_tuple),
        Field(
            description="ply, chance to keep, ply, chance, ...: straight lines between them, and before the first and "
            "behind the last one their chance; empty: all are kept"
        ),
        Effect.FIXED,
    ] = ()
    piece_count_curve: Annotated[
        tuple[Annotated[float, Field(ge=-1e6, le=1e6)], ...],
        BeforeValidator(as_tuple),
        Field(
            description="the shares that piece_count thins out towards: a cubic spline through these, for 0, 8, 16, 24 "
            "and 32 pieces, below 0 as 0; empty: the usual ones"
        ),
        Effect.FIXED,
    ] = ()
    piece_count_least: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="the share that piece_count leaves of the most frequent count at least; 0: the wanted shares "
            "exactly",
        ),
        Effect.FIXED,
    ] = 0.1
    viriformat: Annotated[ViriformatRules, BeforeValidator(table_or_file)] = ViriformatRules()

    @field_validator("where")
    @classmethod
    def _check_condition(cls, expression: str) -> str:
        if expression:
            compile_condition(expression)
        return expression

    @field_validator("keep_by_ply")
    @classmethod
    def _check_points(cls, points: tuple[float, ...]) -> tuple[float, ...]:
        chances_by_ply(points)
        return points

    @field_validator("piece_count_curve")
    @classmethod
    def _check_shares(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if shares and len(shares) != CURVE_POINTS:
            raise ValueError(f"{len(shares)} numbers; needed are {CURVE_POINTS}, for 0, 8, 16, 24 and 32 pieces")
        if shares and not any(shares_by_piece_count(shares)):
            raise ValueError("no share is above 0, so nothing would be kept")
        return shares

    def conditions(self) -> Iterator[tuple[str, str]]:
        """Yields key and expression of each filter that is set and that an expression can state. Positions for which it
        does not hold are left out."""
        if self.where:
            yield "where", self.where
        if self.max_score < NO_LIMIT:
            yield "max_score", f"not has_score or abs(score) <= {self.max_score}"
        if self.max_score_against_result < NO_LIMIT:
            yield "max_score_against_result", agrees_with_result(self.max_score_against_result)
        for key, text in self.viriformat.conditions():
            yield f"viriformat.{key}", text


def needed_parts(filters: FilterConfig) -> list[str]:
    """Returns the parts of a position (move, ply, ...) that the active filters need, sorted."""
    return sorted({need.part for need in filter_needs(filters)})


def filter_needs(filters: FilterConfig) -> list[Need]:
    """Returns a `Need` for each part of a position that an active filter needs."""
    keyed_filters = (
        ("skip_zero_placeholders", PLY, filters.skip_zero_placeholders),
        ("skip_captures", MOVE, filters.skip_captures),
        ("skip_promotions", MOVE, filters.skip_promotions),
        ("skip_ply_up_to", PLY, filters.skip_ply_up_to >= 0),
        ("win_draw_loss", PLY, filters.win_draw_loss),
        ("keep_by_ply", PLY, bool(filters.keep_by_ply)),
    )
    needs = [Need(key, part) for key, part, is_active in keyed_filters if is_active]
    for key, text in filters.conditions():
        used_names = compile_condition(text).names
        for name, _, part, _ in _native.where_names():
            if part and name in used_names:
                needs.append(Need(key, part, name if key == "where" else None))
    return needs
