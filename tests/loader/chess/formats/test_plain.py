"""Positions as Stockfish's tools print them, six lines each."""

from __future__ import annotations

import gzip
from pathlib import Path

import chess
import pytest

from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError
from tests.support.positions import encode, sample

Capture = pytest.CaptureFixture[str]
START = chess.STARTING_FEN
BLACK = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
TEXT = f"""fen {START}
move e2e4
score 26
ply 0
result 1
e
fen {BLACK}
move e7e5
score 32002
ply 1
result -1
e
"""
ENTRIES = [Entry(START, "e2e4", 26, 0, 1), Entry(BLACK, "e7e5", NO_SCORE, 1, -1)]


def written(tmp_path: Path, text: str | bytes, name: str = "some.plain") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lines_are_the_mover_s_numbers(tmp_path: Path) -> None:
    for text in (TEXT, TEXT.replace("\n", "\r\n"), f"\ufeff{TEXT}\n\n", TEXT[:-1]):
        assert list(entries(written(tmp_path, text))) == ENTRIES
    assert list(entries(written(tmp_path, TEXT, "data"))) == ENTRIES, "known by its content"
    assert encode("plain", ENTRIES).decode() == TEXT
    assert list(entries(written(tmp_path, gzip.compress(TEXT.encode()), "some.plain.gz"))) == ENTRIES


@pytest.mark.parametrize("into", ["binpack", "viri", "montyvalue", "psv", "pgn"])
def test_it_holds_what_other_formats_hold(tmp_path: Path, into: str) -> None:
    first = written(tmp_path, encode("plain", sample(3000)))
    made, back = tmp_path / f"made.{into}", tmp_path / "back.plain.zst"
    assert main(["convert", str(first), "-o", str(made)]) == 0
    assert main(["convert", str(made), "-o", str(back)]) == 0
    assert len(list(entries(back))) == 3000
    assert list(entries(back)) == list(entries(first))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("move e7e5", "mov e7e5", "expected the line 'move', got 'mov e7e5'"),
        ("move e7e5", "move e7", "a move is written like e2e4"),
        ("score 32002", "score 1.5", "score must be -32768 to 32767, not '1.5'"),
        ("score 32002", "score", "score must be -32768 to 32767, not ''"),
        ("ply 1", "ply -1", "ply must be 0 to 65535, not '-1'"),
        ("result -1", "result 2", "result must be -1 to 1, not '2'"),
        ("result -1\ne\n", "result -1\n", "expected the line 'e', got ''"),
        ("result -1\ne\n", "result -1\nend\n", "expected the line 'e', got 'end'"),
        (BLACK, "8/8/8/8/8/8/8/8 w - - 0 1", "a side has not exactly one king"),
    ],
)
def test_damage_is_told_with_the_position(tmp_path: Path, old: str, new: str, said: str) -> None:
    for name, pack in (("some.plain", bytes), ("some.plain.gz", gzip.compress)):
        path = written(tmp_path, pack(TEXT.replace(old, new).encode()), name)
        found: list[Entry] = []
        with pytest.raises(DataError, match="position 2: ") as raised:
            found.extend(entries(path))
        assert said in str(raised.value)


def test_positions_can_be_left_out_of_it(tmp_path: Path, capsys: Capture) -> None:
    path, made = written(tmp_path, encode("plain", sample(500))), tmp_path / "made.plain"
    assert main(["filter", str(path), "-o", str(made), "--where", "score > 0"]) == 0
    capsys.readouterr()
    assert [entry.score for entry in entries(made)] == [
        entry.score for entry in sample(500) if 0 < entry.score != NO_SCORE
    ]
