"""The same 829 positions of 8 games in six formats, made by other code from the formats' rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader import _native
from loader.chess.positions.entry import Entry
from tests.support.binpack_file import BinpackFile, make_writer
from tests.support.positions import VECTORS, codec, encode, open_path, read_file, rewritten

FILES = {
    "bulletformat": "positions.bf",
    "marlinformat": "positions.marlin",
    "montyvalue": "games.montyvalue",
    "packedsfen": "positions.psv.bin",
    "text": "positions.txt",
    "viriformat": "games.viri",
}
MOVES = ("montyvalue", "packedsfen", "viriformat")
EN_PASSANT_IF_TAKEN = ("montyvalue", "viriformat")  # a square that a pawn can take on
RESULTS = {"0.0": -1, "0.5": 0, "1.0": 1}


def vector(name: str) -> Path:
    return VECTORS / FILES[name]


def positions() -> list[tuple[str, int, int]]:
    """FEN, White's score, White's result."""
    lines = (VECTORS / "positions.txt").read_text().splitlines()
    return [(fen, int(score), RESULTS[result]) for fen, score, result in (line.split(" | ") for line in lines)]


def mirrored(board: str) -> str:
    return "/".join(reversed(board.split("/"))).swapcase()


@pytest.mark.parametrize("name", FILES)
def test_a_vector_reads_to_the_positions_and_moves(name: str) -> None:
    known, moves = positions(), (VECTORS / "moves.txt").read_text().split()
    read = read_file(name, vector(name))
    assert len(read) == len(known) == 829
    for entry, (fen, score, result), move in zip(read, known, moves, strict=True):
        board, side, castling, passed, clock, number = fen.split()
        sign = 1 if side == "w" else -1
        assert (entry.score, entry.result) == (sign * score, sign * result)
        assert entry.move == (move if name in MOVES else "0000")
        if name == "bulletformat":  # as the side to move sees it
            assert entry.fen.split()[0] == (board if side == "w" else mirrored(board))
            continue
        if name in EN_PASSANT_IF_TAKEN and entry.fen.split()[3] == "-":
            passed = "-"
        assert entry.fen == f"{board} {side} {castling} {passed} {clock} {number}"
        assert entry.ply == 2 * (int(number) - 1) + (side == "b")


@pytest.mark.parametrize("name", FILES)
def test_a_vector_is_written_again_with_the_same_bytes(name: str) -> None:
    assert rewritten(name, vector(name), name) == vector(name).read_bytes()


CONVERSIONS = [  # bulletformat lacks the side to move; what has no moves can't become what is made of them
    (name, into) for name in FILES if name != "bulletformat" for into in FILES if name in MOVES or into not in MOVES
]


@pytest.mark.parametrize(("name", "into"), CONVERSIONS)
def test_a_vector_becomes_that_of_any_other_format(name: str, into: str) -> None:
    made, known = rewritten(name, vector(name), into), vector(into).read_bytes()
    if name not in EN_PASSANT_IF_TAKEN or into in ("bulletformat", *EN_PASSANT_IF_TAKEN):
        assert made == known
        return
    # Of a game that is played, only squares that a pawn can take on are known: of 28 six remain.
    if into == "marlinformat":
        differ = [i for i, (a, b) in enumerate(zip(made, known, strict=True)) if a != b]
        assert len(differ) == 22
        assert {place % 32 for place in differ} == {24}
        assert all(made[place] & 127 == 64 for place in differ)
    if into == "text":
        pairs = list(zip(made.decode().splitlines(), known.decode().splitlines(), strict=True))
        assert sum(a != b for a, b in pairs) == 22
        assert all(a.split()[:3] == b.split()[:3] and a.split()[4:] == b.split()[4:] for a, b in pairs)


def test_binpack_holds_all_that_a_vector_has(tmp_path: Path) -> None:
    """There and back, through chains."""
    writer = make_writer()
    assert _native.ChunkWalk(open_path("viriformat", vector("viriformat")), 0).copy_to(writer) is None
    writer.finish()
    path = tmp_path / "games.binpack"
    path.write_bytes(writer.take())
    assert (writer.entries, writer.chains) == (829, 8)
    back = codec("viriformat").make_writer()
    assert BinpackFile(path).copy_to(0, back) is None
    back.finish()
    assert back.take() == vector("viriformat").read_bytes()


def test_marlinformat_rooks_that_may_castle_are_rooks() -> None:
    """Another converter makes bishops of them: in 191 of these positions."""
    records = vector("marlinformat").read_bytes()
    read = read_file("marlinformat", vector("marlinformat"))
    with_rights = 0
    for number, entry in enumerate(read):
        nibbles = records[32 * number + 8 : 32 * number + 24]
        unmoved = sum((byte >> shift & 7) == 6 for byte in nibbles for shift in (0, 4))
        castling = entry.fen.split()[2]
        assert unmoved == (0 if castling == "-" else len(castling))
        with_rights += unmoved != 0
    assert with_rights == 191
    boards = [fen.split()[0] for fen, _, _ in positions()]
    assert [entry.fen.split()[0] for entry in read] == boards
    assert rewritten("marlinformat", vector("marlinformat"), "bulletformat") == vector("bulletformat").read_bytes()


def test_every_vector_is_known_by_its_content_alone() -> None:
    for name in FILES:
        head = vector(name).read_bytes()[:4096]
        assert [other for other in FILES if codec(other).begins_a_file(head)] == [name]


@pytest.mark.parametrize("name", ["viriformat", "montyvalue"])
def test_a_head_that_ends_within_a_header_begins_a_file(name: str) -> None:
    game = encode(name, [Entry("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "e2e4", 30, 0, 1)])
    for length in range(len(game)):
        assert codec(name).begins_a_file(game + game[:length]), length
