"""Files of positions in Python: `sparsepool.open` and `sparsepool.write`, beside python-chess and the commands."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import chess
import numpy as np
import numpy.typing as npt
import pytest

import sparsepool
from loader.chess.positions.entry import Entry
from loader.cli.main import main
from tests.support.positions import SUFFIXES, read_file, write_samples

COUNT = 3000
WITHOUT = {
    "bulletformat": {"castling", "ply", "side_to_move", "en_passant", "clock", "move_from", "move_to", "promotion"},
    "marlinformat": {"move_from", "move_to", "promotion"},
    "text": {"move_from", "move_to", "promotion"},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_samples(tmp_path_factory.mktemp("positions"), COUNT)


def whole(positions: sparsepool.Positions) -> npt.NDArray[np.void]:
    return np.concatenate(list(positions))


def as_record(entry: Entry) -> np.void:
    """What python-chess says of an entry."""
    board = chess.Board(entry.fen)
    record = np.zeros(1, sparsepool.position_dtype())
    for square, piece in board.piece_map().items():
        record["board"][0, square] = piece.piece_type if piece.color else -piece.piece_type
    rights = [chess.H1, chess.A1, chess.H8, chess.A8]
    record["castling"] = [rook if board.castling_rights & chess.BB_SQUARES[rook] else 64 for rook in rights]
    move = chess.Move.from_uci(entry.move)
    to = move.to_square
    if board.is_castling(move):
        to = chess.square(7 if chess.square_file(to) == 6 else 0, chess.square_rank(to))
    record["move_from"], record["move_to"] = (move.from_square, to) if move else (64, 64)
    record["promotion"] = move.promotion or 0
    record["score"], record["result"], record["ply"] = entry.score, entry.result, entry.ply or 0
    record["side_to_move"], record["clock"] = not board.turn, board.halfmove_clock
    record["en_passant"] = 64 if board.ep_square is None else board.ep_square
    found: np.void = record[0]
    return found


@pytest.mark.parametrize("name", sorted(SUFFIXES))
def test_every_field_is_what_python_chess_says(name: str, files: dict[str, Path]) -> None:
    positions = sparsepool.open(files[name], threads=2)
    assert positions.format == name
    assert positions.count() == COUNT
    everything = set(sparsepool.position_dtype().names or ())
    assert set(positions.dtype.names or ()) == everything - WITHOUT.get(name, set())
    assert positions.dtype == sparsepool.position_dtype(name)
    table = whole(positions)
    for row, entry in list(zip(table, read_file(name, files[name]), strict=True))[::17]:
        expected = as_record(entry)
        for field in positions.dtype.names or ():
            assert np.array_equal(row[field], expected[field]), (field, entry)


def test_blocks_and_conditions_are_those_of_the_commands(files: dict[str, Path], tmp_path: Path) -> None:
    positions = sparsepool.open(str(files["viriformat"]))
    assert [len(block) for block in positions.blocks(1000)] == [1000, 1000, 1000]
    quiet = positions.where("ply >= 16").where("not in_check")
    assert main(["filter", str(files["viriformat"]), "-o", str(tmp_path / "quiet.psv"), "--keep-no-score",
                 "--where", "ply >= 16 and not in_check"]) == 0  # fmt: skip
    kept = whole(sparsepool.open(tmp_path / "quiet.psv"))
    assert 0 < quiet.count() == len(kept) < COUNT
    for name in kept.dtype.names or ():
        if name != "en_passant":
            assert np.array_equal(whole(quiet)[name], kept[name]), name


@pytest.mark.parametrize("name", sorted(SUFFIXES))
@pytest.mark.parametrize("ending", ["", ".zst"])
def test_what_is_read_is_written_with_the_same_bytes(
    name: str, ending: str, files: dict[str, Path], tmp_path: Path
) -> None:
    made = tmp_path / f"made{SUFFIXES[name]}{ending}"
    with sparsepool.write(made) as out:
        for block in sparsepool.open(files[name]).blocks(777):
            out.add(block)
        assert not made.exists()
        assert out.count == COUNT
    plain = tmp_path / f"plain{SUFFIXES[name]}"
    assert main(["convert", str(made), "-o", str(plain)]) == 0
    assert plain.read_bytes() == files[name].read_bytes()


def test_a_conversion_in_python_has_the_bytes_of_the_command(files: dict[str, Path], tmp_path: Path) -> None:
    for name, into in (
        ("viriformat", ".binpack"),
        ("packedsfen", ".viri"),
        ("viriformat", ".bf"),
        ("text", ".binpack"),
    ):
        ours, theirs = tmp_path / f"ours-{name}{into}", tmp_path / f"theirs-{name}{into}"
        with sparsepool.write(ours, lossy=True) as out:
            for block in sparsepool.open(files[name]):
                out.add(block)
        assert main(["convert", str(files[name]), "-o", str(theirs), "--lossy"]) == 0
        assert ours.read_bytes() == theirs.read_bytes()


def test_what_is_wrong_is_one_line_and_leaves_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    full = whole(sparsepool.open(files["viriformat"]))[:5]
    bare = whole(sparsepool.open(files["bulletformat"]))[:5]

    def changed(name: str, value: object) -> npt.NDArray[np.void]:
        copy = full.copy()
        copy[name][2] = value
        return copy

    made = tmp_path / "made.viri"
    cases: list[tuple[str, npt.NDArray[np.void], str]] = [
        ("made.bf", full, "bulletformat has no room for the move, .*; lossy=True leaves it out"),
        ("made.viri", bare, "can't be written without moves"),
        ("made.psv", full[["score", "result"]], "positions need the field board"),
        ("made.psv", np.zeros(3, [("board", "i1", 64), ("fen", "i4")]), "have no field 'fen'"),
        ("made.psv", np.zeros(3, [("board", "i4", 64), ("score", "i2"), ("result", "i1")]), "board is .*, not"),
        ("made.psv", full.reshape(5, 1), "of one dimension with named fields"),
        ("made.psv", changed("result", 3), "position 2 of those added: result must be -1, 0 or 1"),
        ("made.psv", changed("board", 0), "position 2 of those added: a side has not exactly one king"),
        ("made.psv", changed("board", 9), "a piece must be -6 to 6, not 9"),
        ("made.psv", changed("castling", 20), "castling must be squares of the first rank"),
        ("made.psv", changed("move_from", 70), "a move has two squares"),
        ("made.psv", changed("en_passant", 65), "en_passant must be a square"),
    ]
    for name, table, said in cases:
        with pytest.raises(sparsepool.SparsepoolError, match=said), sparsepool.write(tmp_path / name) as out:
            out.add(table)
    for call, said in (
        (lambda: sparsepool.open(tmp_path / "absent.viri"), "absent.viri: No such file"),
        (lambda: sparsepool.open(files["viriformat"], "pgm"), "'pgm' is none of the formats"),
        (lambda: sparsepool.open(files["bulletformat"]).where("ply > 3"), "where: it needs the ply, which bullet"),
        (lambda: sparsepool.open(files["viriformat"]).where("plies > 3"), "'plies' is no name"),
        (lambda: sparsepool.write(files["viriformat"]), "exists, and is never replaced"),
        (lambda: sparsepool.write(tmp_path / "made"), "its ending names no format"),
    ):
        with pytest.raises(sparsepool.SparsepoolError, match=said):
            call()
    made.write_bytes(files["viriformat"].read_bytes()[:-6])
    with pytest.raises(sparsepool.SparsepoolError, match=r"made.viri: offset \d+: the data end within a game") as error:
        whole(sparsepool.open(made))
    assert error.value.exit_code == 65
    assert [path.name for path in tmp_path.iterdir()] == ["made.viri"]


@pytest.mark.parametrize("condition", ["plyy > 2", "ply >", 3, None])
def test_an_expression_that_is_none_is_one_line(condition: object, files: dict[str, Path]) -> None:
    with pytest.raises(sparsepool.SparsepoolError, match=r"^where: ") as raised:
        sparsepool.open(files["viriformat"]).where(condition)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_an_error_that_is_kept_where_it_was_caught_is_garbage_later(files: dict[str, Path]) -> None:
    def fail() -> weakref.ref[sparsepool.Positions]:
        positions = sparsepool.open(files["viriformat"])
        with pytest.raises(sparsepool.SparsepoolError) as kept:
            positions.where("plyy > 2")
        assert kept.value.exit_code == 2
        return weakref.ref(positions)

    positions = fail()
    gc.collect()
    assert positions() is None


@pytest.mark.parametrize("given", [[1, 2], None, 3, np.zeros(3), np.void(b"x")])
def test_what_is_no_array_of_positions_is_one_line(given: object, tmp_path: Path) -> None:
    with (
        pytest.raises(sparsepool.SparsepoolError, match="a numpy array of one dimension with named fields"),
        sparsepool.write(tmp_path / "made.bf") as out,
    ):
        out.add(given)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
