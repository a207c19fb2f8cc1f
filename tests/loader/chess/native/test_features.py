"""Feature numbers against a slow computation with python-chess, and the vectors of the format's description."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import chess
import pytest

from loader import _native
from loader.chess.positions.inputs import entries
from tests.loader.chess.native.slow_threats import V10, V11, V16, pawn_pairs, threats
from tests.support.paths import DATA, VALIDATION


class FeatureSet(NamedTuple):
    """What the loader knows a set by."""

    name: str
    king_buckets: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {len(self.king_buckets)}"


# Rank by rank; the second for files a to d, as in bullet's examples.
WHOLE_BOARD = (0, 1, 2, 3, 3, 2, 1, 0, *(4,) * 12, *(5,) * 12, *(6,) * 16, *(7,) * 16)
MIRRORED = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)

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
    return slow_halfka(board, colour) | virtual_of(board, colour, 22528)


def virtual_of(board: chess.Board, colour: chess.Color, first: int) -> set[int]:
    features = set()
    king = board.king(colour)
    assert king is not None
    for square, piece in board.piece_map().items():
        plane = 2 * PIECES.index(piece.piece_type) + (piece.color != colour)
        seen = square ^ (0 if colour == chess.WHITE else 56) ^ (7 if king % 8 < 4 else 0)
        features.add(first + 64 * plane + seen)
    return features


@dataclass(frozen=True)
class SlowChess768:
    """chess768 for one layout of king buckets, on the board as that side sees it: own pieces are White's there; or
    chess704, with the enemy's king where the own one can stand."""

    king_buckets: tuple[int, ...] = ()
    virtual: bool = False
    kings_together: bool = False

    @property
    def inputs(self) -> int:
        return (704 if self.kings_together else 768) * (max(self.king_buckets, default=0) + 1)

    def __call__(self, board: chess.Board, colour: chess.Color) -> set[int]:
        seen = board if colour == chess.WHITE else board.mirror()
        king = seen.king(chess.WHITE)
        assert king is not None
        if len(self.king_buckets) == 32 and chess.square_file(king) >= 4:
            seen = seen.transform(chess.flip_horizontal)
            king = seen.king(chess.WHITE)
            assert king is not None
        files = {0: 0, 32: 4, 64: 8}[len(self.king_buckets)]
        bucket = self.king_buckets[files * chess.square_rank(king) + chess.square_file(king)] if files else 0
        plain = {
            384 * (piece.color != chess.WHITE) + 64 * PIECES.index(piece.piece_type) + square
            for square, piece in seen.piece_map().items()
        }
        planes = self.inputs // (max(self.king_buckets, default=0) + 1)
        real = {number - 384 if number >= planes else number for number in plain}
        return {planes * bucket + n for n in real} | {self.inputs + number for number in plain if self.virtual}


def slow_v10(board: chess.Board, colour: chess.Color) -> set[int]:
    return slow_halfka(board, colour) | {22528 + number for number in threats(board, colour, V10)}


def slow_v16(board: chess.Board, colour: chess.Color) -> set[int]:
    found = slow_halfka(board, colour) | {22528 + number for number in threats(board, colour, V16)}
    return found | {22528 + 59808 + number for number in pawn_pairs(board, colour)}


SLOW: dict[FeatureSet, Callable[[chess.Board, chess.Color], set[int]]] = {
    FeatureSet("HalfKAv2_hm"): slow_halfka,
    FeatureSet("HalfKAv2_hm^"): slow_factorised,
    FeatureSet("SFNNv10"): slow_v10,
    FeatureSet("SFNNv16"): slow_v16,
    FeatureSet("SFNNv16^"): lambda board, colour: slow_v16(board, colour) | virtual_of(board, colour, 86912),
    FeatureSet("chess768"): SlowChess768(),
    FeatureSet("chess768", MIRRORED): SlowChess768(MIRRORED),
    FeatureSet("chess768^", MIRRORED): SlowChess768(MIRRORED, virtual=True),
    FeatureSet("chess768", WHOLE_BOARD): SlowChess768(WHOLE_BOARD),
    FeatureSet("chess768^", WHOLE_BOARD): SlowChess768(WHOLE_BOARD, virtual=True),
    FeatureSet("chess704^", MIRRORED): SlowChess768(MIRRORED, virtual=True, kings_together=True),
    FeatureSet("chess704", MIRRORED): SlowChess768(MIRRORED, kings_together=True),
    FeatureSet("chess704", WHOLE_BOARD): SlowChess768(WHOLE_BOARD, kings_together=True),
}


