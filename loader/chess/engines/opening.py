"""Openings of games: the first position of a game, drawn at random from the seed and the game's number."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import chess

from loader.chess.engines.book import Book

TRIES = 1000  # candidates for the opening of one game
_ARRANGEMENTS = 960  # number of arrangements of the pieces on the first rank


class Variant(StrEnum):
    """A variant of chess: its rules of castling, and the start positions of games without a book."""

    CHESS = "chess"
    CHESS960 = "chess960"  # Fischer random chess: pieces arranged at random, alike for both sides
    DFRC = "dfrc"  # double Fischer random chess: pieces arranged at random for each side

    @property
    def shows_rooks(self) -> bool:
        """Returns True if castling rights name the files of their rooks."""
        return self is not Variant.CHESS


@dataclass(frozen=True)
class Openings:
    """The openings of all games: positions of a book, or else start positions of the variant, followed by random
    moves."""

    seed: str
    random_plies: int
    book: Book | None = None
    variant: Variant = Variant.CHESS

    @cached_property
    def order(self) -> Sequence[int]:
        """Returns the indices of the book's positions in the order in which games use them, empty without a book."""
        return () if self.book is None else self.book.order(self.seed)

    def openings_of_game(self, number: int) -> Iterator[chess.Board]:
        """Yields openings for game `number`, one after another, as candidates. Each of them has legal moves.

        The first candidate is the book's position whose turn it is, so that all are used before one is repeated.
        Without a book every second game has one more random ply, so that either side begins.
        """
        rng = random.Random(f"{self.seed}/{number}")
        plies = self.random_plies + (number % 2 if self.book is None else 0)
        for attempt in range(TRIES):
            board = self._start_board(rng, number, attempt)
            if play_randomly(board, rng, plies):
                yield board

    def _start_board(self, rng: random.Random, number: int, attempt: int) -> chess.Board:
        """Returns the position from which the random moves of an opening start: of the variant, or of the book. The
        first attempt takes the book's position whose turn it is, later ones a random position."""
        if self.book is None:
            return start_position(self.variant, rng)
        turn = number % len(self.order) if attempt == 0 else rng.randrange(len(self.order))
        return self.book.board(self.order[turn], chess960=self.variant.shows_rooks)


def start_position(variant: Variant, rng: random.Random) -> chess.Board:
    """Draws a start position of the variant at random. Chess has only one."""
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
    """Plays random legal moves. Returns True if the game is not over after them."""
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            return False
        board.push(rng.choice(moves))
    return not board.is_game_over() and board.halfmove_clock < 100
