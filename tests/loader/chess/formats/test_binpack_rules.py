"""The format's rules for damaged input, one by one: what is refused, what is tolerated, and where it says so."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from loader.chess.positions.inputs import entries
from loader.formats.file_tools import VerifyResult
from tests.loader.chess.formats.binpack_bytes import START, Stem, chunk, codes, move_word, text
from tests.support.looked_into import verify

KINGS = {chess.E1: 10, chess.E8: 11}
ZERO_SCORE = (0, 5)


def verdict_of(folder: Path, data: bytes) -> VerifyResult:
    file = folder / "test.binpack"
    file.write_bytes(data)
    return verify(file)


def with_pieces(*pieces: tuple[int, int]) -> dict[int, int]:
    return {**KINGS, **dict(pieces)}


BAD_STEMS = {
    "33 pieces": (Stem(dict.fromkeys(range(33), 0)), "more than 32 pieces"),
    "no king": (Stem({chess.E1: 10}), "a side has not exactly one king"),
    "two kings of a side": (Stem(with_pieces((0, 10))), "a side has not exactly one king"),
    "result code 3": (Stem(KINGS, ply_result=3 << 14), "result code 3"),
    "pawn to take en passant on rank 3": (Stem(with_pieces((chess.A3, 12))), "more than one pawn to take en passant"),
    "two pawns to take en passant": (
        Stem(with_pieces((chess.A4, 12), (chess.B4, 12))),
        "more than one pawn to take en passant",
    ),
}


@pytest.mark.parametrize("name", BAD_STEMS)
def test_a_stem_that_breaks_a_rule_is_refused_before_it_is_delivered(name: str, tmp_path: Path) -> None:
    stem, reason = BAD_STEMS[name]
    verdict = verdict_of(tmp_path, chunk(Stem(KINGS).bytes() + stem.bytes()))
    assert (verdict.ok, verdict.entries, verdict.offset) == (False, 1, 8 + 34)
    assert verdict.reason is not None
    assert verdict.reason.startswith(reason)
    assert verdict.reason.endswith("(entry 0 of its chain)")


UNPLAYED = ("null move", "castling from another square")
IMPOSSIBLE = "a move that no piece can make there"
BAD_MOVES = {
    "null move": (KINGS, 0, "move does not start on an own piece"),
    "from an empty square": (KINGS, move_word("a3a4"), "move does not start on an own piece"),
    "from an enemy piece": (KINGS, move_word("e8e7"), "move does not start on an own piece"),
    "onto an own piece": (with_pieces((chess.E2, 0)), move_word("e1e2"), "move ends on an own piece"),
    "takes a king": (with_pieces((chess.A1, 6)), move_word("a1e8"), "move takes a king"),
    "promotion of a king": (KINGS, move_word("e1e2", 1), "promotion or en passant of a piece that is not a pawn"),
    "en passant of a king": (KINGS, move_word("e1e2", 3), "promotion or en passant of a piece that is not a pawn"),
    "en passant without a pawn": (
        with_pieces((chess.E5, 0)),
        move_word("e5d6", 3),
        "en passant without a pawn to take",
    ),
    "castling without rook": (KINGS, move_word("e1h1", 2), "castling without king and rook in place"),
    "castling over a piece": (
        with_pieces((chess.H1, 13), (chess.F1, 4)),
        move_word("e1h1", 2),
        "castling without king and rook in place",
    ),
    "castling from another square": (
        {chess.D1: 10, chess.E8: 11, chess.H1: 13},
        move_word("d1h1", 2),
        "castling without king and rook in place",
    ),
}


@pytest.mark.parametrize("name", BAD_MOVES)
def test_a_stems_move_is_checked_whether_it_is_played_or_not(name: str, tmp_path: Path) -> None:
    pieces, move, reason = BAD_MOVES[name]
    verdict = verdict_of(tmp_path, chunk(Stem(pieces, move).bytes()))
    alone = name in UNPLAYED  # a chain may end so: without a move, or with one of Chess960
    assert [(each.kind, each.entries, each.offset) for each in verdict.illegal] == [(IMPOSSIBLE, 1, 8)] * (not alone)
    verdict = verdict_of(tmp_path, chunk(Stem(pieces, move, count=1).bytes() + bytes(8)))
    assert (verdict.ok, verdict.entries, verdict.offset) == (False, int(alone), 8)
    assert verdict.reason is not None
    assert verdict.reason.startswith(reason if alone else IMPOSSIBLE)
    assert verdict.reason.endswith(f"(entry {int(alone)} of its chain)")


BAD_TEXTS = {
    # After e2e4 black has 16 pieces: 4 bits; a8 is piece 8 (a7 is 0), and has no destination.
    "a piece without destinations": (text((8, 4), ZERO_SCORE), "index past the last candidate"),
    "a fifth score group": (text((0, 4), (0, 1), *[(31, 5)] * 5), "score of more than 4 groups"),
    "no text at all": (b"", "move text runs past the end of its chunk"),
    "text that ends in the score": (text((0, 4), (0, 1), (31, 5), (31, 5)), "move text runs past the end of its chunk"),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_move_text_that_can_not_be_is_refused(name: str, tmp_path: Path) -> None:
    moves, reason = BAD_TEXTS[name]
    stem = Stem(codes(START), move_word("e2e4"), count=1)
    verdict = verdict_of(tmp_path, chunk(stem.bytes() + moves))
    assert (verdict.ok, verdict.entries, verdict.offset) == (False, 1, 8)
    assert verdict.reason == f"{reason} (entry 1 of its chain)"


def test_score_groups_longer_than_they_need_be_are_accepted(tmp_path: Path) -> None:
    stem = Stem(codes(START), move_word("e2e4"), count=1)
    moves = text((0, 4), (0, 1), (16 + 4, 5), (16, 5), (0, 5))
    (tmp_path / "test.binpack").write_bytes(chunk(stem.bytes() + moves))
    assert [entry.score for entry in entries(tmp_path / "test.binpack")] == [0, 2]


def test_castling_of_a_king_that_can_not_is_no_move_though_its_right_is_announced(tmp_path: Path) -> None:
    # White: king d1, rook h1 'with its right'. After a8a7 the king has 5 squares and one castling: 3 bits.
    pieces = {chess.D1: 10, chess.H1: 13, chess.E8: 15, chess.A8: 7}
    stem = Stem(pieces, move_word("a8a7"), count=1)
    (tmp_path / "test.binpack").write_bytes(chunk(stem.bytes() + text((0, 1), (5, 3), ZERO_SCORE)))
    assert verify(tmp_path / "test.binpack").illegal[0].kind == IMPOSSIBLE
    (tmp_path / "test.binpack").write_bytes(chunk(stem.bytes() + text((0, 1), (6, 3), ZERO_SCORE)))
    assert verify(tmp_path / "test.binpack").reason == "index past the last candidate (entry 1 of its chain)"


def test_an_en_passant_square_of_a_stem_is_taken_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "test.binpack").write_bytes(chunk(Stem(with_pieces((chess.A4, 12), (chess.E8, 15))).bytes()))
    assert [entry.fen for entry in entries(tmp_path / "test.binpack")] == ["4k3/8/8/8/P7/8/8/4K3 b - a3 0 0"]


def test_ply_counts_on_past_its_fourteen_bits(tmp_path: Path) -> None:
    stem = Stem(codes(START), move_word("e2e4"), ply_result=16383, count=1)
    (tmp_path / "test.binpack").write_bytes(chunk(stem.bytes() + text((0, 4), (0, 1), ZERO_SCORE)))
    assert [entry.ply for entry in entries(tmp_path / "test.binpack")] == [16383, 16384]


@pytest.mark.parametrize("spare", [1, 20, 33])
def test_up_to_33_spare_bytes_at_the_end_of_a_payload_may_hold_anything(spare: int, tmp_path: Path) -> None:
    data = chunk(Stem(KINGS).bytes() + b"\xff" * spare) + chunk(Stem(KINGS).bytes())
    assert verdict_of(tmp_path, data) == VerifyResult(str(tmp_path / "test.binpack"), True, 2)


BAD_HEADERS = {
    b"B": "expected the 8 bytes that a chunk begins with, got 1",
    b"BINP": "expected the 8 bytes that a chunk begins with, got 4",
    b"BINP\1\2\3": "expected the 8 bytes that a chunk begins with, got 7",
    b"x": "expected a chunk, which begins with b'BINP', got b'x'",
    b"BIN\n123": "expected a chunk, which begins with b'BINP', got b'BIN\\x0a'",
    b"BINQ\0\0\0\0": "expected a chunk, which begins with b'BINP', got b'BINQ'",
    b"BINP\1\0\x40\6": "expected a chunk of at most 104857600 bytes, got one of 104857601",
    b"BINP\0\0\x40\6": "expected the 104857600 bytes of the chunk, got 0",
    b"BINP\5\0\0\0abcd": "expected the 5 bytes of the chunk, got 4",
}


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_a_bad_header_is_named_after_the_entries_before_it(header: bytes, tmp_path: Path) -> None:
    good = chunk(Stem(KINGS).bytes())
    verdict = verdict_of(tmp_path, good + header)
    assert verdict == VerifyResult(str(tmp_path / "test.binpack"), False, 1, len(good), BAD_HEADERS[header])
