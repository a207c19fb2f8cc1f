"""Inputs of a kind that people have reported, below ../shared/data/reports-2: what commands say of them.

One row for each input and command. Tests beside the code have small inputs of the same kinds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from loader.cli.main import main


class Row(NamedTuple):
    """A command on an input and what is expected of it."""

    file: str  # below ../shared/data/reports-2
    command: str  # of `loader`; {file} is the input, {out} a path without an ending in an empty folder
    code: int  # that the command ends with
    expected: str  # regular expression, searched in all that is printed


BLACK_WON = r"^q3k3/8/8/8/8/8/4P3/4K3 b .*\t0000\t32002\t\S+\t1\n$"  # the mover's
ROWS = (
    Row("rows/flt.csv", "inspect {file}", 0, r"1: user .*1 missing, spellings: integers with \.0 3\n"),
    Row("rows/int.csv", "inspect --json {file}", 0, r'"spellings": {"counts": {"integers": 4}, "pairs": 0'),
    Row("rows/ids.csv", "inspect {file}", 0, "2: na,me .*1 missing, spellings: texts 3, numbers with an exponent 1"),
    Row("chess/moves-one-late.plain", "verify {file}", 1, "a move that no piece can make there"),
    Row(
        "chess/moves-one-late.plain",
        "convert {file} -o {out}.binpack",
        1,
        "offset 96: position 2: .*no piece can make there",
    ),
    Row(
        "chess/moves-one-late.plain",
        "count {file} --on-bad-data skip",
        0,
        "left out: a move that no piece can make there: 9 positions",
    ),
    Row("chess/cut-in-moves.pgn", "verify {file}", 1, "line 9 of the game"),
    Row("chess/cut-in-moves.pgn", "count {file} --on-bad-data skip", 0, "12 positions in 3 games"),
    Row("chess/cut-in-moves.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    Row("chess/illegal-move.pgn", "verify {file}", 1, "'Ke3' is no legal move there"),
    Row("chess/illegal-move.pgn", "count {file} --on-bad-data skip", 0, "8 positions in 2 games"),
    Row("chess/illegal-move.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    Row("chess/c-chess-cli.pgn", "verify {file}", 1, r"the comment '31/12 5ms' has a whole number"),
    Row("chess/c-chess-cli.pgn", "dump {file} --pgn-unit centipawns", 0, r"e2e4\t31\t(.*\n){5}.*g8f6\t-31998\t"),
    Row("chess/integer-centipawns.pgn", "verify {file}", 1, r"the comment ' \+31/9 0.05s ' has a whole number"),
    Row("chess/integer-centipawns.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    Row("chess/mate-in-moves.pgn", "dump {file}", 0, r"^((?!32002).)*\t32002\t(.*\n){2}.*\t32002\t"),
    Row("chess/mate-in-moves.pgn", "dump {file} --pgn-unit centipawns", 0, r"g2b7\t31997\t.*\n.*f8g8\t-31998\t"),
    Row("chess/remarks.pgn", "dump {file}", 0, r"^(.*\t32002\t.*\n){6}$"),
    Row("chess/remarks.pgn", "inspect {file}", 0, r"a remark: 5 \(.*\n.*a whole number, as \+31 or 31/12: 1 \("),
    Row("chess/decimal-comma.pgn", "verify {file}", 1, r"the comment '\+0,31/12 0,05s' has a decimal comma"),
    Row(
        "chess/decimal-comma.pgn", "dump {file} --pgn-unit pawns", 0, r"\t31\t.*\n.*\t-28\t.*\n.*\t135\t.*\n.*\t-130\t"
    ),
    Row("chess/dialects/tcec.pgn", "dump {file}", 0, r"e2e4\t42\t"),
    Row("chess/dialects/arena.pgn", "dump {file}", 0, r"e2e4\t42\t"),
    Row("chess/notation-uci.pgn", "dump {file}", 0, r"e2e4\t31\t(.*\n){6}.*e1g1\t30\t"),
    Row("chess/half.pgn", "count {file} --on-bad-data skip", 0, "4 positions in 1 games?"),
    Row("chess/half.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    *(
        Row(f"chess/lines/{name}.epd", "dump {file}", 0, BLACK_WON)
        for name in ("bar-word", "brackets-1-0", "brackets", "c0", "c9-bm", "c9-counters", "c9")
    ),
    Row(
        "chess/tables/null.csv", "verify {file}", 1, "line 2: the mate must be a number, or an empty cell .* not 'null'"
    ),
    Row(
        "chess/text/castling-double.txt",
        "verify {file}",
        1,
        "line 1: castling rights must be - or letters of KQkq, each once",
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file}: {row.command.split()[0]}")
def test_a_reported_input_gives_what_a_reader_expects(
    row: Row, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = shared_data / "reports-2" / row.file, tmp_path / "out"
    assert main(row.command.format(file=file, out=out).split()) == row.code
    printed = capsys.readouterr()
    assert re.search(row.expected, printed.out + printed.err)