def with_relations(
    pieces: SlowChess768, rules: Sequence[str], *, pairs: bool = True
) -> Callable[[chess.Board, chess.Color], set[int]]:
    """A sum: relations stand behind the real inputs of pieces, virtual inputs behind them at a multiple of 64."""
    sizes: dict[Sequence[str], int] = {V10: 79_856, V11: 66_864, V16: 59_808}
    first, size = pieces.inputs, sizes[rules]
    behind = -(-(first + size + 4_560 * pairs) // 64) * 64

    def slow(board: chess.Board, colour: chess.Color) -> set[int]:
        found = pieces(board, colour)
        found = {number if number < first else number - first + behind for number in found}
        found |= {first + number for number in threats(board, colour, rules)}
        return found | ({first + size + number for number in pawn_pairs(board, colour)} if pairs else set())

    return slow


SLOW |= {
    FeatureSet("HalfKAv2_hm + threats + pawn_pairs"): slow_v16,
    FeatureSet("chess768 + threats + pawn_pairs", MIRRORED): with_relations(SlowChess768(MIRRORED), V16),
    FeatureSet("chess768^ + threats + pawn_pairs", MIRRORED): with_relations(SlowChess768(MIRRORED, virtual=True), V16),
    FeatureSet("chess704 + threats + pawn_pairs", MIRRORED): with_relations(
        SlowChess768(MIRRORED, kings_together=True), V16
    ),
    FeatureSet("chess768 + threats_v11", MIRRORED): with_relations(SlowChess768(MIRRORED), V11, pairs=False),
    FeatureSet("chess768 + threats_v10", WHOLE_BOARD): with_relations(SlowChess768(WHOLE_BOARD), V10, pairs=False),
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


def check(board: chess.Board, features: FeatureSet) -> None:
    own, opponent, pieces, black_to_move = _native.extract_fen(board.fen(), *features)
    assert len(set(own.tolist())) == len(own)
    assert set(own.tolist()) == SLOW[features](board, board.turn), board.fen()
    assert set(opponent.tolist()) == SLOW[features](board, not board.turn), board.fen()
    assert pieces == len(board.piece_map())
    assert black_to_move == (board.turn == chess.BLACK)


@pytest.mark.parametrize("features", SLOW, ids=str)
def test_features_of_random_games_equal_a_slow_computation(features: FeatureSet) -> None:
    for board in random_positions(200):
        check(board, features)


@pytest.mark.parametrize("features", SLOW, ids=str)
def test_features_of_200_real_positions_equal_a_slow_computation(features: FeatureSet) -> None:
    for entry in islice(entries(VALIDATION), 0, 200 * 61, 61):
        check(chess.Board(entry.fen), features)


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
def test_threats_and_pawn_pairs_are_those_of_the_vectors(name: str, sets: dict[str, int]) -> None:
    """`sets`: where the numbers of each begin."""
    cases = json.loads((DATA / "vectors/sf_features.json").read_text())
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
    check(chess.Board(f"{board} w - - 0 1"), FeatureSet(name))


def test_feature_sets_are_found_by_name_with_their_sizes() -> None:
    assert _native.feature_sets() == [
        name + end for name in ("HalfKAv2_hm", "SFNNv10", "SFNNv16", "chess704", "chess768") for end in ("", "^")
    ]
    sizes = [_native.describe_feature_set(*features) for features in SLOW]
    assert sizes == [
        (22528, 32),
        (23296, 64),
        (102384, 160),
        (86896, 256),
        (87680, 288),
        (768, 32),
        (7680, 32),
        (8448, 64),
        (6144, 32),
        (6912, 64),
        (7808, 64),
        (7040, 32),
        (5632, 32),
        (86896, 256),
        (72048, 256),
        (72832, 288),
        (71408, 256),
        (74544, 160),
        (86000, 160),
    ]


FACTORISED = r"king_buckets: chess768\^ needs two or more different ones"


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (FeatureSet("HalfKP"), r"'HalfKP' is none of HalfKAv2_hm, HalfKAv2_hm\^, SFNNv10, SFNNv10\^"),
        (FeatureSet("HalfKAv2_hm", MIRRORED), "king_buckets: HalfKAv2_hm has its own"),
        (FeatureSet("chess768", MIRRORED[:8]), "king_buckets: 8 numbers; allowed are 64, or 32 for files a to d"),
        (FeatureSet("chess768", (0, 2) * 16), "king_buckets: no square has bucket 1; they are numbered from 0"),
        (FeatureSet("chess768", (1,) * 64), "king_buckets: no square has bucket 0"),
        (FeatureSet("chess768^"), FACTORISED),
        (FeatureSet("chess768^", (0,) * 32), FACTORISED),
        (
            FeatureSet("chess768 + threats"),
            "chess768 \\+ threats has 60576 inputs; .* 65536 are needed: set king_buckets",
        ),
        (
            FeatureSet("chess768 + pawn_pairs", MIRRORED),
            "behind the pieces may stand ' \\+ threats', ' \\+ threats_v11' or",
        ),
        (FeatureSet("chess768 + threats + threats", MIRRORED), "is none of"),
        (FeatureSet("chess768 + threats^", MIRRORED), "is none of"),
        (FeatureSet("threats + chess768", MIRRORED), "is none of"),
        (FeatureSet("SFNNv16 + threats"), "is none of"),
    ],
)
def test_settings_that_a_feature_set_cannot_have_are_refused(features: FeatureSet, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _native.describe_feature_set(*features)


def test_each_pieces_real_input_has_its_virtual_one_where_kings_share_a_plane() -> None:
    """Of king buckets whose squares are all next to each other: both kings are never in one."""
    adjacent = tuple(2 * (rank // 2) + file // 2 for rank in range(8) for file in range(4))
    virtual = _native.virtual_features("chess704", adjacent)
    for board in random_positions(200):
        own, opponent, pieces, _ = _native.extract_fen(board.fen(), "chess704^", adjacent)
        for bag in (own, opponent):
            assert sorted(virtual[bag[:pieces]].tolist()) == sorted(bag[pieces:].tolist()), board.fen()


@pytest.mark.parametrize(("key", "king_buckets"), [("chess768", ()), ("mirrored10", MIRRORED)])
def test_numbers_are_those_of_bullet(key: str, king_buckets: tuple[int, ...]) -> None:
    vectors = json.loads((DATA / "vectors/chess768.json").read_text())
    lines = (DATA / "vectors/positions.txt").read_text().splitlines()
    assert len(vectors) == 60
    for vector, line in zip(vectors, lines, strict=False):
        own, opponent, _, _ = _native.extract_fen(line.partition("|")[0].strip(), "chess768", king_buckets)
        assert sorted(own.tolist()) == sorted(pair[0] for pair in vector[key])
        assert sorted(opponent.tolist()) == sorted(pair[1] for pair in vector[key])


@pytest.mark.parametrize("fen", ["", "8/8/8/8/8/8/8/8 w - - 0 1", "4k3/8/8/8/8/8/8/4K2X w - - 0 1", "4k3/8/8 w - -"])
def test_a_malformed_fen_is_one_clear_line(fen: str) -> None:
    with pytest.raises(ValueError, match=r"^FEN '[^\n]*': [^\n]+$"):
        _native.extract_fen(fen, "HalfKAv2_hm")
