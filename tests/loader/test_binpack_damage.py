"""Any bytes at all: reading never crashes, and what it says about damage can be trusted (I8)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from loader._native import BinpackWriter
from loader.binpack import Entry, Verdict, entries, verify
from tests.loader.binpack_bytes import EXAMPLE, chunk

SAMPLE = Path(__file__).resolve().parents[2] / "configs" / "sample" / "validation.binpack"


def small_file() -> bytes:
    """Two chunks: the worked example, and the first 5 games of the sample."""
    games: list[Entry] = []
    chains = 0
    for entry in entries(SAMPLE):
        chains += not games or entry.ply != games[-1].ply + 1
        if chains > 5:
            break
        games.append(entry)
    return EXAMPLE + rewritten(games)


def rewritten(read: list[Entry]) -> bytes:
    writer = BinpackWriter()
    for entry in read:
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    return writer.take()


def read_up_to(path: Path, count: int) -> list[Entry]:
    """The good entries of a file, as verify counted them."""
    return list(entries(path, limit=count))


def check(path: Path, data: bytes) -> Verdict:
    """Reads `data`: it is whole, or the damage has a place in it; the good entries can be had."""
    path.write_bytes(data)
    verdict = verify(path)
    if not verdict.ok:
        assert verdict.reason
        assert verdict.offset is not None
        assert 0 <= verdict.offset <= len(data)
    good = read_up_to(path, verdict.entries)
    assert len(good) == verdict.entries
    return verdict


def check_rewrite(path: Path) -> None:
    """What was read can be written and is then read the same, unless the writer says why it can't."""
    read = list(entries(path))
    again = rewrite(read)
    if again is not None:
        path.write_bytes(again)
        assert list(entries(path)) == read


def rewrite(read: list[Entry]) -> bytes | None:
    """None for a castling right announced by a rook in the middle of the board, which nothing can store."""
    try:
        return rewritten(read)
    except ValueError as error:
        if "castling right without a rook in its corner" in str(error):
            return None
        raise


@pytest.mark.parametrize("change", ["0", "255", "^1", "^128"])
def test_any_byte_may_be_wrong(change: str, tmp_path: Path) -> None:
    whole = small_file()
    path = tmp_path / "test.binpack"
    damaged = 0
    for i, byte in enumerate(whole):
        value = {"0": 0, "255": 255, "^1": byte ^ 1, "^128": byte ^ 128}[change]
        verdict = check(path, whole[:i] + bytes([value]) + whole[i + 1 :])
        damaged += not verdict.ok
        if verdict.ok and i % 7 == 0:
            check_rewrite(path)
    assert damaged > len(whole) // 3


def test_a_file_may_end_anywhere(tmp_path: Path) -> None:
    whole = small_file()
    for length in range(len(whole) + 1):
        verdict = check(tmp_path / "test.binpack", whole[:length])
        complete = length in (0, len(EXAMPLE), len(whole))
        assert verdict.ok == complete
        if not complete:
            header = 0 if length < len(EXAMPLE) else len(EXAMPLE)
            assert verdict.offset == header
            assert verdict.entries == (0 if header == 0 else 11)


def test_random_payloads_behind_a_right_header_never_crash(tmp_path: Path) -> None:
    rng = random.Random(5)
    for _ in range(2000):
        check(tmp_path / "test.binpack", chunk(rng.randbytes(rng.randrange(200))))


def test_random_moves_behind_a_right_position_never_crash(tmp_path: Path) -> None:
    rng = random.Random(6)
    good_entries = 0
    for _ in range(2000):
        stem = bytearray(EXAMPLE[8 : 8 + 34])
        stem[24:26] = rng.choice((EXAMPLE[32:34], rng.randbytes(2)))
        stem[32:34] = (200).to_bytes(2, "big")
        good_entries += check(tmp_path / "test.binpack", chunk(bytes(stem) + rng.randbytes(400))).entries
    assert good_entries > 4000


def test_several_bytes_may_be_wrong_at_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    whole = small_file()
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(8, len(data))] = rng.randrange(256)
        check(tmp_path / "test.binpack", bytes(data))
