"""Writing binpack files: the reference writer's bytes, and everything that is written is read again."""

from __future__ import annotations

import random
from pathlib import Path

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader._native import play
from loader.chess.positions.entry import Entry
from loader.chess.positions.format import BINPACK
from loader.chess.positions.games_writer import encode, rechunk
from loader.chess.positions.inputs import entries
from loader.errors import DataError
from tests.loader.chess.formats.binpack_bytes import EXAMPLE, Stem, chunk
from tests.support.binpack_file import BinpackFile, make_writer
from tests.support.paths import SAMPLE

# Starts from which promotions, en passant and castling are a few plies away.
STARTS = (
    chess.STARTING_FEN,
    "r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R b Kq - 3 20",
    "4k3/PPPPPPPP/8/8/8/8/pppppppp/4K3 w - - 0 1",
    "4k3/2p1p1p1/8/1P1P1P1P/p1p1p1p1/8/1P1P1P1P/4K3 w - - 0 1",
    "4k3/ppp3pp/8/3PP3/3pp3/8/PPP3PP/4K3 b - - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "k7/8/8/8/8/8/8/K7 b - - 99 80",
)


def same(entry: Entry) -> Entry:
    """The entry without the FEN's move number, which the format does not hold."""
    return Entry(" ".join(entry.fen.split()[:5]), entry.move, entry.score, entry.ply, entry.result)


def round_trip(folder: Path, given_entries: list[Entry]) -> list[Entry]:
    (folder / "out.binpack").write_bytes(encode(given_entries, BINPACK))
    return list(entries(folder / "out.binpack"))


def random_game(rng: random.Random, plies: int) -> list[Entry]:
    """Random legal moves with special ones preferred, odd scores, and now and then an entry left out."""
    board = chess.Board(rng.choice(STARTS))
    result = rng.choice((-1, 0, 1))
    game: list[Entry] = []
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            break
        special = [m for m in moves if m.promotion or board.is_castling(m) or board.is_en_passant(m)]
        move = rng.choice(special if special and rng.random() < 0.5 else moves)
        score = rng.choice((0, 32002, -32768, 32767, rng.randint(-40, 40), rng.randint(-32768, 32767)))
        if rng.random() < 0.95:
            game.append(Entry(board.fen(), move.uci(), score, board.ply(), result if board.turn else -result))
        board.push(move)
    return game


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("writer")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), games=st.integers(1, 4), plies=st.integers(1, 80))
def test_what_is_written_is_read_again(folder: Path, seed: int, games: int, plies: int) -> None:
    rng = random.Random(seed)
    written = [entry for _ in range(games) for entry in random_game(rng, plies)]
    assert [same(entry) for entry in round_trip(folder, written)] == [same(entry) for entry in written]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_moves_are_played_as_python_chess_plays_them(seed: int) -> None:
    for entry in random_game(random.Random(seed), 60):
        board = chess.Board(entry.fen)
        board.push_uci(entry.move)
        assert play(entry.fen, entry.move).split()[:5] == board.fen().split()[:5]


def test_special_moves_occur_in_the_random_games() -> None:
    kinds = {"promotion": 0, "en passant": 0, "castling": 0}
    for seed in range(50):
        for entry in random_game(random.Random(seed), 60):
            board = chess.Board(entry.fen)
            move = chess.Move.from_uci(entry.move)
            kinds["promotion"] += move.promotion is not None
            kinds["en passant"] += board.is_en_passant(move)
            kinds["castling"] += board.is_castling(move)
    assert min(kinds.values()) > 10, kinds


def test_reading_and_writing_real_data_gives_the_same_bytes(shared_data: Path) -> None:
    assert b"".join(rechunk(shared_data / "small.binpack", BINPACK)) == (shared_data / "small.binpack").read_bytes()


def test_writing_entries_from_text_gives_the_same_bytes(tmp_path: Path) -> None:
    round_trip(tmp_path, list(entries(SAMPLE / "validation.binpack")))
    assert (tmp_path / "out.binpack").read_bytes() == (SAMPLE / "validation.binpack").read_bytes()


def test_the_worked_example_is_written_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "example.binpack").write_bytes(EXAMPLE)
    round_trip(tmp_path, list(entries(tmp_path / "example.binpack")))
    assert (tmp_path / "out.binpack").read_bytes() == EXAMPLE


def test_a_chunk_is_closed_before_the_first_chain_after_one_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "four.binpack").write_bytes(4 * (SAMPLE / "train.binpack").read_bytes())
    (tmp_path / "out.binpack").write_bytes(b"".join(rechunk(tmp_path / "four.binpack", BINPACK)))
    file = BinpackFile(tmp_path / "out.binpack")
    sizes = [file.chunk(i)[1] for i in range(file.num_chunks)]
    assert len(sizes) >= 2
    assert all(1 << 20 <= size < (1 << 20) + 2000 for size in sizes[:-1])
    assert 0 < sizes[-1] < (1 << 20) + 2000


