"""Openings: the position where a game begins is a function of seed and game number."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import chess

from loader.chess.engines.book import Book

TRIES = 1000  # openings of one game
_ARRANGEMENTS = 960  # of the pieces on a first rank


class Variant(StrEnum):
    """The rules of castling, and the positions that games without a book begin with."""

    CHESS = "chess"
    CHESS960 = "chess960"  # pieces arranged at random, the same for both sides
    DFRC = "dfrc"  # for each side by itself: double Fischer random chess

    @property
    def shows_rooks(self) -> bool:
        """True if a castling right says which file its rook is on."""
        return self is not Variant.CHESS


@dataclass(frozen=True)
class Openings:
    """The start position, one of the variant's, or a book's, and random plies on top."""

    seed: str
    random_plies: int
    book: Book | None = None
    variant: Variant = Variant.CHESS

    @cached_property
    def order(self) -> Sequence[int]:
        """The book's positions in the order in which games take them."""
        return () if self.book is None else self.book.order(self.seed)

    def of_game(self, number: int) -> Iterator[chess.Board]:
        """Openings to try one after another; each has a game still to be played.

        The first is the book's in turn, so that all are used before one comes again. Without a book every second game
        has a random ply more, so that either side begins.
        """
        rng = random.Random(f"{self.seed}/{number}")
        plies = self.random_plies + (number % 2 if self.book is None else 0)
        for attempt in range(TRIES):
            board = self._begin(rng, number, attempt)
            if play_randomly(board, rng, plies):
                yield board

    def _begin(self, rng: random.Random, number: int, attempt: int) -> chess.Board:
        if self.book is None:
            return start_position(self.variant, rng)
        at = number % len(self.order) if attempt == 0 else rng.randrange(len(self.order))
        return self.book.board(self.order[at], chess960=self.variant.shows_rooks)


def start_position(variant: Variant, rng: random.Random) -> chess.Board:
    """Draws a position before the first move; of chess there is one."""
    if variant is Variant.CHESS:
        return chess.Board()
    board = chess.Board.from_chess960_pos(rng.randrange(_ARRANGEMENTS))
    if variant is Variant.DFRC:
        black = chess.Board.from_chess960_pos(rng.randrange(_ARRANGEMENTS))
        for square in chess.SquareSet(chess.BB_RANK_8):
            board.set_piece_at(square, black.piece_at(square))
        board.castling_rights = board.castling_rights & chess.BB_RANK_1 | black.castling_rights & chess.BB_RANK_8
    return board


def play_randomly(board: chess.Board, rng: random.Random, plies: int) -> bool:
    """Random legal moves; whether there is a game left to be played after them."""
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            return False
        board.push(rng.choice(moves))
    return not board.is_game_over() and board.halfmove_clock < 100
