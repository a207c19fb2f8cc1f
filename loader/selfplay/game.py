"""One game of an engine against itself: a pure function of engine, settings, seed and game number.

A game begins with some random moves, which are not recorded; from there on each position is recorded with the
engine's move and score, so that a game is one chain of a binpack. The result is filled in at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import chess

from loader.binpack import Entry
from loader.selfplay.engine import Search


class Player(Protocol):
    """What a game needs of an engine."""

    def new_game(self) -> None:
        """Forgets the games before."""

    def search(self, fen: str, moves: list[str], nodes: int) -> Search:
        """Best move and score after `moves` from `fen`."""


@dataclass(frozen=True)
class GameSettings:
    """How games are played. Scores in internal units of the engine."""

    nodes: int = 150  # of each search
    random_plies: int = 8  # at the start; every second game has one more, so that either side begins
    opening_score: int = 1000  # openings beyond this for either side are drawn again
    win_score: int = 2500  # beyond this for `win_plies` plies in a row: won
    win_plies: int = 4
    draw_score: int = 8  # within this for `draw_plies` plies in a row from `draw_from_ply` on: drawn
    draw_plies: int = 10
    draw_from_ply: int = 80
    max_ply: int = 400  # then drawn


@dataclass(frozen=True)
class Played:
    """A position of a game, before its result is known."""

    fen: str
    move: str
    score: int
    ply: int
    white_to_move: bool


def random_opening(rng: random.Random, plies: int) -> chess.Board:
    """A position after random legal moves, with a game still to be played."""
    while True:
        board = chess.Board()
        for _ in range(plies):
            moves = list(board.legal_moves)
            if not moves:
                break
            board.push(rng.choice(moves))
        if not board.is_game_over() and len(board.move_stack) == plies:
            return board


def adjudicate(played: list[Played], settings: GameSettings) -> int | None:
    """The result for white that the scores have settled, or None."""
    last = played[-1]
    white_scores = [one.score if one.white_to_move else -one.score for one in played[-settings.draw_plies :]]
    decisive = white_scores[-settings.win_plies :]
    if len(decisive) == settings.win_plies:
        if min(decisive) >= settings.win_score:
            return 1
        if max(decisive) <= -settings.win_score:
            return -1
    level = len(white_scores) == settings.draw_plies and max(map(abs, white_scores)) <= settings.draw_score
    if last.ply >= settings.max_ply or (level and last.ply >= settings.draw_from_ply):
        return 0
    return None


def result_by_rules(board: chess.Board, seen: Counter[str]) -> int | None:
    """The result for white if the game is over, or None. A position seen three times is a draw."""
    if not any(board.generate_legal_moves()):
        return 0 if not board.is_check() else (-1 if board.turn == chess.WHITE else 1)
    drawn = board.halfmove_clock >= 100 or board.is_insufficient_material() or max(seen.values(), default=0) >= 3
    return 0 if drawn else None


def play_game(player: Player, settings: GameSettings, seed: int, number: int) -> list[Entry]:
    """The entries of game `number`."""
    rng = random.Random(f"{seed}/{number}")
    player.new_game()
    while True:
        opening = random_opening(rng, settings.random_plies + number % 2)
        if abs(player.search(opening.fen(), [], settings.nodes).score) <= settings.opening_score:
            break
    player.new_game()
    played, result = play_on(player, settings, opening)
    return [Entry(one.fen, one.move, one.score, one.ply, result if one.white_to_move else -result) for one in played]


def play_on(player: Player, settings: GameSettings, board: chess.Board) -> tuple[list[Played], int]:
    """Plays from `board` to the end: the positions and the result for white."""
    start = board.fen()
    moves: list[str] = []
    played: list[Played] = []
    seen: Counter[str] = Counter()
    while True:
        fen = board.fen()
        seen[fen.rsplit(" ", 2)[0]] += 1
        result = result_by_rules(board, seen)
        if result is not None:
            return played, result
        found = player.search(start, moves, settings.nodes)
        move = board.parse_uci(found.move or "0000")
        played.append(Played(fen, move.uci(), found.score, board.ply(), board.turn == chess.WHITE))
        result = adjudicate(played, settings)
        if result is not None:
            return played, result
        moves.append(move.uci())
        board.push(move)
