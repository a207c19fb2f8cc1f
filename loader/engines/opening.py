"""Openings: the position where a game begins is a function of seed and game number."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import chess

from loader.engines.book import Book

TRIES = 1000  # openings of one game


@dataclass(frozen=True)
class Openings:
    """The start position or a book's, and random plies on top."""

    seed: str
    random_plies: int
    book: Book | None = None

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
            return chess.Board()
        at = number % len(self.order) if attempt == 0 else rng.randrange(len(self.order))
        return self.book.board(self.order[at])


def play_randomly(board: chess.Board, rng: random.Random, plies: int) -> bool:
    """Random legal moves; whether there is a game left to be played after them."""
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            return False
        board.push(rng.choice(moves))
    return not board.is_game_over() and board.halfmove_clock < 100
