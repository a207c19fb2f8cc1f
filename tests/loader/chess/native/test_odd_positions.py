"""Positions of no game, at every instruction set: batches are those that the plain code makes, byte for byte.

The vector code counts on bounds of games (16 pawns, 32 pieces, so many relations a bag) and leaves what exceeds them to
the plain code; these are at the bounds and past them.
"""

from __future__ import annotations

from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path

import chess
import pytest

from loader._native import extract_fen, pack_records, set_simd_level, simd_levels
from loader.chess.fields import batch_schema
from loader.chess.formats.text import FORMAT as TEXT
from loader.chess.positions.file import open_files
from loader.chess.source import ChessSource
from loader.files.identity import identify
from loader.stream.config import DataConfig
from loader.stream.native_stream import NativeStream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.chess.native.test_features import FeatureSet, check
from tests.loader.stream.batch_contents import digest

SETS = ("SFNNv10", "SFNNv16", "SFNNv16^")
GAME = (  # what the vector code is for
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq -",
    "8/8/8/8/8/8/8/KBk5 w - -",
    "K7/8/8/8/8/8/8/7k b - -",
    "k7/8/8/8/8/8/8/7K w - -",
    "8/8/8/3pP3/3Kk3/8/8/8 w - d6",
    "4k3/8/8/pppppppp/PPPPPPPP/8/8/4K3 w - -",
    "4k3/8/pppppppp/8/8/PPPPPPPP/8/4K3 b - -",
    "4k3/8/2pP1pP1/2Pp1Pp1/2pP1pP1/2Pp1Pp1/8/4K3 w - -",
    "r6k/1P6/8/8/8/8/1p6/R6K w - -",
    "qqqqkqqq/8/8/8/8/8/8/QQQQKQQQ w - -",
    "rbnqknbr/rbnqqnbr/8/8/8/8/RBNQQNBR/RBNQKNBR b - -",
)
LAST_RANKS = "pP2k2P/8/8/8/8/8/8/Pp2K2p w - -"
ODD = (
    "qqqqqqqq/qqqqqqqk/8/8/8/8/QQQQQQQQ/QQQQQQQK w - -",
    "k7/1q1q1q1q/q1q1q1q1/1q1q1q2/2Q1Q1Q1/1Q1Q1Q1Q/Q1Q1Q1Q1/7K w - -",
    "q1q1q1q1/1q1q1q1k/q1Q1q1Q1/1Q1q1Q1q/Q1q1Q1q1/1q1Q1q1Q/Q1Q1Q1Q1/K2Q1Q2 b - -",
    "n1n1n1n1/1n1n1n1k/n1N1n1N1/1N1n1N1n/N1n1N1n1/1n1N1n1N/N1N1N1N1/K2N1N2 w - -",
    "r1r1r1r1/1r1r1r1k/r1R1r1R1/1R1r1R1r/R1r1R1r1/1r1R1r1R/R1R1R1R1/K2R1R2 w - -",
    "b1b1b1b1/1b1b1b1k/b1B1b1B1/1B1b1B1b/B1b1B1b1/1b1B1b1B/B1B1B1B1/K2B1B2 b - -",
    "4k3/pppppppp/pppppp2/8/8/PPPPPP2/PPPPPPPP/4K3 w - -",
    "4k3/8/pPpPpPpP/PpPpPpPp/pPpPpPpP/8/8/4K3 b - -",
    "4k3/PpPPp3/PpPPp3/PpPPp3/PpPP4/8/8/4K3 w - -",
    LAST_RANKS,
    "4k3/8/8/PPPPPPPP/PPPPPPPP/P7/8/4K3 b - -",
    "NNNNkNNN/NNNNNNNN/8/8/8/8/nnnnnnnn/nnnnKnnn b - -",
    "8/3NRNR1/2NqNQKQ/2rkRNRN/1QNQNqnQ/2QnRnQ1/1p1QNQ2/8 w - -",  # more threats than a bag of SFNNv10 holds
    "8/3PpPPP/3Ppppp/3ppppP/3PppPP/2KpppPP/2kppppP/8 b - -",  # 30 pawns, 219 pairs
)
MIXED = tuple(fen for pair in zip(GAME, ODD, strict=False) for fen in pair) + ODD[len(GAME) :]


def config_of(features: str, batch_size: int) -> DataConfig:
    return data_config(batch_size=batch_size, shuffle=False, chess={"features": features})


def rows_and_digests(config: DataConfig, file: Path) -> tuple[list[list[int]], list[str]]:
    """Own bags then the opponents' of each batch, and what identifies it."""
    rows, digests = [], []
    reader = open_files(TEXT, identify([file]), may_grow=False, skip_damaged=False)  # keeps what no game can have
    source = ChessSource().native_source(config, [reader], seed=1)
    with closing(NativeStream(config, batch_schema(config), source, seed=1)) as stream:
        for batch in islice(read_batches(stream, 8), 8):
            (field,) = batch.sparse.values()
            borders = field.offsets.tolist()
            features = field.features.tolist()
            rows += [features[a:b] for a, b in pairwise(borders)]
            digests.append(digest(batch))
    return rows, digests


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("odd")
    lists = {"game": GAME * 2, "odd": ODD * 2, "mixed": MIXED}
    for name, fens in lists.items():
        lines = [f"{fen} 0 1 | {number} | 0.5\n" for number, fen in enumerate(fens)]
        (folder / f"{name}.txt").write_text("".join(lines))
    return {name: folder / f"{name}.txt" for name in lists}


@pytest.mark.usefixtures("restored_level")
@pytest.mark.parametrize("positions", ["game", "odd", "mixed"])
@pytest.mark.parametrize("batch_size", [1, 3, 8, 25])
@pytest.mark.parametrize("features", SETS)
def test_batches_are_those_of_the_plain_code(
    features: str, batch_size: int, positions: str, files: dict[str, Path]
) -> None:
    found = {}
    for level in simd_levels():
        set_simd_level(level)
        found[level] = rows_and_digests(config_of(features, batch_size), files[positions])
    expected, *others = found.values()
    assert len(expected[1]) == 8
    assert all(other == expected for other in others)


@pytest.mark.parametrize("fen", sorted({*GAME, *ODD} - {LAST_RANKS}))
def test_numbers_are_those_of_a_slow_computation(fen: str) -> None:
    board = chess.Board(f"{fen} 0 1")
    for features in SETS:
        check(board, FeatureSet(features))


def test_pawns_on_the_first_and_last_rank_have_no_relations() -> None:
    assert [len(extract_fen(f"{LAST_RANKS} 0 1", features)[0]) for features in SETS] == [8, 8, 16]


def test_more_than_32_pieces_are_refused() -> None:
    fen = "4k3/pppppppp/pppppppp/8/PPPPPPPP/PPPPPPP1/8/4K3 w - - 0 1"
    with pytest.raises(ValueError, match="more than 32 pieces"):
        pack_records([(fen, "0000", 0, 0, 0)])
    with pytest.raises(ValueError, match="more than 32 pieces"):
        extract_fen(fen, "SFNNv16")
