"""Which entries are left out of the stream: keys of [data.chess.filters]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from loader.section import Effect, Section

# What an entry may lack, by the format of its file.
MOVE, PLY, SIDE, CASTLING, EN_PASSANT, CLOCK, CHESS960 = PARTS = (
    "move",
    "ply",
    "side to move",
    "castling rights",
    "en passant",
    "half-move clock",
    "Chess960",
)


class FilterConfig(Section):
    """Entries left out of the stream. Every filter is off unless it is set."""

    skip_no_score: Annotated[
        bool, Field(description="skip entries whose score is the placeholder 32002"), Effect.FIXED
    ] = True
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
            "exactly if that leaves a tenth of each count, else as near as leaving a tenth allows"
        ),
        Effect.FIXED,
    ] = False


def needs(filters: FilterConfig) -> dict[str, str]:
    """The filters that are on and need what not every format has: which part of an entry each needs."""
    return {
        name: part
        for name, part, on in (
            ("skip_captures", MOVE, filters.skip_captures),
            ("skip_promotions", MOVE, filters.skip_promotions),
            ("skip_ply_up_to", PLY, filters.skip_ply_up_to >= 0),
            ("win_draw_loss", PLY, filters.win_draw_loss),
        )
        if on
    }
