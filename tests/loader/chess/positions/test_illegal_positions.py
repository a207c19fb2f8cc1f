"""Positions that no game can have: verify counts them by kind, convert and training refuse them or leave them out."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import chess
import pytest

from loader.chess.positions.inputs import entries as binpack_entries
from loader.cli.main import main
from loader.errors import DataError
from loader.stream.data import open_stream
from loader.stream.slots import read_batches
from loader.stream.sources import data_config
from tests.loader.chess.formats.binpack_bytes import Stem, chunk
from tests.support.paths import ROOT
from tests.support.positions import SUFFIXES, codec, make_writer

Capture = pytest.CaptureFixture[str]
GOOD = ("r1bq1rk1/pp2ppbp/2np1np1/8/2BNP3/2N1BP2/PPPQ2PP/R3K2R b KQ - 2 9", "4k3/8/8/8/8/3P4/8/4K3 w - - 0 40")
KINGS, PIECES = "a side has not exactly one king", "a side has more than 8 pawns and promoted pieces"
PAWNS, TOUCH = "a pawn on the first or last rank", "the kings are side by side"
CHECK, CASTLING = "the side that is not to move is in check", "a castling right without its king and rook"
PASSED = "an en-passant square that no pawn has passed"
BOARDS = {  # with a move, for formats of games
    "2P5/8/8/3p4/4bK2/8/4k3/2Q5 w - - 0 1": (PAWNS, "c1c2"),
    "4k3/8/8/8/8/8/8/p3K3 w - - 0 1": (PAWNS, "e1e2"),
    "4k3/8/8/8/8/PPP5/PPPPPPPP/4K3 w - - 0 1": (PIECES, "d2d3"),
    "4k3/8/8/8/8/8/PPPPPPPP/NNN1K3 w - - 0 1": (PIECES, "e1d1"),
    "rnbqkbnr/ppppppp1/8/8/q7/q7/8/4K3 b - - 0 1": (PIECES, "a4a5"),
    "8/8/8/3kK3/8/8/8/8 w - - 0 1": (TOUCH, "e5f6"),
    "4k3/8/8/8/8/8/8/4RK2 w - - 0 1": (CHECK, "e1e2"),
    "4k3/8/8/8/8/5n2/8/4K3 b - - 0 1": (CHECK, "e8e7"),
}
STATES = {  # what only text can say
    "4k3/8/8/8/8/8/8/4K3 w K - 0 1": CASTLING,
    "4k3/8/8/8/8/8/4K3/7R w K - 0 1": CASTLING,
    "r3k2n/8/8/8/8/8/8/4K3 w kq - 0 1": CASTLING,
    "4k3/8/8/8/8/8/8/R3K3 w B - 0 1": CASTLING,
    "4k2r/8/8/8/8/8/8/R3K3 w H - 0 1": CASTLING,
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e5 0 1": PASSED,
    "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e6 0 1": PASSED,
    "rnbqkbnr/pppppppp/8/8/8/4P3/PPPP1PPP/RNBQKBNR b KQkq e3 0 1": PASSED,
    "4k3/8/8/8/4P3/4N3/8/4K3 b - e3 0 1": PASSED,
    "4k3/8/8/8/4P3/8/4N3/4K3 b - e3 0 1": PASSED,
    "4k3/8/8/8/8/8/8/8 w - - 0 1": KINGS,
    "4k2k/8/8/8/8/8/8/4K3 w - - 0 1": KINGS,
}
ODD_BUT_LEGAL = (
    "QQQQk3/QQQQ4/8/8/8/8/8/Q2K4 b - - 0 1",  # eight promotions
    "5k2/8/8/8/8/8/8/RN2K1NR w KQ - 0 1",  # a right behind a knight
    "1r2k1r1/8/8/8/8/8/8/1R2K1R1 w GBgb - 0 1",
    "1rk4r/8/8/8/8/8/3P1P2/R3KR2 w FAhb - 0 1",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 300 1",
    "4k3/8/8/8/8/8/4r3/4K3 w - - 0 1",
    "4k3/8/8/8/8/8/8/4K3 w - - 0 1",
)


def made(name: str, path: Path, fens: list[str]) -> Path:
    if name == "text":
        path.write_text("".join(f"{fen} | 10 | 0.5\n" for fen in fens))
        return path
    moves = {fen: move for fen, (_, move) in BOARDS.items()} | {GOOD[0]: "a7a6", GOOD[1]: "d3d4"}
    writer = make_writer(name)
    for fen in fens:
        writer.add(fen, moves[fen], 10, 2 * int(fen.split()[-1]) - 2 + (" b " in fen), 0)
    writer.finish()
    path.write_bytes(writer.take())
    return path


@pytest.fixture(params=[*SUFFIXES, "binpack"])
def boards(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each kind that a board shows, once and then again, between two good positions."""
    suffix = SUFFIXES.get(request.param, ".binpack")
    return made(request.param, tmp_path / f"x{suffix}", [GOOD[0], *BOARDS, *BOARDS, GOOD[1]])


def counts() -> dict[str, int]:
    kinds = [kind for kind, _ in BOARDS.values()]
    return {kind: 2 * kinds.count(kind) for kind in kinds}


@pytest.mark.parametrize("piped", [False, True])
def test_verify_counts_them_by_kind_and_says_where_the_first_is(boards: Path, piped: bool, capsys: Capture) -> None:
    if not piped:
        assert main(["verify", "--json", str(boards)]) == 1
        verdict = json.loads(capsys.readouterr().out)
        assert (verdict["ok"], verdict["entries"], verdict["reason"]) == (False, 2 * len(BOARDS) + 2, None)
        assert {each["kind"]: each["entries"] for each in verdict["illegal"]} == counts()
        return
    with boards.open("rb") as opened:
        assert main(["verify", f"/dev/fd/{opened.fileno()}"]) == 1
    told = capsys.readouterr().err
    for kind, count in counts().items():
        assert kind in told
        assert f"(the first of {count})" in told
    assert f"{2 * len(BOARDS)} of {2 * len(BOARDS) + 2} entries are positions or moves that no game can have" in told


