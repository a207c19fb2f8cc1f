"""Evaluations of Lichess, a position in JSON on each line, against python-chess."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import chess
import pytest

from loader.chess.positions.entry import NO_SCORE, Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.formats.registry import resolve_format
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.support.refused_lines import said_of, up_to_damage

Capture = pytest.CaptureFixture[str]
FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -"
# From https://database.lichess.org/#evals, shortened.
KNOWN = (
    '{"fen":"2bq1rk1/pr3ppn/1p2p3/7P/2pP1B1P/2P5/PPQ2PB1/R3R1K1 w - -","evals":[{"pvs":[{"cp":311,"line":"g2e4 f7f5 '
    'e4b7"}],"knodes":206765,"depth":36},{"pvs":[{"cp":292,"line":"g2e4 f7f5"},{"cp":277,"line":"f4g3 f7f5"}],'
    '"knodes":92958,"depth":34}]}\n'
)


def position(**members: Any) -> str:
    """Makes a line with an evaluation, and members in place of its own."""
    pv = {"cp": 7, "line": "e2e4 e7e5"}
    return json.dumps({"fen": FEN, "evals": [{"pvs": [pv], "knodes": 10, "depth": 20}], **members}) + "\n"


@cache
def drawn(count: int) -> tuple[tuple[str, Entry], ...]:
    """Lines of positions of random games, some of Chess960, and what they are by the rules."""
    rng = random.Random(7)
    made: list[tuple[str, Entry]] = []
    board = chess.Board(chess960=True)
    while len(made) < count:
        if board.is_game_over() or board.ply() > 120:
            board = (
                chess.Board.from_chess960_pos(rng.randrange(960)) if rng.random() < 0.5 else chess.Board(chess960=True)
            )
        moves = list(board.legal_moves)
        castlings = [move for move in moves if board.is_castling(move)]
        move = rng.choice(castlings or moves)
        sign = 1 if board.turn else -1
        best = rng.randrange(3)
        evals = []
        for number in range(3):
            mate = rng.random() < 0.3
            value = rng.choice([-1, 1]) * rng.randint(1, 20) if mate else rng.randint(-40000, 40000)
            first: dict[str, Any] = {"mate" if mate else "cp": value}
            if number == best:
                at = sign * value
                score = (32001 - 2 * at if at > 0 else -32000 - 2 * at) if mate else max(-31000, min(31000, at))
                first["line"] = " ".join([board.uci(move, chess960=True), "e2e4"])
            else:
                first["line"] = "a1a1"
            depth, knodes = (60, 500) if number == best else (rng.choice([20, 60]), rng.randrange(500))
            evals.append({"pvs": [first, {"cp": 1, "line": "h1h1"}], "knodes": knodes, "depth": depth})
        fen = " ".join(board.fen(shredder=True, en_passant="fen").split()[:4])
        made.append((json.dumps({"fen": fen, "evals": evals}) + "\n", Entry(fen, board.uci(move), score, None, None)))
        board.push(move)
    return tuple(made)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_it_reads_the_example_of_lichess(tmp_path: Path) -> None:
    (entry,) = entries(written(tmp_path / "a.jsonl", KNOWN))
    assert (entry.move, entry.score, entry.ply, entry.result) == ("g2e4", 311, None, None)
    assert entry.fen.startswith("2bq1rk1/pr3ppn/1p2p3/7P/2pP1B1P/2P5/PPQ2PB1/R3R1K1 w - -")


def test_the_deepest_evaluation_counts_and_of_it_the_first_variation(tmp_path: Path) -> None:
    known = drawn(400)
    read = list(entries(written(tmp_path / "a.jsonl", "".join(line for line, _ in known))))
    assert len(read) == len(known)
    for found, (_, entry) in zip(read, known, strict=True):
        board = chess.Board(found.fen, chess960=True)
        assert board.epd() == chess.Board(f"{entry.fen} 0 1", chess960=True).epd()
        assert board.parse_uci(found.move) == chess.Board(found.fen, chess960=True).parse_uci(entry.move)
        assert (found.score, found.ply, found.result) == (entry.score, None, None)


@pytest.mark.parametrize(
    ("evals", "score", "move"),
    [
        ([], NO_SCORE, "0000"),
        ([{"pvs": [], "knodes": 9, "depth": 50}], NO_SCORE, "0000"),
        ([{"pvs": [{"cp": 5}], "knodes": 9, "depth": 50}], 5, "0000"),
        ([{"pvs": [{"cp": 5, "line": ""}]}], 5, "0000"),
        ([{"depth": 3, "pvs": [{"line": "e2e4", "cp": None, "mate": 2}], "knodes": 1}], 31997, "e2e4"),
        ([{"pvs": [{"mate": 0}]}], -32000, "0000"),
        ([{"pvs": [{"cp": 10**12}]}], 31000, "0000"),
        ([{"pvs": [{"mate": -(10**12)}]}], -31001, "0000"),
    ],
)
def test_what_an_evaluation_may_lack(tmp_path: Path, evals: list[Any], score: int, move: str) -> None:
    (entry,) = entries(written(tmp_path / "a.jsonl", position(evals=evals)))
    assert (entry.score, entry.move) == (score, move)


def test_blanks_order_and_other_members_count_for_nothing(tmp_path: Path) -> None:
    text = (
        '\ufeff\r\n  { "x" : {"a": [1, -2.5e3, true, false, null, "\\"]}"], "": {}}, '
        '"evals" : [ {"depth":1,"pvs":[{"cp" : -4 '
        ',"line":"d2d4"} ] , "more": [] } ] , "fen" : "' + FEN.replace("/", "\\/") + '"} \r\n\n'
    )
    (entry,) = entries(written(tmp_path / "a.jsonl", text))
    assert (entry.fen.split()[0], entry.move, entry.score) == (FEN.split()[0], "d2d4", -4)


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_it_is_known_by_its_content_or_name_and_converts(tmp_path: Path, packing: str, capsys: Capture) -> None:
    data = "".join(line for line, _ in drawn(400)).encode() * 10
    path = tmp_path / f"lichess_db_eval.jsonl{packing}"
    if packing == ".gz":
        data = gzip.compress(data)
    elif packing == ".zst":
        data = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout
    path.write_bytes(data)
    assert resolve_format(path, setting="data.format") == "lichess_evals"
    assert main(["convert", str(path), "-o", str(tmp_path / "a.txt")]) == 2
    assert "move" in capsys.readouterr().err
    assert main(["convert", str(path), "-o", str(tmp_path / "a.txt"), "--lossy"]) == 0
    known = [(entry.score, entry.result) for _, entry in drawn(400)] * 10
    assert [(entry.score, entry.result) for entry in entries(tmp_path / "a.txt")] == known
    if not packing:
        (tmp_path / "a.dat").write_bytes(data)
        assert resolve_format(tmp_path / "a.dat", setting="data.format") == "lichess_evals"


def test_a_run_trains_on_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "".join(line for line, _ in drawn(400)) * 3)
    config = data_config(batch_size=50, chess={"features": "chess768", "filters": {"skip_captures": True}})
    with open_stream(config, [path], 3) as stream:  # type: ignore[attr-defined]
        assert len(list(read_batches(stream, 10))) == 10


def test_it_is_only_read(tmp_path: Path, capsys: Capture) -> None:
    path = written(tmp_path / "a.jsonl", KNOWN)
    assert main(["head", str(path), "-n", "1", "-o", str(tmp_path / "b.jsonl")]) == 2
    assert "lichess_evals is read, and not written" in capsys.readouterr().err


NO_JSON = "this is no object of JSON as Lichess has it"
PV = {"cp": 1, "line": "e2e4"}
DAMAGED = {
    "[]\n": f"line 1: byte 1: {NO_JSON}",
    "{]\n": f"line 1: byte 2: {NO_JSON}",
    '{"fen"\n': NO_JSON,
    '{"fen":}\n': NO_JSON,
    '{"fen":7}\n': NO_JSON,
    '{"fen":"' + FEN + '"}\n': "line 1: the object has no evals",
    '{"evals":[]}\n': "line 1: the object has no fen",
    '{"fen":"' + FEN + '","evals":{}}\n': NO_JSON,
    '{"fen":"' + FEN + '","evals":[7]}\n': NO_JSON,
    '{"fen":"' + FEN + '","evals":[{}],}\n': NO_JSON,
    '{"fen":"' + FEN + '","evals":[{},]}\n': NO_JSON,
    '{"fen":"' + FEN + '","evals":[]} x\n': NO_JSON,
    '{"fen":"' + FEN + '","evals":[]}{}\n': NO_JSON,
    '{"fen":"' + FEN + '" "evals":[]}\n': NO_JSON,
    "{'fen':'" + FEN + "','evals':[]}\n": NO_JSON,
    '{"fen":"' + FEN + "\\\n": NO_JSON,
    "{" + '"a":[' * 200 + "]" * 200 + "}\n": NO_JSON,
    position(evals=[{"pvs": [{"cp": 1.5}]}]): NO_JSON,
    position(evals=[{"pvs": [{"cp": "1"}]}]): NO_JSON,
    position(evals=[{"pvs": [{"cp": 10**30}]}]): NO_JSON,
    position(evals=[{"pvs": [{"line": 1}]}]): NO_JSON,
    position(evals=[{"pvs": [PV], "depth": 1.5}]): NO_JSON,
    position(evals=[{"pvs": [PV], "knodes": "many"}]): NO_JSON,
    position(evals=[{"pvs": PV}]): NO_JSON,
    position(evals=[{"pvs": [{}]}]): "line 1: the first of the pvs must have a cp or a mate, and not both",
    position(evals=[{"pvs": [{"cp": 1, "mate": 1}]}]): "must have a cp or a mate, and not both",
    position(evals=[{"pvs": [{"cp": 1, "line": "e2"}]}]): "line 1: a move is written like e2e4 or e7e8q",
    position(evals=[{"pvs": [{"cp": 1, "line": "e7e8k"}]}]): "a promotion's letter is one of n, b, r, q",
    position(fen=""): "line 1: a FEN has 2 to 6 fields",
    position(fen=FEN + " 0 1 2"): "line 1: a FEN has 2 to 6 fields, not 7",
    position(fen="8/8/8/8/8/8/8/8 w - -"): "line 1: a side has not exactly one king",
    position(fen=FEN.replace("P", "\\u0050")): "line 1: ",
    position() + "null\n": f"line 2: byte 1: {NO_JSON}",
}


@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, number: int, capsys: Capture) -> None:
    text, said = list(DAMAGED.items())[number]
    path = written(tmp_path / "a.jsonl", text)
    line = said_of(path, capsys)
    assert f"{path}: " in line
    assert said in line


def test_a_file_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    text = position() * 2 + KNOWN
    path = tmp_path / "a.jsonl"
    whole = list(entries(written(path, text)))
    for size in range(len(text)):
        read, error = up_to_damage(written(path, text[:size]))
        lines = text[: size + 1].count("\n")  # whole ones, with or without their end
        assert read == whole[:lines]
        assert (error is None) == (size == 0 or "\n" in text[size - 1 : size + 1])


def test_a_gzip_file_that_is_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    data = gzip.compress((position() * 3).encode(), mtime=0)
    path = tmp_path / "a.jsonl.gz"
    for size in range(2, len(data)):
        path.write_bytes(data[:size])
        read, error = up_to_damage(path)
        assert error is not None
        assert len(read) <= 3
