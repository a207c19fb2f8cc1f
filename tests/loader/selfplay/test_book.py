"""Opening books: what is read, and which line is wrong."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from loader.errors import DataError
from loader.selfplay.book import read_book

START = chess.STARTING_FEN
KINGS = "4k3/8/8/8/8/8/4P3/4K3 w - -"
PGN = """[Event "one"]

1. e4 e5 (1... c5) 2. Nf3 *

[Event "two"]
[FEN "4k3/8/8/8/8/8/4P3/4K3 w - - 0 11"]

11. e4 { a comment
of two lines } *


"""


def book(folder: Path, text: str | bytes, name: str = "book.epd") -> tuple[str, ...]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    read = read_book(path)
    read.check(max_ply=400)
    return tuple(read.board(number).fen() for number in range(len(read.positions)))


def test_epd_and_fen_lines_are_read(tmp_path: Path) -> None:
    text = f'\ufeff# a comment\n{KINGS} bm e4; id "x";\n\n{KINGS} hmvc 3; fmvn 9;\r\n{KINGS} 4 12\n{START}\n'
    assert book(tmp_path, text) == (f"{KINGS} 0 1", f"{KINGS} 3 9", f"{KINGS} 4 12", START)


@pytest.mark.parametrize("name", ["book.pgn", "book.txt"])
def test_each_game_of_a_pgn_file_gives_its_last_position(name: str, tmp_path: Path) -> None:
    first = "rnbqkbnr/pppp1ppp/8/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq - 1 2"
    assert book(tmp_path, PGN, name) == (first, "4k3/8/8/8/4P3/8/8/4K3 b - - 0 11")
    assert book(tmp_path, "1. e4 e5 2. Nf3 *\n", "bare.pgn") == (first,)


WRONG: dict[str, str | bytes] = {
    "line 2: ": f"{START}\nno position\n",
    "line 1: no legal position: no white king": "4k3/8/8/8/8/8/8/8 w - -",
    "line 3: no legal position: opposite check": f"{START}\n\n4k3/4R3/8/8/8/8/8/4K3 w - - 0 1\n",
    "line 1: the game is over there": "7k/5KQ1/8/8/8/8/8/8 b - - 0 1",
    "line 2: the game is over there": f"{START}\n4k3/8/8/8/8/8/8/4K2R w K - 100 90\n",
    "line 1: ply 400 is not below --max-ply 400": f"{KINGS} 0 201",
    "line 4: is not UTF-8 text": f"{START}\n\n\n".encode() + b"\xff",
    "holds no positions": "\n# nothing\n",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_line_is_named(words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        book(tmp_path, WRONG[words])
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("11. e4", "11. e5", "line 5: illegal san: 'e5'"),
        ("Nf3", "Nf6", "line 1: illegal san: 'Nf6'"),
        ("4k3/8/8", "4k3/8", "line 5: "),
        ("e4 e5 (1... c5) 2. Nf3", "f3 e5 2. g4 Qh4#", "line 1: the game is over there"),
    ],
)
def test_a_wrong_game_of_a_pgn_file_is_named_by_its_first_line(
    old: str, new: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert old in PGN
    with pytest.raises(DataError) as raised:
        book(tmp_path, PGN.replace(old, new), "book.pgn")
    assert words in str(raised.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_book_that_is_no_file_is_said_to_be_none(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "book.epd" if kind == "missing" else tmp_path
    with pytest.raises(DataError, match="No such file" if kind == "missing" else "is not a file"):
        read_book(path)
