"""Text with named columns, against python-chess and against the same positions as `FEN | score | result`."""

from __future__ import annotations

import csv
import gzip
import io
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import chess
import chess.engine
import pytest

from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.formats.registry import resolve_format
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.stream.test_stream import samples_of
from tests.support.positions import SUFFIXES, read_positions
from tests.support.refused_lines import said_of, up_to_damage

Capture = pytest.CaptureFixture[str]
WORDS = {1.0: ("1.0", "1", "1-0", "[1.0]"), 0.5: ("0.5", "1/2", "1/2-1/2"), 0.0: ("0.0", "0", "0-1"), None: ("", "*")}
START = chess.STARTING_FEN


@cache
def drawn(count: int) -> tuple[tuple[chess.Board, chess.engine.Score | None, float | None], ...]:
    """Positions of random games with White's score and result, either of which may be none."""
    rng = random.Random(11)
    made: list[tuple[chess.Board, chess.engine.Score | None, float | None]] = []
    board = chess.Board()
    while len(made) < count:
        if board.is_game_over() or board.ply() > 120:
            board = chess.Board()
        board.push(rng.choice(list(board.legal_moves)))
        score: chess.engine.Score | None = chess.engine.Cp(rng.randint(-3000, 3000))
        if rng.random() < 0.2:
            score = chess.engine.Mate(rng.choice([-1, 1]) * rng.randint(1, 30))
        made.append((board.copy(), score if rng.random() < 0.9 else None, rng.choice(list(WORDS))))
    return tuple(made)


def expected(board: chess.Board, score: chess.engine.Score | None, result: float | None) -> Entry:
    """Makes the entry by the rules: n plies before mate 32000 - n, everything as the mover sees it."""
    sign = 1 if board.turn else -1
    mover = NO_SCORE
    if score is not None and score.mate() is not None:
        mates = sign * (score.mate() or 0)
        mover = 32000 - (2 * mates - 1) if mates > 0 else -32000 + 2 * -mates
    elif score is not None:
        mover = sign * (score.score() or 0)
    outcome = None if result is None else sign * round(2 * result - 1)
    return Entry(board.fen(en_passant="fen"), "0000", mover, board.ply(), outcome)


def written(path: Path, rows: list[list[str]], delimiter: str = ",", end: str = "\n", quotes: int = 0) -> Path:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quotes).writerows(rows)  # type: ignore[arg-type]
    path.write_bytes(text.getvalue().encode())
    return path


def text_of(score: chess.engine.Score | None) -> str:
    return "" if score is None else str(score)  # +56, #-3