def test_a_chain_of_more_than_65535_followers_is_continued_by_a_new_one() -> None:
    board = chess.Board("4k3/8/8/8/8/8/8/4K2R w - - 0 1")
    loop = ["h1h2", "e8e7", "h2h1", "e7e8"]
    written = []
    for ply in range(4):
        written.append((board.fen().rsplit(" ", 2)[0], loop[ply]))
        board.push_uci(loop[ply])
    writer = make_writer()
    for i in range(65_536 + 3):
        placement, move = written[i % 4]
        writer.add(f"{placement} 0 1", move, 0, i % 65_536, 0)
    assert writer.chains == 2
    assert writer.entries == 65_536 + 3


CAN_NOT_BE_STORED = {
    "a FEN has 4 to 6 fields": ("8/8/8 w", "e2e4", 0, 0, 0),
    "a rank has more than 8 squares": ("ppppppppp/8/8/8/8/8/8/kK6 w - - 0 1", "0000", 0, 0, 0),
    "there are not 8 ranks": ("8/8/8/8/8/8/kK6 w - - 0 1", "0000", 0, 0, 0),
    "no piece has the letter x": ("x7/8/8/8/8/8/8/kK6 w - - 0 1", "0000", 0, 0, 0),
    "not exactly one king": ("8/8/8/8/8/8/8/K7 w - - 0 1", "0000", 0, 0, 0),
    "the side to move": ("8/8/8/8/8/8/8/kK6 x - - 0 1", "0000", 0, 0, 0),
    "castling rights must be": ("8/8/8/8/8/8/8/kK6 w X - 0 1", "0000", 0, 0, 0),
    "castling right without a rook": ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "0000", 0, 0, 0),
    "the en-passant field": ("8/8/8/8/8/8/8/kK6 w - e9 0 1", "0000", 0, 0, 0),
    "en-passant square without a pawn": ("8/8/8/8/8/8/8/kK6 w - e6 0 1", "0000", 0, 0, 0),
    "the half-move clock": ("8/8/8/8/8/8/8/kK6 w - - x 1", "0000", 0, 0, 0),
    "a move is written like": (chess.STARTING_FEN, "e2", 0, 0, 0),
    "a promotion's letter": (chess.STARTING_FEN, "e7e8k", 0, 0, 0),
    "score must be": (chess.STARTING_FEN, "e2e4", 32768, 0, 0),
    "ply must be": (chess.STARTING_FEN, "e2e4", 0, -1, 0),
    "ply at the start of a chain": (chess.STARTING_FEN, "e2e4", 0, 16384, 0),
    "result must be": (chess.STARTING_FEN, "e2e4", 0, 0, 2),
    "more than 32 pieces": ("pppppppp/pppppppp/pppppppp/pppppppp/p7/8/8/kK6 w - - 0 1", "0000", 0, 0, 0),
}


@pytest.mark.parametrize("reason", CAN_NOT_BE_STORED)
def test_an_entry_the_format_can_not_hold_is_refused_and_changes_nothing(reason: str) -> None:
    writer = make_writer()
    with pytest.raises(ValueError, match=reason):
        writer.add(*CAN_NOT_BE_STORED[reason])
    writer.finish()
    assert (writer.entries, writer.take()) == (0, b"")


def test_rare_castling_rights_and_en_passant_squares_survive(tmp_path: Path) -> None:
    fens = [
        "r3k2r/8/8/8/8/8/8/R3K2R b Qk - 7",
        "r2k3r/8/8/8/8/8/8/R3K2R w KQkq - 0",
        "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0",
        "4k3/8/8/8/3Pp3/8/8/4K3 b - d3 0",
        "4k3/8/8/8/3P4/8/8/4K3 w - d3 255",
    ]
    read = round_trip(tmp_path, [Entry(fen, "0000", 0, 0, 0) for fen in fens])
    assert [" ".join(entry.fen.split()[:5]) for entry in read] == fens


def test_games_in_chunks_of_their_own_are_packed_as_if_written_one_after_another(tmp_path: Path) -> None:
    rng = random.Random(7)
    games = [random_game(rng, 60) for _ in range(40)]
    (tmp_path / "games").write_bytes(b"".join(encode(game, BINPACK) for game in games))
    round_trip(tmp_path, [entry for game in games for entry in game])
    assert b"".join(rechunk(tmp_path / "games", BINPACK)) == (tmp_path / "out.binpack").read_bytes()
    (tmp_path / "games").write_bytes(encode(games[0], BINPACK) + b"BI")
    with pytest.raises(DataError, match="expected the 8 bytes that a chunk begins with"):
        list(rechunk(tmp_path / "games", BINPACK))


def test_copying_a_damaged_file_says_where(tmp_path: Path) -> None:
    bad = tmp_path / "bad.binpack"
    bad.write_bytes(EXAMPLE + chunk(Stem({chess.E1: 10, chess.E8: 11}, count=1).bytes()))
    with pytest.raises(DataError, match=r"offset 72: move does not start on an own piece"):
        list(rechunk(bad, BINPACK))
    bad.write_bytes(EXAMPLE + b"BI")
    with pytest.raises(DataError, match="offset 64: expected the 8 bytes"):
        list(rechunk(bad, BINPACK))