@pytest.mark.parametrize("fen", STATES)
def test_rights_en_passant_and_kings_are_judged_where_a_format_has_them(
    fen: str, tmp_path: Path, capsys: Capture
) -> None:
    path = made("text", tmp_path / "x.txt", [GOOD[0], fen, GOOD[1]])
    if STATES[fen] is KINGS:
        assert main(["convert", str(path), "-o", str(tmp_path / "y.txt"), "--on-bad-data", "skip"]) == 0
    assert main(["verify", str(path)]) == 1
    told = capsys.readouterr().err
    assert f"line 2: {STATES[fen]}" in told
    assert "1 of 3 entries" in told


def test_no_legal_position_is_one(tmp_path: Path, capsys: Capture) -> None:
    """Takes positions of whole games too, as python-chess plays them."""
    games = [entry.fen for entry in list(binpack_entries(ROOT / "configs/sample/validation.binpack"))[:2000]]
    starts = [chess.Board.from_chess960_pos(number).fen() for number in range(0, 960, 7)]
    path = made("text", tmp_path / "x.txt", [*ODD_BUT_LEGAL, *starts, *games])
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: ok")


def test_convert_refuses_them_with_their_place_or_leaves_them_out(
    boards: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out.txt"
    assert main(["convert", str(boards), "-o", str(out), "--lossy"]) == 1
    told = capsys.readouterr().err
    assert f"{boards}: offset" in told
    assert PAWNS in told
    assert not out.exists()
    for target in (out, tmp_path / f"same{boards.suffix}"):
        assert main(["convert", str(boards), "-o", str(target), "--lossy", "--on-bad-data", "skip"]) == 0
        told = capsys.readouterr().err
        for kind, count in counts().items():
            assert f"left out: {kind}: {count} positions" in told
        assert main(["verify", str(target)]) == 0
        assert capsys.readouterr().out == f"{target}: ok, 2 entries\n"


def test_training_stops_at_them_or_leaves_them_out(boards: Path) -> None:
    config = data_config(batch_size=2, shuffle=False)
    with closing(open_stream(config, [boards], seed=1)) as stream, pytest.raises(DataError, match=PAWNS) as caught:
        next(read_batches(stream, 2))
    assert caught.value.offset is not None
    config = config.model_copy(update={"on_bad_data": "skip"})
    with closing(open_stream(config, [boards], seed=1)) as stream:
        batches = [sorted(batch.dense["piece_count"].tolist()) for batch in read_batches(stream, 3)]
        assert batches == [[3, 30]] * 3
        left_out = stream.skipped()
    assert {each.file for each in left_out} == {str(boards)}
    assert {each.kind: each.samples for each in left_out} == counts()


@pytest.mark.parametrize(
    ("name", "at", "value", "kind"),
    [
        ("marlinformat", 24, 20, PASSED),
        ("viriformat", 24, 20, PASSED),
        ("montyvalue", 33, 20, PASSED),
        ("montyvalue", 34, 4, CASTLING),
        ("marlinformat", 8, 0x65, CASTLING),  # the second piece is a rook that may castle
        ("viriformat", 8, 0x65, CASTLING),
    ],
)
def test_what_a_record_or_header_says_wrongly_is_counted_too(
    name: str, at: int, value: int, kind: str, tmp_path: Path, capsys: Capture
) -> None:
    path = made(name, tmp_path / f"x{SUFFIXES[name]}", [GOOD[1], GOOD[0], GOOD[1]])
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data)
    assert main(["verify", "--json", str(path)]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["entries"] == 3
    (found,) = verdict["illegal"]
    assert found["kind"].startswith(kind)
    assert (found["entries"], found["offset"]) == (1, 0)
    with closing(open_stream(data_config(batch_size=2, on_bad_data="skip"), [path], seed=1)) as stream:
        (batch,) = read_batches(stream, 1)
        assert sorted(batch.dense["piece_count"].tolist()) == [3, 30]
    with (
        closing(open_stream(data_config(batch_size=2), [path], seed=1)) as stream,
        pytest.raises(DataError, match=f"offset 0: {kind}"),
    ):
        next(read_batches(stream, 2))


def test_a_rook_of_a_chain_outside_its_corner_has_no_right(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.binpack"
    path.write_bytes(chunk(Stem({chess.E1: 10, chess.D4: 13, chess.E8: 11}).bytes()))
    assert main(["verify", str(path)]) == 1
    assert CASTLING in capsys.readouterr().err


def test_a_king_left_in_check_in_a_game_is_seen_where_every_position_is(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.viri"
    writer = codec("viriformat").make_writer()
    writer.add("4k3/4r3/8/8/8/8/4R3/4K3 w - - 0 1", "e2d2", 0, 0, 0)
    writer.add("4k3/4r3/8/8/8/8/3R4/4K3 b - - 1 1", "e7d7", 0, 1, 0)
    writer.add("4k3/3r4/8/8/8/8/3R4/4K3 w - - 2 2", "e1f1", 0, 2, 0)
    writer.finish()
    path.write_bytes(writer.take())
    assert main(["verify", str(path)]) == 1
    assert f"{CHECK} (the only one)" in capsys.readouterr().err
    out = tmp_path / "out.viri"
    assert main(["convert", str(path), "-o", str(out), "--on-bad-data", "skip"]) == 0
    assert main(["count", str(out)]) == 0
    assert "2 positions in 2 games" in capsys.readouterr().out
