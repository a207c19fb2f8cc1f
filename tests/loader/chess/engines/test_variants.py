"""Games of Chess960, and of double Fischer random chess, made by `loader generate`: what they begin with, and that each
format holds them as they were played."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import chess
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.chess.engines.game import format_fen
from loader.chess.engines.opening import Openings, Variant, start_position
from loader.chess.positions.entry import Entry
from loader.chess.positions.games_writer import encode
from loader.cli.main import main
from tests.support.programs.scripted_engine import write_engine

ENDINGS = ("viri", "pgn", "plain", "montyvalue")
SETTINGS = ["--nodes", "10", "--positions", "300", "--seed", "3", "--random-plies", "4", "--max-ply", "80"]


@given(st.sampled_from([Variant.CHESS960, Variant.DFRC]), st.integers())
def test_start_positions_are_those_of_the_variant(variant: Variant, seed: int) -> None:
    board = start_position(variant, random.Random(seed))
    assert board.is_valid()
    assert board.chess960
    ranks = board.board_fen().split("/")
    assert ranks[1:7] == ["pppppppp", "8", "8", "8", "8", "PPPPPPPP"]
    arrangements = {chess.Board.from_chess960_pos(number).board_fen().split("/")[0] for number in range(960)}
    assert {ranks[0], ranks[7].lower()} <= arrangements
    assert variant is Variant.DFRC or ranks[0] == ranks[7].lower()
    for color in chess.COLORS:
        assert board.has_kingside_castling_rights(color)
        assert board.has_queenside_castling_rights(color)


def test_arrangements_are_drawn_from_all() -> None:
    rng = random.Random(0)
    boards = [start_position(Variant.DFRC, rng).board_fen().split("/") for _ in range(5000)]
    assert len({ranks[0] for ranks in boards}) > 900
    assert sum(ranks[0] == ranks[7].lower() for ranks in boards) < 50


def test_an_opening_is_a_function_of_seed_and_number() -> None:
    def first(number: int, variant: Variant) -> str:
        return next(Openings("1", 6, None, variant).openings_of_game(number)).shredder_fen()

    found = [first(number, Variant.CHESS960) for number in range(30)]
    assert found == [first(number, Variant.CHESS960) for number in range(30)]
    assert len(set(found)) == 30
    assert set(found).isdisjoint(first(number, Variant.DFRC) for number in range(30))


def generate(folder: Path, name: str, engine: str, *more: str) -> Path:
    assert main(["generate", "-o", str(folder / name), "--engine", engine, *SETTINGS, *more]) == 0
    return folder / name


def entries(path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[chess.Board, str]]:
    """Positions and moves, as the loader reads them; `.plain` has the same ones in text."""
    out = path.with_name(f"{path.name}.read.plain")
    out.unlink(missing_ok=True)
    assert main(["convert", str(path), "-o", str(out)]) == 0
    capsys.readouterr()
    lines = [line.partition(" ")[::2] for line in out.read_text(encoding="utf-8").splitlines()]
    values = {name: [value for key, value in lines if key == name] for name in ("fen", "move")}
    for fen, move in zip(values["fen"], values["move"], strict=True):
        yield chess.Board(fen, chess960=True), move


def check_games(read: Sequence[tuple[chess.Board, str]]) -> int:
    """Every move is legal, and leads to the next position or to another game's first. Returns how often they castle."""
    castled = 0
    begins = 1
    for (board, text), (following, _) in pairwise(read):
        move = board.parse_uci(text)
        castled += board.is_castling(move)
        board.push(move)
        if board.shredder_fen() != following.shredder_fen():
            begins += 1
            assert following.ply() == 4 + (begins + 1) % 2  # either side begins
    assert 1 < begins < len(read) / 5
    return castled


