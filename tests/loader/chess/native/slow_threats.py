"""Threats and pawn pairs of Stockfish's networks, written down from their definition with python-chess."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

import chess

PIECES = [chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]
NO_TARGETS = "------"
V10 = ("01-2--", "012345", "0123-4", "0123-4", "012345", "0123--")  # rows: attacker P N B R Q K; columns: attacked
V11 = ("01-2--", "01234-", "0123--", "0123--", "01234-", "0123--")
V16 = ("-0-1--", "01234-", "0123--", "0123--", "01234-", NO_TARGETS)


def oriented(square: chess.Square, board: chess.Board, colour: chess.Color) -> chess.Square:
    """As that colour sees it: its king on the files a to d, its own side at the bottom."""
    king = board.king(colour)
    assert king is not None
    mirror = 7 if chess.square_file(king) > 3 else 0
    return square ^ mirror ^ (0 if colour == chess.WHITE else 56)


@cache
def targets(piece: str, square: chess.Square) -> list[chess.Square]:
    """Of a piece alone on the board; capitals go up. A pawn stands on neither the first nor the last rank."""
    board = chess.Board(None)
    board.set_piece_at(square, chess.Piece.from_symbol(piece))
    return [] if piece in "Pp" and chess.square_rank(square) in (0, 7) else list(board.attacks(square))


def threats(board: chess.Board, colour: chess.Color, rows: Sequence[str]) -> set[int]:
    first, base = 0, {}
    for symbol in "PNBRQKpnbrqk":  # own attackers, then the opponent's
        kinds = 2 * sum(place != "-" for place in rows["PNBRQK".index(symbol.upper())])
        base[symbol] = first, kinds
        first += kinds * sum(len(targets(symbol, square)) for square in chess.SQUARES)
    found = set()
    for start, attacker in board.piece_map().items():
        for end in board.attacks(start):
            attacked = board.piece_at(end)
            if attacked is None:
                continue
            place = rows[attacker.piece_type - 1][attacked.piece_type - 1]
            f, t = oriented(start, board, colour), oriented(end, board, colour)
            both_pawns = attacker.piece_type == chess.PAWN and attacker.color == attacked.color
            if place == "-" or (attacker.piece_type == attacked.piece_type and f < t and not both_pawns):
                continue
            symbol = chess.Piece(attacker.piece_type, attacker.color == colour).symbol()
            first, kinds = base[symbol]
            kind = int(place) + (0 if attacked.color == colour else kinds // 2)
            size = sum(len(targets(symbol, square)) for square in chess.SQUARES)
            before = sum(len(targets(symbol, square)) for square in range(f))
            found.add(first + kind * size + before + sorted(targets(symbol, f)).index(t))
    return found


def pawn_pairs(board: chess.Board, colour: chess.Color) -> set[int]:
    found = set()
    pawns = [(square, piece.color) for square, piece in board.piece_map().items() if piece.piece_type == chess.PAWN]
    for (one, its_colour), (other, others_colour) in combinations(pawns, 2):
        if abs(chess.square_file(one) - chess.square_file(other)) > 1:
            continue
        ids = [
            (0 if owner == colour else 48) + oriented(square, board, colour) - 8
            for square, owner in ((one, its_colour), (other, others_colour))
        ]
        found.add(max(ids) * (max(ids) - 1) // 2 + min(ids))
    return found
