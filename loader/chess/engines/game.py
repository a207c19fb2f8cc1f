"""One game of an engine against itself or another: a pure function of engines, settings and opening.

From the opening on each position is recorded with the engine's move and score, so that a game is one chain of a
binpack. The result is filled in at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import chess

from loader.chess.engines.engine import Limits, Search
from loader.chess.positions.entry import NO_SCORE, Entry
from loader.errors import EngineError


class Player(Protocol):
    """An engine, as far as a game needs it."""

    def new_game(self) -> None:
        """Forgets the games before."""

    def search(self, fen: str, moves: list[str], limits: Limits) -> Search:
        """Best move and score after `moves` from `fen`."""

    def fault(self, reason: str) -> EngineError:
        """Makes the error to raise when an answer can't be."""


@dataclass(frozen=True)
class GameSettings:
    """How games are played. Scores in internal units of the engine."""

    limits: Limits = field(default_factory=lambda: Limits(nodes=150))
    opening_score: int = 1000  # openings beyond this for either side are drawn again
    win_score: int = 2500  # beyond this for `win_plies` plies in a row: won
    win_plies: int = 4  # 0: never
    draw_score: int = 8  # within this for `draw_plies` plies in a row from `draw_from_ply` on: drawn
    draw_plies: int = 10  # 0: never
    draw_from_ply: int = 80
    max_ply: int = 400  # then drawn


@dataclass(frozen=True)
class Played:
    """A position of a game, before its result is known."""

    fen: str
    move: str
    score: int | None
    ply: int
    white_to_move: bool


def adjudicate(played: list[Played], settings: GameSettings) -> int | None:
    """The result for white that the scores have settled, or None."""
    last = played[-1]
    decisive = white_scores(played, settings.win_plies)
    if decisive and min(decisive) >= settings.win_score:
        return 1
    if decisive and max(decisive) <= -settings.win_score:
        return -1
    level = white_scores(played, settings.draw_plies)
    drawn = bool(level) and max(map(abs, level)) <= settings.draw_score and last.ply >= settings.draw_from_ply
    return 0 if drawn or last.ply >= settings.max_ply else None


def white_scores(played: list[Played], plies: int) -> list[int]:
    """Returns the last so many scores, from white's point of view; none if there are not so many. A ply without a score
    says nothing about the game."""
    scores = [one.score if one.white_to_move else -one.score for one in played if one.score is not None]
    return scores[-plies:] if 0 < plies <= len(scores) else []


def result_by_rules(board: chess.Board, seen: Counter[str]) -> int | None:
    """The result for white if the game is over, or None. A position seen three times is a draw."""
    if not any(board.generate_legal_moves()):
        return 0 if not board.is_check() else (-1 if board.turn == chess.WHITE else 1)
    drawn = board.halfmove_clock >= 100 or board.is_insufficient_material() or max(seen.values(), default=0) >= 3
    return 0 if drawn else None


def play_game(player: Player, settings: GameSettings, openings: Iterable[chess.Board]) -> list[Entry]:
    """The entries of one game, from the first opening that is not lost for a side.

    Raises EngineError, also for a move that is not legal.
    """
    opening = fair_opening(player, settings, openings)
    played, result = play_on(player, player, settings, opening)
    return [
        Entry(
            one.fen,
            one.move,
            NO_SCORE if one.score is None else one.score,
            one.ply,
            result if one.white_to_move else -result,
        )
        for one in played
    ]


def fair_opening(player: Player, settings: GameSettings, openings: Iterable[chess.Board]) -> chess.Board:
    """The first opening that is not lost for a side. Raises EngineError."""
    player.new_game()
    for opening in openings:
        score = player.search(fen_of(opening), [], settings.limits).score
        if score is None or abs(score) <= settings.opening_score:  # no score: the game shows what it is worth
            return opening
    raise player.fault(f"no opening has a score within {settings.opening_score}")


def play_on(white: Player, black: Player, settings: GameSettings, board: chess.Board) -> tuple[list[Played], int]:
    """Plays a new game from `board` to its end: the positions and the result for white."""
    for each in (white, black):
        each.new_game()
    start = fen_of(board)
    moves: list[str] = []
    played: list[Played] = []
    seen: Counter[str] = Counter()
    while True:
        fen = fen_of(board)
        seen[fen.rsplit(" ", 2)[0]] += 1
        result = result_by_rules(board, seen)
        if result is not None:
            return played, result
        player = white if board.turn == chess.WHITE else black
        found = player.search(start, moves, settings.limits)
        move = legal_move(player, board, found.move)
        played.append(Played(fen, move.uci(), found.score, board.ply(), board.turn == chess.WHITE))
        result = adjudicate(played, settings)
        if result is not None:
            return played, result
        moves.append(move.uci())
        board.push(move)


def fen_of(board: chess.Board) -> str:
    """The position as a FEN; of Chess960 castling rights are the files of their rooks."""
    return board.shredder_fen() if board.chess960 else board.fen()


def legal_move(player: Player, board: chess.Board, text: str | None) -> chess.Move:
    """Raises EngineError if the engine has given up, or made a move that is not legal."""
    try:
        move = chess.Move.null() if text is None else board.parse_uci(text)
    except ValueError:
        move = chess.Move.null()
    if not move:
        raise player.fault(f"{text or 'no move'!r} is not a legal move in {board.fen()}")
    return move
