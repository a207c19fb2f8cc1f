"""Opening books: what is read, and which line is wrong."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import chess
import pytest

from loader.chess.engines.book import read_book
from loader.errors import DataError

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
    "line 2: is not text: it has a byte 0": f"{START}\n4k\0".encode(),
    "is UTF-16 text: save it as UTF-8": START.encode("utf-16"),
    "is compressed; give what `gzip -dc` makes of it": gzip.compress(START.encode()),
    "is compressed; give what `bzip2 -dc` makes of it": bz2.compress(START.encode()),
    "is compressed; give what `zstd -dc` makes of it": b"\x28\xb5\x2f\xfd\x04\x00",
    "'rnbqkbnr/pppпpppp/8/8/8/8/PPPPPPPP/RNBQKBNR'": START.replace("pppppppp", "pppпpppp"),
    "line 1: a Chess960 position, where no": "bbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w HFhf - 0 1",
    "line 2: a Chess960 position, where no": f"{START}\nbbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w KQkq -",
    "holds no positions": "\n# nothing\n",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_line_is_named(words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        book(tmp_path, WRONG[words])
    assert words in str(raised.value)


AFTER_D4 = "rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1"
AFTER_C5 = "rnbqkbnr/pp1ppppp/8/2p5/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
GAMES = {
    "one empty line": '[Event "a"]\n\n1. d4 *\n\n[Event "b"]\n\n1. e4 c5 *\n',
    "many, with blanks": '\n[Event "a"]\n \n\t\n\n1. d4 *\n\n\n\n[Event "b"]\n\n\n1. e4 c5 *',
    "between tags and moves": '[Event "a"]\n\n\n[Result "*"]\n\n1. d4 *\n[Event "b"]\n1.\n\ne4\n\n1... c5 *\n',
    "none, without tags": "1. d4 *\n1. e4 c5 1-0\n",
    "no results": "1. d4\n\n1. e4\n\n\nc5\n",
    "comments": '[Event "a"]\n{ [%e 0]\n\n[Event ""]\n1. a3 } 1. d4 {; 1} * ; {\n\n[Event "b"]\n1. e4 (1. c4 {)}) c5\n',
    "escapes": '% one\n[Event "a"]\n%[Event "no"]\n\n% two\n1. d4 *\n; three\n\n[Event "b"]\n\n1. e4\n%1. e5\nc5 *\n',
    "games without moves": '[Event "x"]\n\n*\n\n[Event "a"]\n\n1. d4 *\n[Event "x"]\n{} 1-0\n1. e4 c5 *\n[Event "x"]',
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kind", GAMES)
def test_the_games_of_a_pgn_file_are_those_with_moves_however_it_is_laid_out(
    kind: str, end: str, tmp_path: Path
) -> None:
    assert book(tmp_path, f"\ufeff{GAMES[kind]}".replace("\n", end), "book.pgn") == (AFTER_D4, AFTER_C5)


def test_the_mark_at_the_end_of_a_file_of_dos_is_no_game(tmp_path: Path) -> None:
    path = tmp_path / "book.pgn"
    path.write_bytes(b"1. d4 *\r\n1. e4 c5 *\r\n\x1a")
    assert (read_book(path).positions, read_book(path).empty) == ((AFTER_D4, AFTER_C5), 0)


def test_a_pgn_file_may_be_latin_1_and_its_games_may_have_positions_of_their_own(tmp_path: Path) -> None:
    text = f'[White "Réti, Älö"]\n\n1. d4 *\n\n[FEN "{KINGS} 0 9"]\n[Variant "From Position"]\n\n*\n'
    chess960 = f'[Variant "Chess960"]\n[FEN "{START}"]\n\n1. e4 c5 *\n'
    assert book(tmp_path, (text + chess960).encode("latin-1"), "book.pgn") == (AFTER_D4, f"{KINGS} 0 9", AFTER_C5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[Variant "Atomic"]\n\n1. e4 *\n', "line 1: a game of Atomic, which is other chess"),
        ("1. d4 *\n\n1. e4 { no end\n\n1. d4 *\n", "line 3: a comment has no end"),
        ('[Event "x"]\n\n*\n\n\n[Event "y"]\n', "holds no positions"),
        (
            '[Variant "Chess960"]\n[FEN "bbqnnrkr/pppppppp/8/8/8/8/PPPPPPPP/BBQNNRKR w HFhf - 0 1"]\n\n1. e4 *\n',
            "line 1: a Chess960 position",
        ),
    ],
)
def test_a_pgn_file_that_gives_no_positions_is_told_why(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        book(tmp_path, text, "book.pgn")
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
    with pytest.raises(DataError, match="No such file" if kind == "missing" else "Is a directory"):
        read_book(path)
