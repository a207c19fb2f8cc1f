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
    written: str = ""  # likewise, in the text of {out}.txt


BLACK_WON = r"^q3k3/8/8/8/8/8/4P3/4K3 b - -\S*.* \| 32002 \| 0\.0\n$"
ROWS = (
    Row("chess/moves-one-late.plain", "verify {file}", 1, "a move that no piece can make there"),
    Row("chess/moves-one-late.plain", "convert {file} -o {out}.binpack", 1, "offset 79: .*no piece can make there"),
    Row("chess/moves-one-late.plain", "count {file} --on-bad-data skip", 0, "1 position.*\n?.*left out|left out"),
    Row("chess/cut-in-moves.pgn", "verify {file}", 1, "line 9 of the game"),
    Row("chess/cut-in-moves.pgn", "count {file} --on-bad-data skip", 0, "12 positions in 3 games"),
    Row("chess/cut-in-moves.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    Row("chess/illegal-move.pgn", "verify {file}", 1, "'Ke3' is no legal move there"),
    Row("chess/illegal-move.pgn", "count {file} --on-bad-data skip", 0, "8 positions in 2 games"),
    Row("chess/illegal-move.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    Row("chess/half.pgn", "count {file} --on-bad-data skip", 0, "4 positions in 1 games?"),
    Row("chess/half.pgn", "convert {file} -o {out}.pgn --on-bad-data skip", 0, "left out: .*1 game"),
    *(
        Row(f"chess/lines/{name}.epd", "convert {file} -o {out}.txt --format text", 0, "", BLACK_WON)
        for name in ("bar-word", "brackets-1-0", "brackets", "c0", "c9-bm", "c9-counters", "c9")
    ),
    Row("chess/tables/null.csv", "verify {file}", 1, "line 2: .*mate.* not 'null'"),
    Row("chess/text/castling-double.txt", "verify {file}", 1, "line 1: .*castling rights.*"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file}: {row.command.split()[0]}")
def test_a_reported_input_gives_what_a_reader_expects(
    row: Row, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = shared_data / "reports-2" / row.file, tmp_path / "out"
    assert main(row.command.format(file=file, out=out).split()) == row.code
    printed = capsys.readouterr()
    assert re.search(row.expected, printed.out + printed.err)
    if row.written:
        assert re.search(row.written, out.with_suffix(".txt").read_text())
