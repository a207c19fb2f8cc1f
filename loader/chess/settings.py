"""Settings of the source "chess": keys of [data.chess]."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from loader import _native
from loader.chess.filters import FilterConfig
from loader.chess.output_buckets import OutputBuckets
from loader.chess.positions.entry import View
from loader.chess.positions.pgn_comments import PgnComments
from loader.section import Effect, Section, as_tuple


class PgnConfig(Section):
    """The meaning of scores in comments of PGN that can be read two ways."""

    view: Annotated[
        View | None,
        Field(
            description="whose scores match programs' comments have (+0.31/12): mover, the side that has moved (also "
            "if not set), or white; a number without a sign and a depth (8.50) is read only if this is set: white's as "
            "the score of the position behind the move. [%eval] and wv= are White's always"
        ),
        Effect.FIXED,
    ] = None
    unit: Annotated[
        Literal["pawns", "centipawns"] | None,
        Field(
            description="what whole numbers are ([%eval 17], +31/12): pawns, whose mates (M5) count plies and which "
            "may have a decimal comma; or centipawns, whose mates count moves; not set: they are damage, or no score. "
            "Numbers with a point are pawns always"
        ),
        Effect.FIXED,
    ] = None

    @property
    def comments(self) -> PgnComments:
        return PgnComments(self.view, self.unit)


class ChessConfig(Section):
    """How positions become samples, and which are left out."""

    features: Annotated[
        str,
        Field(
            description="feature set: pieces (HalfKAv2_hm, chess768, or chess704 with both kings on one plane), with ^ "
            "behind them virtual inputs without king buckets too; then, if wanted, threats (of Stockfish 19; "
            "threats_v11 and threats_v10 of those before) and pawn pairs: "
            '"chess768^ + threats + pawn_pairs". SFNNv10 and SFNNv16 are short forms of the sums of these networks'
        ),
        Effect.FIXED,
    ] = "HalfKAv2_hm"
    king_buckets: Annotated[
        tuple[Annotated[int, Field(ge=0, le=63)], ...],
        BeforeValidator(as_tuple),
        Field(
            description="for chess768 and chess704: the bucket of the own king's square, as its side sees it, rank 1 "
            "first; 64 numbers a1 to h8, or 32, of files a to d: then positions are mirrored so that the own king is "
            "there"
        ),
        Effect.FIXED,
    ] = ()
    output_buckets: Annotated[
        OutputBuckets,
        Field(
            description="which output is a position's: single (one for all), stockfish ((pieces - 1) / 4: 8), or "
            "material_count_N (N of them, 2 to 8, 11 or 16: (pieces - 2) / ceil(32 / N), as bullet's "
            "MaterialCount<N>); or 33 numbers, the output of a position of 0 to 32 pieces: from 0 on, each that "
            "before it or the next",
        ),
        Effect.FIXED,
    ] = "stockfish"
    score_view: Annotated[
        View | None,
        Field(
            description="whose advantage a positive score in the files is: mover (the side to move's) or white; not "
            "set: as their format has it"
        ),
        Effect.FIXED,
    ] = None
    result_view: Annotated[View | None, Field(description="the same of results"), Effect.FIXED] = None
    filters: FilterConfig = FilterConfig()
    pgn: PgnConfig = PgnConfig()

    @field_validator("king_buckets")
    @classmethod
    def _check_king_buckets(cls, king_buckets: tuple[int, ...]) -> tuple[int, ...]:
        try:
            _native.describe_feature_set("chess768", king_buckets)
        except ValueError as error:
            raise ValueError(str(error).removeprefix("king_buckets: ")) from None
        return king_buckets
