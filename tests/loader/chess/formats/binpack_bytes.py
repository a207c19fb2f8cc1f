"""Binpack bytes for tests, put together by hand: independent of the project's own writer."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import chess

START = chess.Board()

# The worked example of the format's description: ten plies of an odd game, 64 bytes.
EXAMPLE = bytes.fromhex(
    "42494e5038000000"
    "ffff00000000ffff2d844ad200000000111111113e955be3"
    "0c70004680000000"
    "000a"
    "0afec2340be84c454c2cce6287e22553a8b4d4e5fcbc"
)
EXAMPLE_MOVES = ["e2e4", "a7a6", "e4e5", "d7d5", "e5d6", "c7d6", "g1f3", "b8c6", "f1c4", "g8f6", "e1g1"]
EXAMPLE_SCORES = [35, -41, 60, -20, 300, -310, 28, -300, 2, -9, 32002]


@dataclass(frozen=True)
class Stem:
    """The first entry of a chain; every field may hold nonsense."""

    codes: dict[int, int]  # square -> packed code
    move: int = 0
    score: int = 0  # as stored
    ply_result: int = 0
    rule50: int = 0
    count: int = 0

    def bytes(self) -> bytes:
        occupied = sum(1 << square for square in self.codes)
        packed = sum(code << (4 * i) for i, (_, code) in enumerate(sorted(self.codes.items())))
        fields = struct.pack(">5H", self.move, self.score, self.ply_result, self.rule50, self.count)
        return struct.pack(">Q", occupied) + (packed % (1 << 128)).to_bytes(16, "little") + fields


def chunk(payload: bytes) -> bytes:
    """A chunk with a right header."""
    return b"BINP" + struct.pack("<I", len(payload)) + payload


def codes(board: chess.Board) -> dict[int, int]:
    """Plain piece codes, with black to move told by code 15."""
    plain = {square: 2 * (piece.piece_type - 1) + (not piece.color) for square, piece in board.piece_map().items()}
    if board.turn == chess.BLACK:
        plain[board.king(chess.BLACK) or 0] = 15
    return plain


def move_word(uci: str, kind: int = 0, promotion: int = 0) -> int:
    """A stem's move: kind 0 normal, 1 promotion, 2 castling (king takes rook), 3 en passant."""
    move = chess.Move.from_uci(uci)
    return kind << 14 | move.from_square << 8 | move.to_square << 2 | promotion


def text(*fields: tuple[int, int]) -> bytes:
    """Move text of (value, bits) fields, padded with zero bits."""
    bits = "".join(f"{value:0{width}b}" for value, width in fields if width)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
