"""Reading binpack files: against the reference reader's answers and against python-chess."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import chess
import numpy as np
import pytest

from loader import _native
from loader._native import set_simd_level, simd_level, simd_levels
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.cli.main import main
from loader.errors import DataError
from tests.loader.chess.formats.binpack_bytes import EXAMPLE, EXAMPLE_MOVES, EXAMPLE_SCORES
from tests.support.binpack_file import BinpackFile
from tests.support.damage import DAMAGES, Damage
from tests.support.looked_into import dump, inspect, verify
from tests.support.paths import SAMPLE

SMALL_SHA256 = "7d7d62d29141bcca9b062f873016964cacb36f34527a01f236a68ce4803a8fa9"
SMALL_ENTRIES = 434_921

RECORD = np.dtype(
    [
        ("occupied", "<u8"),
        ("planes", "<u4", 4),
        ("score", "<i2"),
        ("ply", "<u2"),
        ("move", "<u2"),
        ("flags", "<u2"),
    ]
)
BLACK_TO_MOVE, IN_CHECK, RIGHTS, CLOCK = 1, 2, 16, 256
RESULTS = [0, 1, -128, -1]  # by bits 2 and 3 of the flags


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.binpack"
    path.write_bytes(EXAMPLE)
    return path


def test_the_worked_example_of_the_format_reads_as_described(example: Path) -> None:
    read = list(entries(example))
    assert [entry.move for entry in read] == EXAMPLE_MOVES
    assert [entry.score for entry in read] == EXAMPLE_SCORES
    assert [entry.ply for entry in read] == list(range(11))
    assert [entry.result for entry in read] == [1, -1] * 5 + [1]
    assert read[4].fen == "rnbqkbnr/1pp1pppp/p7/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 2"


def test_the_dump_of_real_data_is_the_reference_readers(shared_data: Path) -> None:
    lines = b"".join(dump(shared_data / "small.binpack"))
    assert lines.count(b"\n") == SMALL_ENTRIES
    assert hashlib.sha256(lines).hexdigest() == SMALL_SHA256


def test_entries_of_real_data_equal_the_reference_readers_sample(shared_data: Path) -> None:
    expected = {}
    with (shared_data / "small.sample.tsv").open(newline="") as file:
        for row in csv.reader(file, delimiter="\t"):
            if row[0].isdigit():
                expected[int(row[0])] = Entry(row[1], row[2], int(row[3]), int(row[4]), int(row[5]))
    assert len(expected) > 4000
    read = {i: entry for i, entry in enumerate(entries(shared_data / "small.binpack")) if i in expected}
    assert read == expected


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_every_damaged_file_gets_its_verdict(
    damage: Damage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.binpack"
    path.write_bytes(damage.content)
    code = main(["verify", "--json", str(path)])
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["file"], verdict["entries"]) == (str(path), damage.entries)
    if damage.reason is None:
        assert (code, verdict["ok"], verdict["offset"], verdict["reason"]) == (0, True, None, None)
    elif damage.offset is None:
        assert (code, verdict["ok"]) == (1, False)
        assert verdict["reason"].startswith(f"{damage.reason} (entry ")
        assert 8 <= verdict["offset"] < len(damage.content)
    else:
        assert (code, verdict["ok"]) == (1, False)
        assert (verdict["offset"], verdict["reason"]) == (damage.offset, damage.reason)


def test_verify_and_statistics_agree_with_what_is_known_of_real_data(shared_data: Path) -> None:
    assert verify(shared_data / "small.binpack", threads=2).entries == SMALL_ENTRIES
    found = inspect(shared_data / "small.binpack")
    assert (found.facts.chunks, found.units, found.facts.bytes) == (1, 4304, 1_048_745)
    assert found.entries == SMALL_ENTRIES
    assert found.results() == {"loss": 133_642, "draw": 167_663, "win": 133_616}
    assert found.moves() == {"normal": 427_423, "promotion": 1030, "castling": 6230, "en_passant": 238, "none": 0}
    assert (found.counts.white_to_move, found.no_score()) == (218_429, 10_200)
    assert (found.counts.captures, found.counts.in_check) == (76_706, 28_578)
    told = found.to_dict()
    assert (told["score"]["min"], told["ply"]["min"], told["ply"]["max"]) == (-26_624, 0, 415)
    assert (told["piece_count"]["min"], told["piece_count"]["max"]) == (3, 32)


def test_verify_finds_the_first_damage_on_any_number_of_threads(example: Path) -> None:
    good = EXAMPLE * 20
    bad = EXAMPLE[:40] + b"\xff\xff" + EXAMPLE[42:]  # the count
    example.write_bytes(good + bad + good + bad)
    verdicts = {verify(example, threads) for threads in (1, 2, 5)}
    assert len(verdicts) == 1
    verdict = verdicts.pop()
    assert (verdict.ok, verdict.offset, verdict.entries) == (False, len(good) + 8, 20 * 11 + 11)


def test_positions_of_a_chain_are_what_python_chess_says() -> None:
    board = None
    followed = 0
    for entry in entries(SAMPLE / "validation.binpack"):
        if board is not None and board.ply() == entry.ply:
            assert fields(board.fen()) == fields(entry.fen)
            followed += 1
        else:
            board = chess.Board(entry.fen)
            assert entry.ply is not None
            board.fullmove_number = entry.ply // 2 + 1
        move = chess.Move.from_uci(entry.move)
        assert board.is_legal(move)
        board.push(move)
    assert followed > 10_000


def fields(fen: str) -> list[str]:
    """All but the move number, which the format does not have."""
    return fen.split()[:5]


def test_records_hold_what_the_text_says_and_python_chess_confirms() -> None:
    path = SAMPLE / "validation.binpack"
    raw, damage = BinpackFile(path).decode(0)
    assert damage is None
    records = raw.view(RECORD)[:, 0]
    for record, entry in zip(records[:4000], entries(path), strict=False):
        board = chess.Board(entry.fen)
        move = chess.Move.from_uci(entry.move)
        assert entry.result is not None
        flags = BLACK_TO_MOVE * (not board.turn) | IN_CHECK * board.is_check()
        flags |= RESULTS.index(entry.result) << 2 | CLOCK * min(board.halfmove_clock, 127)
        for bit, right in enumerate((chess.BB_H1, chess.BB_A1, chess.BB_H8, chess.BB_A8)):
            flags |= RIGHTS << bit if board.castling_rights & right else 0
        assert int(record["flags"]) == flags  # no bit of an unknown ply
        assert int(record["occupied"]) == board.occupied
        assert (record["score"], record["ply"]) == (entry.score, entry.ply)
        assert (int(record["move"]) >> 8) & 63 == move.from_square
        planes = record["planes"].tolist()
        codes = [sum((plane >> piece & 1) << bit for bit, plane in enumerate(planes)) for piece in range(32)]
        pieces = [2 * (piece.piece_type - 1) + (not piece.color) for _, piece in sorted(board.piece_map().items())]
        assert codes == pieces + [0] * (32 - len(pieces))


@pytest.mark.usefixtures("restored_level")
def test_every_instruction_set_decodes_the_same_bits() -> None:
    file = BinpackFile(SAMPLE / "train.binpack")
    decoded = []
    for level in simd_levels():
        set_simd_level(level)
        assert simd_level() == level
        decoded.append(file.decode(0)[0])
    assert simd_levels()[0] == "baseline"
    assert len(decoded[0]) == 250_000
    assert all(np.array_equal(decoded[0], other) for other in decoded)
    with pytest.raises(ValueError, match="SIMD level 'mmx' is not one that this CPU has: baseline"):
        set_simd_level("mmx")


def test_a_limit_ends_the_dump_early_and_hides_damage_behind_it(example: Path) -> None:
    example.write_bytes(EXAMPLE + b"junk")
    for limit in (0, 1, 10, 11):
        assert b"".join(dump(example, limit)).count(b"\n") == limit
    with pytest.raises(DataError, match="offset 64: expected a chunk, which begins with b'BINP', got b'junk'"):
        list(dump(example, 12))


def test_an_empty_file_is_whole_and_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "empty.binpack").touch()
    assert verify(tmp_path / "empty.binpack").ok
    assert list(entries(tmp_path / "empty.binpack")) == []
    assert inspect(tmp_path / "empty.binpack").entries == 0


def test_a_chunk_number_out_of_range_is_an_index_error(example: Path) -> None:
    file = BinpackFile(example).native
    with pytest.raises(IndexError):
        _native.ChunkWalk(file, 1)
    with pytest.raises(IndexError):
        file.offset(1)