@pytest.mark.parametrize("quotes", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize(("delimiter", "end"), [(",", "\n"), (",", "\r\n"), ("\t", "\n"), (";", "\n")])
@pytest.mark.parametrize(
    "names", [("fen", "score", "result"), ("FEN", "Evaluation", "Result"), ("Fen", "eval", "result")]
)
def test_scores_and_results_are_white_s(
    tmp_path: Path, names: tuple[str, ...], delimiter: str, end: str, quotes: int
) -> None:
    rng = random.Random(5)
    rows = [
        [board.fen(en_passant="fen"), text_of(score), rng.choice(WORDS[result])] for board, score, result in drawn(300)
    ]
    path = written(tmp_path / "a.csv", [list(names), *rows], delimiter, end, quotes)
    assert list(entries(path)) == [expected(*each) for each in drawn(300)]


def test_columns_stand_in_any_order_and_others_count_for_nothing(tmp_path: Path) -> None:
    """As Lichess/chess-position-evaluations has them; numbers as tables with empty cells write them."""
    rows = []
    for board, score, _ in drawn(300):
        mate = score.mate() if score is not None else None
        cp = score.score() if score is not None else None
        cells = ["" if each is None else f"{each}.0" for each in (cp, mate)]
        rows.append(['say ""what"", e2e4', *cells, "36", board.fen(en_passant="fen"), ""])
    path = written(tmp_path / "a.csv", [["line", "cp", "mate", "depth", "fen", ""], *rows])
    assert list(entries(path)) == [expected(board, score, None) for board, score, _ in drawn(300)]


def test_a_result_alone_is_enough_and_a_fen_may_be_short(tmp_path: Path) -> None:
    board = START.split()[0]
    path = written(tmp_path / "a.csv", [["fen", "result"], [f"{board} b KQkq -", "1-0"], [f"{board} w", "0-1"]])
    assert [(entry.score, entry.ply, entry.result) for entry in entries(path)] == [(NO_SCORE, None, -1)] * 2


@pytest.mark.parametrize(("turn", "score"), [("w", -32000), ("b", -32000)])
def test_mate_in_0_is_the_mover_s_loss(tmp_path: Path, turn: str, score: int) -> None:
    fen = f"{START.split()[0]} {turn} KQkq - 0 1"
    path = written(tmp_path / "a.csv", [["fen", "eval"], [fen, "#0"], [fen, "#-0"], [fen, "#+0"]])
    assert [entry.score for entry in entries(path)] == [score] * 3


def lines_of(count: int) -> tuple[str, str]:
    """The same positions as CSV and as text."""
    rows = []
    for board, score, result in drawn(count):
        white = NO_SCORE if score is None else expected(board, score, result).score * (1 if board.turn else -1)
        rows.append((board.fen(en_passant="fen"), white, "*" if result is None else str(result)))
    as_csv = "fen,score,result\n" + "".join(f"{fen},{score},{result}\n" for fen, score, result in rows)
    return as_csv, "".join(f"{fen} | {score} | {result}\n" for fen, score, result in rows)


@pytest.mark.parametrize("name", ["binpack", *SUFFIXES])
def test_it_becomes_any_other_format_as_text_does(tmp_path: Path, name: str, capsys: Capture) -> None:
    as_csv, as_text = lines_of(300)
    if name != "text":  # which alone has room for an entry without a result
        as_csv = "".join(line for line in as_csv.splitlines(keepends=True) if not line.endswith(",*\n"))
        as_text = "".join(line for line in as_text.splitlines(keepends=True) if not line.endswith("| *\n"))
    a, b = tmp_path / "a.csv", tmp_path / "b.txt"
    a.write_text(as_csv)
    b.write_text(as_text)
    made = [tmp_path / f"{path.stem}_made{SUFFIXES.get(name, '.binpack')}" for path in (a, b)]
    codes = [main(["convert", str(path), "-o", str(out), "--lossy"]) for path, out in zip((a, b), made, strict=True)]
    if name in ("viriformat", "montyvalue", "pgn"):
        assert codes == [2, 2]
        assert f"{a}: fen_csv has no moves, and {name} can't be written without" in capsys.readouterr().err
        return
    assert codes == [0, 0]
    assert made[0].read_bytes() == made[1].read_bytes()
    assert len(read_positions(made[0])) == len(as_text.splitlines())


def test_a_run_reads_it_as_text(tmp_path: Path) -> None:
    as_csv, as_text = lines_of(2000)
    (tmp_path / "a.csv").write_text(as_csv)
    (tmp_path / "b.txt").write_text(as_text)
    config = data_config(batch_size=50, chess={"features": "chess768"})
    batches = []
    for name in ("a.csv", "b.txt"):
        with open_stream(config, [tmp_path / name], 3) as stream:  # type: ignore[attr-defined]
            batches.append([tuple(samples_of(batch)) for batch in read_batches(stream, 30)])
    assert batches[0] == batches[1]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_a_large_file_is_read_in_pieces_and_from_a_pipe(tmp_path: Path, packing: str) -> None:
    """The header is that of all pieces; one that comes again, of another file, counts for nothing."""
    as_csv, as_text = lines_of(1000)
    path = tmp_path / f"a.csv{packing}"
    data = ("\ufeff" + as_csv).encode() * 40
    if packing == ".gz":
        data = gzip.compress(data)
    elif packing == ".zst":
        data = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout
    path.write_bytes(data)
    known = list(read_positions_of(as_text, tmp_path)) * 40
    assert list(entries(path)) == known
    if not packing:
        run = [sys.executable, "-m", "loader", "dump", "-"]
        done = subprocess.run(run, input=data, capture_output=True, check=True, timeout=60)
        assert len(done.stdout.splitlines()) == len(known)


def read_positions_of(text: str, tmp_path: Path) -> list[Entry]:
    path = tmp_path / "known.txt"
    path.write_text(text)
    return list(entries(path))


ROW = f"{START},31,1.0"
DAMAGED = {
    f"{ROW}\n": "line 1: this is a position, and no line names the columns: put a first line before it, as fen,score,",
    f"position,score\n{ROW}\n": "line 1: no column is named fen, as fen,score,result",
    f"fen,depth\n{START},7\n": "line 1: beside fen there must be a column score, eval, evaluation, cp, mate or result",
    f"fen,score,cp\n{START},7,7\n": "line 1: the columns score and cp say the same: leave one out",
    f"fen,score,FEN\n{START},7,{START}\n": "line 1: the columns fen and FEN say the same: leave one out",
    f"fen;depth\n{START};7\n": "line 1: beside fen there must be a column score, eval, evaluation, cp, mate or result",
    f"fen,score\n{START}\n": "line 2: the header names 2 columns, and the line has 1",
    f"fen,score\n{START},7,8\n": "line 2: the header names 2 columns, and the line has 3",
    f"fen,score\n\n\n{START},7,\n": "line 4: the header names 2 columns, and the line has 3",
    f"fen,score\n{START},0.31\n": "number of centipawns from -32768 to 32767, not '0.31'",
    f"fen,score\n{START},32768\n": "number of centipawns from -32768 to 32767, not '32768'",
    f"fen,score\n{START.replace('w', 'b')},-32768\n": "line 2: a score of -32768 has no opposite",
    f"fen,score\n{START},1e3\n": "not '1e3'",
    f"fen,score\n{START},++3\n": "not '++3'",
    f"fen,score\n{START},3.\n": "not '3.'",
    f"fen,score\n{START},nan\n": "not 'nan'",
    f"fen,score\n{START},M3\n": "not 'M3'",
    f"fen,score\n{START},#\n": "line 2: mate must be in a whole number of moves, more than 0 if White mates, not ''",
    f"fen,score\n{START},#3.5\n": "more than 0 if White mates, not '3.5'",
    f"fen,score\n{START},#99999\n": "more than 0 if White mates, not '99999'",
    f"fen,cp,mate\n{START},7,1\n": "line 2: a position has a score or a mate, not both",
    f"fen,mate\n{START},-\n": "more than 0 if White mates, not '-'",
    f"fen,result\n{START},0.7\n": "line 2: the result must be 1.0, 0.5 or 0.0, White's, or 1-0, 1/2-1/2, 0-1, *, not",
    f"fen,result\n{START},-1\n": "not '-1'",
    f"fen,result\n{START},white\n": "not 'white'",
    f'fen,score\n"{START},7\n': "line 2: ",
    f'fen,score\n"{START}"x,7\n': "line 2: ",
    "fen,score\n,7\n": "line 2: a FEN has 2 to 6 fields",
    "fen,score\n8/8/8/8/8/8/8/8 w - - 0 1,7\n": "line 2: a side has not exactly one king",
    f"fen,score\n{START.replace('RNBQ', 'RNBX')},7\n": "line 2: ",
    f"fen,score\n{START} 7,7\n": "line 2: a FEN has 2 to 6 fields, not 7",
    f"fen,score\n\x00\x01{START},7\n": "line 2: ",
}


@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, number: int, capsys: Capture) -> None:
    text, said = list(DAMAGED.items())[number]
    path = tmp_path / "a.csv"
    path.write_text(text)
    line = said_of(path, capsys)
    assert f"{path}: " in line
    assert said in line