@pytest.mark.parametrize("variant", ["chess960", "dfrc"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_each_format_holds_the_games_with_any_number_of_engines(
    ending: str, variant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = str(write_engine(tmp_path / "engine"))
    one = generate(tmp_path, f"one.{ending}", engine, "--variant", variant, "--engines", "1")
    three = generate(tmp_path, f"three.{ending}", engine, "--variant", variant, "--engines", "3")
    assert one.read_bytes() == three.read_bytes()
    assert main(["verify", str(one)]) == 0
    read = list(entries(one, capsys))
    assert len(read) == 300
    check_games(read)
    whole = one.stat().st_size
    assert main(["generate", "-o", str(one), "--engine", engine, *SETTINGS, "--variant", variant, "--append"]) == 0
    assert one.read_bytes()[:whole] == three.read_bytes()
    assert main(["verify", str(one)]) == 0
    assert len(list(entries(one, capsys))) == 600


@pytest.mark.parametrize("ending", ENDINGS)
def test_castling_is_written_as_it_was_played(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = chess.Board("1r2k1r1/pppppppp/8/8/8/8/PPPPPPPP/1R2K1R1 w GBgb - 0 5", chess960=True)
    played = []
    for move in ("e1g1", "e8b8"):
        played.append(Entry(format_fen(board), move, 7, board.ply(), 0))
        board.push_uci(move)
    path = tmp_path / f"a.{ending}"
    path.write_bytes(encode(played, "viriformat" if ending == "viri" else ending))
    read = list(entries(path, capsys))
    assert [move for _, move in read] == ["e1g1", "e8b8"]
    assert [format_fen(board) for board, _ in read] == [entry.fen for entry in played]


def test_stockfish_plays_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shutil.which("stockfish") or shutil.which("stockfish", path="/usr/games")
    if found is None:
        pytest.skip("needs the engine: apt-get install stockfish")
    path = generate(tmp_path, "made.pgn", found, "--variant", "dfrc", "--nodes", "50")
    assert check_games(list(entries(path, capsys))) > 0


def test_a_book_of_chess960_serves_with_the_variant_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "book.epd"
    board = chess.Board.from_chess960_pos(7)
    book.write_text(f"{board.fen()}\n", encoding="utf-8")
    words = ["generate", "-o", str(tmp_path / "a.plain"), "--engine", str(write_engine(tmp_path / "engine"))]
    words += ["--positions", "20", "--nodes", "10", "--book", str(book)]
    assert main(words) == 1
    assert "line 1: a Chess960 position, where no game of chess begins" in capsys.readouterr().err
    (tmp_path / "a.plain.part").unlink(missing_ok=True)
    (tmp_path / "a.plain.part.journal").unlink(missing_ok=True)
    assert main([*words, "--variant", "chess960"]) == 0
    first, _ = next(entries(tmp_path / "a.plain", capsys))
    assert first.shredder_fen() == board.shredder_fen()


def test_chess_goes_into_these_formats_too_and_has_scores_in_their_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = str(write_engine(tmp_path / "engine"))
    scores = {}
    for ending in ("binpack", "viri"):
        path = generate(tmp_path, f"a.{ending}", engine, "--win-plies", "0", "--draw-plies", "0")
        assert main(["dump", "--limit", "20", str(path)]) == 0
        scores[ending] = [int(line.split("\t")[2]) for line in capsys.readouterr().out.splitlines() if "\t" in line]
    assert len(scores["viri"]) == 20
    for internal, centipawns in zip(*scores.values(), strict=True):
        assert abs(internal - centipawns * 3.61) <= 1


@pytest.mark.parametrize("name", ["a.binpack", "a.bin", "a", "a.viri.gz", "a.bf", "a.epd"])
def test_a_format_that_cannot_hold_them_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["generate", "-o", str(tmp_path / name), "--engine", "x", "--positions", "1", "--variant", "dfrc"]
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}: generate writes games of dfrc as montyvalue, pgn, plain, viriformat: give such a name" in line
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_knows_no_chess960_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = write_engine(tmp_path / "engine")
    engine.write_text(
        engine.read_text().replace(
            "main([])", "import tests.support.programs.scripted_engine as s; s.OPTIONS = s.OPTIONS[:-1]; main([])"
        )
    )
    words = [
        "generate",
        "-o",
        str(tmp_path / "a.viri"),
        "--engine",
        str(engine),
        "--positions",
        "1",
        "--variant",
        "dfrc",
    ]
    assert main(words) == 2
    assert "UCI_Chess960" in capsys.readouterr().err
