"""Plays one game of an engine against itself or another engine. The game depends only on engines, settings and opening.

Each position after the opening is recorded with the engine's move and score, so that a game can be stored as one chain
of a binpack file. The result is added to all positions at the end.
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
    """The part of an engine's interface that a game needs."""

    def new_game(self) -> None:
        """Forgets all earlier games."""

    def search(self, fen: str, moves: list[str], limits: Limits) -> Search:
        """Returns the best move and the score of the position after `moves` from `fen`."""

    def fault(self, reason: str) -> EngineError:
        """Makes the error for an answer that is not possible, such as an illegal move."""


@dataclass(frozen=True)
class GameSettings:
    """Settings for playing and adjudicating games. Scores are in the engine's internal units."""

    limits: Limits = field(default_factory=lambda: Limits(nodes=150))
    opening_score: int = 1000  # an opening with a score beyond this for either side is replaced by another
    win_score: int = 2500  # a game is won with a score of at least this for `win_plies` plies in a row
    win_plies: int = 4  # 0: scores never win a game
    draw_score: int = 8  # a game is drawn with scores within this for `draw_plies` plies in a row
    draw_plies: int = 10  # 0: scores never draw a game
    draw_from_ply: int = 80  # the first ply at which scores may end a game as drawn
    max_ply: int = 400  # a game that reaches this ply is drawn


@dataclass(frozen=True)
class PlayedPosition:
    """A position of a game with the engine's move and score, recorded before the result is known."""

    fen: str
    move: str
    score: int | None
    ply: int
    white_to_move: bool


def adjudicate(played: list[PlayedPosition], settings: GameSettings) -> int | None:
    """Ends a game early by its scores or its length. Returns the result for White (1, 0 or -1), or None if the game
    goes on."""
    ply = played[-1].ply
    win_scores = last_white_scores(played, settings.win_plies)
    if win_scores and min(win_scores) >= settings.win_score:
        return 1
    if win_scores and max(win_scores) <= -settings.win_score:
        return -1
    draw_scores = last_white_scores(played, settings.draw_plies)
    is_level = bool(draw_scores) and max(map(abs, draw_scores)) <= settings.draw_score
    if is_level and ply >= settings.draw_from_ply:
        return 0
    return 0 if ply >= settings.max_ply else None


def last_white_scores(played: list[PlayedPosition], plies: int) -> list[int]:
    """Returns the last `plies` scores of a game from White's point of view, without plies that have no score. Returns
    an empty list if there are fewer."""
    scores = []
    for position in played:
        if position.score is not None:
            scores.append(position.score if position.white_to_move else -position.score)
    return scores[-plies:] if 0 < plies <= len(scores) else []


def find_result_by_rules(board: chess.Board, seen: Counter[str]) -> int | None:
    """Returns the result for White (1, 0 or -1) if the game is over by the rules, else None. A position that occurred
    three times (`seen`) is a draw."""
    has_move = any(board.generate_legal_moves())
    if not has_move and board.is_check():
        return -1 if board.turn == chess.WHITE else 1
    is_repeated = max(seen.values(), default=0) >= 3
    is_draw = not has_move or is_repeated or board.halfmove_clock >= 100 or board.is_insufficient_material()
    return 0 if is_draw else None


def play_game(player: Player, settings: GameSettings, openings: Iterable[chess.Board]) -> list[Entry]:
    """Plays a game from the first opening that is not lost for either side. Returns its positions with moves, scores
    and the result for the side to move.

    Raises EngineError, also if no opening is balanced and for an illegal move.
    """
    opening = find_balanced_opening(player, settings, openings)
    played, white_result = play_to_end(player, player, settings, opening)
    return [
        Entry(
            position.fen,
            position.move,
            NO_SCORE if position.score is None else position.score,
            position.ply,
            white_result if position.white_to_move else -white_result,
        )
        for position in played
    ]


def find_balanced_opening(player: Player, settings: GameSettings, openings: Iterable[chess.Board]) -> chess.Board:
    """Returns the first opening whose score is within `opening_score` for both sides, or has no score. Raises
    EngineError if there is none."""
    player.new_game()
    for opening in openings:
        score = player.search(format_fen(opening), [], settings.limits).score
        if score is None or abs(score) <= settings.opening_score:  # without a score the opening is played
            return opening
    raise player.fault(f"no opening has a score within {settings.opening_score}")


def play_to_end(
    white: Player, black: Player, settings: GameSettings, board: chess.Board
) -> tuple[list[PlayedPosition], int]:
    """Plays a new game from `board` to its end. Returns the recorded positions and the result for White."""
    for player in (white, black):
        player.new_game()
    start = format_fen(board)
    moves: list[str] = []
    played: list[PlayedPosition] = []
    seen: Counter[str] = Counter()
    while True:
        fen = format_fen(board)
        seen[fen.rsplit(" ", 2)[0]] += 1
        result = find_result_by_rules(board, seen)
        if result is not None:
            return played, result
        player = white if board.turn == chess.WHITE else black
        search = player.search(start, moves, settings.limits)
        move = parse_legal_move(player, board, search.move)
        played.append(PlayedPosition(fen, move.uci(), search.score, board.ply(), board.turn == chess.WHITE))
        result = adjudicate(played, settings)
        if result is not None:
            return played, result
        moves.append(move.uci())
        board.push(move)


def format_fen(board: chess.Board) -> str:
    """Returns the position as a FEN. Castling rights of Chess960 are written as files of rooks."""
    return board.shredder_fen() if board.chess960 else board.fen()


def parse_legal_move(player: Player, board: chess.Board, text: str | None) -> chess.Move:
    """Parses the move of an engine. Raises EngineError if the engine made no move or an illegal one."""
    try:
        move = chess.Move.null() if text is None else board.parse_uci(text)
    except ValueError:
        move = chess.Move.null()
    if not move:
        raise player.fault(f"{text or 'no move'!r} is not a legal move in {board.fen()}")
    return move
