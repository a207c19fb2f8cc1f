"""Lines of text with a position and its result, as programs that tune evaluations have them."""

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
        (
            f"{BOARD} w KQkq - 0 1",
            r'a line is FEN \| score \| result, or a FEN with White\'s result: c9 "1-0", \[0.5\]',
        ),
        (f'{BOARD} w KQkq - c9 "1-0', "the result must be"),
        (f'{BOARD} w KQkq - c9 "1:0"', r"the result must be 1-0, 1/2-1/2 or 0-1, .* not '1:0'"),
        (f'{BOARD} w KQkq - c9 "1-0" 7', "the result must be"),
        (f'{BOARD} w KQkq - c0 "a comment";', "a line is FEN"),
        (f'{BOARD} w KQkq - c0 "1-0"; c9 "0-1";', "two operations have different results"),
        (f'{BOARD} w KQkq - c9 "0-1"; [1.0]', "two operations have different results"),
        (f'{BOARD} w KQkq - c9 "0-1"; "1-0"', "two operations have different results"),
        (f'{BOARD} w KQkq - ce 20; [0.5]; c9 "1-0"', "two operations have different results"),
        (f'{BOARD} w KQkq - ce 20; [0.5]; [1.0]; c9 "1-0"', "two operations have different results"),
        (f'{BOARD} w KQkq - c9 "0-1"; [0.0]; [1.0]', "two operations have different results"),
        (f'{BOARD} w KQkq - ce 3.1; c9 "0-1";', "ce must be a whole number of centipawns .* not '3.1'"),
        (f"{BOARD} w KQkq - 0 1 [0.7]", "not '0.7'"),
        (f"{BOARD} w KQkq - 0 1 [0.5] 30", "nothing stands behind the result, not '30'"),
        (f"{BOARD} w KQkq - 0 1 0.0", r"may be White's result or the mover's: .* as \[0.5\], not '0.0'"),
        (f"{BOARD} w KQkq - 0 1 | 1", r"may be a score or a result: write \[0\] or \[1\], not '1'"),
        (f"{BOARD} w KQkq - 0 1 | 31", "a line is FEN"),
        (f"{BOARD} w KQkq - 0 1 | White wins", "a line is FEN"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as raised:
        read(tmp_path, f"{BOARD} w KQkq - [1.0]\n{line}\n")
    assert "line 2: " in str(raised.value)


@pytest.mark.parametrize("result", [1, 0, -1])
@pytest.mark.parametrize("side", ["w", "b"])
def test_each_form_gives_the_same_result(tmp_path: Path, result: int, side: str) -> None:
    word = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[result]
    number = {1: "1.0", 0: "0.5", -1: "0.0"}[result]
    name = {1: "White", 0: "Draw", -1: "Black"}[result]
    behind = [f'c{code} "{word}";' for code in (0, 2, 9)]
    behind += [f'bm Nb5; c9 "{word}";', f'c9 "{word}"; bm Nb5;', f'id "a; [1.0]"; c9 "{word}"; c0 "a remark";']
    behind += [f"[{number}]", f"[{word}]", f";{number}", f"; {word}", f'"{word}";', f'"{word}"', word, f"{word};"]
    behind += [f"|{name}", f"| {name.lower()}", name, f"; [{number}]", f"|{number}", f"[{number}];"]
    behind += ["1/2", "[1/2]", ";1/2"] if result == 0 else []
    fens = [f"{BOARD} {side} KQkq -", f"{BOARD} {side} KQkq - 3 20"]
    found = read(tmp_path, "".join(f"{fen} {each}\n" for fen in fens for each in behind))
    assert len(found) == 2 * len(behind)
    assert {(entry.score, entry.result) for entry in found} == {(NO_SCORE, result if side == "w" else -result)}


def test_operations_of_epd_have_a_score_clock_and_number(tmp_path: Path) -> None:
    (found,) = read(tmp_path, f'{BOARD} b KQkq - hmvc 4; fmvn 11; ce -31; c9 "1-0";\n')
    assert (found.score, found.result, found.ply) == (-31, -1, 21)
    assert found.fen.split()[4:] == ["4", "11"]


def test_they_become_records_for_their_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, made = tmp_path / "positions.epd", tmp_path / "made.marlin"
    path.write_text(f'{BOARD} w KQkq - 0 9 c9 "1-0";\n' * 3)
    assert main(["convert", str(path), "-o", str(made), "--lossy"]) == 0
    assert "no score, written as 32002, which only this program knows: 3 positions" in capsys.readouterr().err
    assert [entry.result for entry in entries(made)] == [1, 1, 1]
