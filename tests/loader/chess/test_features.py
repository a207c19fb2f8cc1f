"""Feature numbers against a slow computation with python-chess, and the vectors of the format's description."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import chess
import pytest

from loader import _native
from loader.formats.binpack.file import entries
from tests.loader.chess.slow_threats import V10, V16, pawn_pairs, threats

SAMPLE = Path(__file__).resolve().parents[3] / "configs/sample/validation.binpack"

PIECES = [chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]


def slow_halfka(board: chess.Board, colour: chess.Color) -> set[int]:
    king = board.king(colour)
    assert king is not None
    mirrored = chess.square_file(king) <= 3

    def orient(square: int) -> int:
        square = square if colour == chess.WHITE else chess.square_mirror(square)
        return chess.square(7 - chess.square_file(square), chess.square_rank(square)) if mirrored else square

    own = orient(king)
    bucket = (7 - chess.square_rank(own)) * 4 + 7 - chess.square_file(own)
    features = set()
    for square, piece in board.piece_map().items():
        plane = 10 if piece.piece_type == chess.KING else 2 * PIECES.index(piece.piece_type) + (piece.color != colour)
        features.add(704 * bucket + 64 * plane + orient(square))
    return features


def slow_factorised(board: chess.Board, colour: chess.Color) -> set[int]:
    features = slow_halfka(board, colour)
    king = board.king(colour)
    assert king is not None
    for square, piece in board.piece_map().items():
        plane = 2 * PIECES.index(piece.piece_type) + (piece.color != colour)
        seen = square ^ (0 if colour == chess.WHITE else 56) ^ (7 if king % 8 < 4 else 0)
        features.add(22528 + 64 * plane + seen)
    return features


def slow_chess768(board: chess.Board, colour: chess.Color) -> set[int]:
    return {
        128 * PIECES.index(piece.piece_type)
        + 64 * (piece.color != colour)
        + (square if colour == chess.WHITE else chess.square_mirror(square))
        for square, piece in board.piece_map().items()
    }


def slow_v10(board: chess.Board, colour: chess.Color) -> set[int]:
    return slow_halfka(board, colour) | {22528 + number for number in threats(board, colour, V10)}


def slow_v16(board: chess.Board, colour: chess.Color) -> set[int]:
    found = slow_halfka(board, colour) | {22528 + number for number in threats(board, colour, V16)}
    return found | {22528 + 59808 + number for number in pawn_pairs(board, colour)}


SLOW = {
    "HalfKAv2_hm": slow_halfka,
    "HalfKAv2_hm^": slow_factorised,
    "SFNNv10": slow_v10,
    "SFNNv16": slow_v16,
    "chess768": slow_chess768,
}


def random_positions(count: int) -> Iterator[chess.Board]:
    """Positions of random games: all stages, kings everywhere."""
    pick = random.Random(1)
    board = chess.Board()
    while count:
        moves = list(board.legal_moves)
        if not moves or board.is_insufficient_material():
            board = chess.Board()
            continue
        board.push(pick.choice(moves))
        if pick.random() < 0.1:
            yield board
            count -= 1


def check(board: chess.Board, name: str) -> None:
    own, opponent, pieces, black_to_move = _native.extract_fen(board.fen(), name)
    assert len(set(own.tolist())) == len(own)
    assert set(own.tolist()) == SLOW[name](board, board.turn), board.fen()
    assert set(opponent.tolist()) == SLOW[name](board, not board.turn), board.fen()
    assert pieces == len(board.piece_map())
    assert black_to_move == (board.turn == chess.BLACK)


@pytest.mark.parametrize("name", SLOW)
def test_features_of_random_games_equal_a_slow_computation(name: str) -> None:
    for board in random_positions(200):
        check(board, name)


@pytest.mark.parametrize("name", SLOW)
def test_features_of_200_real_positions_equal_a_slow_computation(name: str) -> None:
    for entry in islice(entries(SAMPLE), 0, 200 * 61, 61):
        check(chess.Board(entry.fen), name)


def test_the_vectors_of_the_format_are_met() -> None:
    start = [*range(21832, 21840), *range(21936, 21944), 21953, 21958, 22073, 22078, 22082, 22085, 22202, 22205]
    start += [22208, 22215, 22328, 22335, 22339, 22459, 22468, 22524]
    own, opponent, pieces, _ = _native.extract_fen(chess.STARTING_FEN, "HalfKAv2_hm")
    assert sorted(own.tolist()) == sorted(opponent.tolist()) == start
    assert pieces == 32
    own, opponent, pieces, black = _native.extract_fen("r3k3/8/8/8/8/8/5p2/2K5 b q - 0 1", "HalfKAv2_hm")
    assert sorted(own.tolist()) == [21877, 22208, 22468, 22522]
    assert sorted(opponent.tolist()) == [21194, 21631, 21765, 21819]
    assert (pieces, black) == (4, True)


@pytest.mark.parametrize(
    ("name", "sets"), [("SFNNv10", {"Threats_v10": 22528}), ("SFNNv16", {"Threats_v16": 22528, "PP_3Wide": 82336})]
)
def test_threats_and_pawn_pairs_are_those_of_the_vectors(name: str, sets: dict[str, int], shared_data: Path) -> None:
    """`sets`: where the numbers of each begin."""
    cases = json.loads((shared_data / "vectors/sf_features.json").read_text())
    assert len(cases) == 63
    for case in cases:
        own, opponent, _, black = _native.extract_fen(case["fen"], name)
        for found, colour in ((own, "black" if black else "white"), (opponent, "white" if black else "black")):
            expected = set(case[colour]["HalfKAv2_hm"])
            for part, first in sets.items():
                expected |= {first + number for number in case[colour][part]}
            assert set(found.tolist()) == expected, case["fen"]


@pytest.mark.parametrize(
    "board",
    ["qqqqkqqq/qqqqqqqq/8/8/8/8/QQQQQQQQ/QQQQKQQQ", "4k3/pppppppp/pppppp2/8/PPPPPPPP/PPPPPP2/8/4K3"],
    ids=["queens", "pawns"],
)
@pytest.mark.parametrize("name", ["SFNNv10", "SFNNv16"])
def test_a_position_of_no_game_has_all_its_relations_too(board: str, name: str) -> None:
    check(chess.Board(f"{board} w - - 0 1"), name)


def test_feature_sets_are_found_by_name_with_their_sizes() -> None:
    sizes = {name: _native.describe_feature_set(name) for name in _native.feature_sets()}
    assert sizes == {
        "HalfKAv2_hm": (22528, 32),
        "HalfKAv2_hm^": (23296, 64),
        "SFNNv10": (102384, 160),
        "SFNNv16": (86896, 256),
        "chess768": (768, 32),
    }
    with pytest.raises(ValueError, match=r"'HalfKP' is none of HalfKAv2_hm, HalfKAv2_hm\^, SFNNv10, SFNNv16, chess768"):
        _native.describe_feature_set("HalfKP")


@pytest.mark.parametrize("fen", ["", "8/8/8/8/8/8/8/8 w - - 0 1", "4k3/8/8/8/8/8/8/4K2X w - - 0 1", "4k3/8/8 w - -"])
def test_a_malformed_fen_is_one_clear_line(fen: str) -> None:
    with pytest.raises(ValueError, match=r"^FEN '[^\n]*': [^\n]+$"):
        _native.extract_fen(fen, "HalfKAv2_hm")