def test_a_file_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    as_csv, as_text = lines_of(6)
    whole = read_positions_of(as_text, tmp_path)
    path = tmp_path / "a.csv"
    damaged = 0
    for size in range(len("fen,score"), len(as_csv)):
        path.write_text(as_csv[:size])
        read, error = up_to_damage(path)
        lines = as_csv[:size].count("\n") - 1
        if lines >= 0:  # the last line may be whole with less of it: 1. or 0 for 0.5
            assert read[: max(lines, 0)] == whole[: max(lines, 0)]
            assert len(read) - lines == (0 if error or as_csv[size - 1] == "\n" else 1)
        damaged += error is not None
    assert damaged > 100


def test_it_is_only_read(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.csv"
    path.write_text(lines_of(10)[0])
    for to in (["-o", str(tmp_path / "b.csv")], ["-o", str(tmp_path / "b.x"), "--to", "fen_csv"]):
        assert main(["convert", str(path), *to]) == 2
        assert "fen_csv is read, and not written: write binpack, bulletformat, " in capsys.readouterr().err


def formats_of(path: Path) -> list[str]:
    """The format among all, and among those of each family."""
    return [resolve_format(path, setting="data.format", family=family) for family in (None, "rows", "chess")]


def test_files_of_rows_with_these_names_stay_rows(tmp_path: Path) -> None:
    rows, positions = tmp_path / "rows.csv", tmp_path / "positions.csv"
    rows.write_text("label,a\n1,2\n")
    positions.write_text(lines_of(10)[0])
    assert [formats_of(path) for path in (rows, positions)] == [
        ["csv", "csv", "fen_csv"],
        ["fen_csv", "csv", "fen_csv"],
    ]
    packed = tmp_path / "positions.csv.gz"
    packed.write_bytes(gzip.compress(positions.read_bytes()))
    assert formats_of(packed) == ["csv", "csv", "fen_csv"]
