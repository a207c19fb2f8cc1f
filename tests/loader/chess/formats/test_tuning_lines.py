"""Lines of text with a position and its result alone: EPD with c9, and a result in brackets."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError

BOARD = "rnb1kbnr/pp1pppp1/7p/2q5/5P2/N1P1P3/P2P2PP/R1BQKBNR"
RESULTS = {"1-0": 1, "1/2-1/2": 0, "0-1": -1, "*": None, "1.0": 1, "0.5": 0, "0": -1}


def read(tmp_path: Path, text: str) -> list[Entry]:
    path = tmp_path / "positions.epd"
    path.write_text(text)
    return list(entries(path, "text"))


@pytest.mark.parametrize("side", ["w", "b"])
@pytest.mark.parametrize("word", RESULTS)
def test_the_result_is_white_s_and_there_is_no_score(tmp_path: Path, word: str, side: str) -> None:
    white = RESULTS[word]
    result = white if side == "w" or white is None else -white
    fens = [f"{BOARD} {side} KQkq -", f"{BOARD} {side} KQkq - 3 20"]
    ways = [*(f'{fen} c9 "{word}"{tail}' for fen in fens for tail in ("", ";", '; id "a [1]";'))]
    ways += [f"{fen}{blanks}[{word}]  " for fen in fens for blanks in ("", " ") if "/" not in word and "-" not in word]
    found = read(tmp_path, "\r\n".join(ways))
    assert len(found) == len(ways)
    assert {(entry.score, entry.result) for entry in found} == {(NO_SCORE, result)}
    assert {entry.ply for entry in found} == {None, 38 if side == "w" else 39}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{BOARD} w KQkq - 0 1", r"a line is FEN \| score \| result, FEN c9 .result. or FEN \[result\]"),
        (f"{BOARD} w KQkq - c9 1-0;", "a line is FEN"),
        (f'{BOARD} w KQkq - c9 "1-0', "a line is FEN"),
        (f'{BOARD} w KQkq - c9 "1:0"', r"the result must be 1-0, 1/2-1/2 or 0-1, .* not '1:0'"),
        (f'{BOARD} w KQkq - c9 "1-0" 7', "nothing stands behind the result, not '7'"),
        (f"{BOARD} w KQkq - 0 1 [0.7]", r"not '\[0.7\]'"),
        (f"{BOARD} w KQkq - 0 1 [0.5] 30", "nothing stands behind the result, not '30'"),
        (f'{BOARD} w KQkq - bm Nb5; c9 "1-0";', "a FEN has 2 to 6 fields|half-move clock"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as raised:
        read(tmp_path, f"{BOARD} w KQkq - [1.0]\n{line}\n")
    assert "line 2: " in str(raised.value)


def test_they_become_records_for_their_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, made = tmp_path / "positions.epd", tmp_path / "made.marlin"
    path.write_text(f'{BOARD} w KQkq - 0 9 c9 "1-0";\n' * 3)
    assert main(["convert", str(path), "-o", str(made), "--lossy"]) == 0
    assert "no score, written as 32002, which only this program knows: 3 positions" in capsys.readouterr().err
    assert [entry.result for entry in entries(made)] == [1, 1, 1]
