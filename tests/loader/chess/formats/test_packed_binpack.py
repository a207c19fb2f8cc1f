"""A compressed binpack file: the entries of the plain one, and its damage at the same entry."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from loader import _native
from loader.chess.positions.inputs import open_input
from loader.cli.main import main
from loader.errors import DataError
from tests.support.paths import DATA, VALIDATION

Capture = pytest.CaptureFixture[str]


def zstd(data: bytes) -> bytes:
    return _native.ZstdPacker().pack(data, last=True)


PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstd}


def lines_of(path: Path) -> tuple[list[str], DataError | None]:
    """The entries up to damage."""
    found: list[str] = []
    try:
        for file, chunk in open_input(path, "binpack").chunks():
            for block in file.lines(chunk):
                found += block.decode().splitlines()
    except DataError as error:
        return found, error
    return found, None


def packed(folder: Path, ending: str, data: bytes) -> Path:
    path = folder / f"packed.binpack{ending}"
    path.write_bytes(PACKERS[ending](data))
    return path


@pytest.fixture
def several(tmp_path: Path) -> bytes:
    """A file of several chunks, of which each has several chains."""
    parts = []
    for number in range(5):
        part = tmp_path / f"{number}.binpack"
        assert main(["shuffle", str(VALIDATION), "-o", str(part), "--seed", str(number)]) == 0
        parts.append(part.read_bytes())
    return b"".join(parts)


@pytest.mark.parametrize("ending", PACKERS)
def test_each_entry_is_the_plain_file_s(ending: str, several: bytes, tmp_path: Path) -> None:
    plain = tmp_path / "plain.binpack"
    plain.write_bytes(several)
    wanted, none = lines_of(plain)
    assert none is None
    found, none = lines_of(packed(tmp_path, ending, several))
    assert none is None
    assert found == wanted
    assert len(found) > 50_000


def damaged(number: int) -> bytes:
    """A file of two chunks: cut, with a wrong header of one, or with some other bytes somewhere."""
    data, rng = bytearray((DATA / "two-chunks.binpack").read_bytes()), random.Random(number)
    second = 8 + int.from_bytes(data[4:8], "little")
    match number % 4:
        case 0:
            return bytes(data[: rng.choice((rng.randrange(len(data)), second + rng.randrange(9)))])
        case 1:
            at = rng.choice((0, second)) + rng.randrange(8)
            data[at] ^= 1 << rng.randrange(8)
        case 2:  # the last chain of the first chunk says that it is longer
            data[second - rng.randrange(1, 2000)] = 255
        case _:
            at = rng.randrange(len(data) - 9)
            data[at : at + 9] = rng.randbytes(9)
    return bytes(data)


@pytest.mark.parametrize("ending", PACKERS)
def test_damage_ends_it_where_it_ends_the_plain_file(ending: str, tmp_path: Path) -> None:
    """Also where a chain that is too long would go on into the next chunk."""
    errors = 0
    for number in range(80):
        data, plain = damaged(number), tmp_path / "plain.binpack"
        plain.write_bytes(data)
        wanted, error = lines_of(plain)
        found, same = lines_of(packed(tmp_path, ending, data))
        assert found == wanted
        assert (error is None) == (same is None)
        if error is not None and same is not None:
            assert same.reason == f"byte {error.offset} of what is decoded: {error.reason}"
            errors += 1
    assert errors > 40


@pytest.mark.parametrize("ending", PACKERS)
def test_it_may_end_anywhere(ending: str, several: bytes, tmp_path: Path) -> None:
    whole = PACKERS[ending](several)
    plain = tmp_path / "plain.binpack"
    plain.write_bytes(several)
    wanted, _ = lines_of(plain)
    counts = set()
    for length in range(4, len(whole), len(whole) // 9):
        path = tmp_path / f"cut.binpack{ending}"
        path.write_bytes(whole[:length])
        found, error = lines_of(path)
        assert error is not None
        assert "can't be decoded" in error.reason
        assert found == wanted[: len(found)]
        counts.add(len(found))
    assert max(counts) > 0, "chunks before the end are read"


def test_commands_write_it_and_name_it(tmp_path: Path, capsys: Capture) -> None:
    made, again = tmp_path / "made.binpack.zst", tmp_path / "again.binpack"
    assert main(["convert", str(VALIDATION), "-o", str(made)]) == 0
    assert made.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert main(["verify", str(made)]) == 0
    assert main(["convert", str(made), "-o", str(again)]) == 0
    assert again.read_bytes() == VALIDATION.read_bytes()
    capsys.readouterr()
    assert main(["count", str(made), str(VALIDATION)]) == 0
    counts = [line.split(": ")[1] for line in capsys.readouterr().out.splitlines()[:2]]
    assert counts[0] == counts[1]


def test_illegal_positions_are_told_with_their_place(tmp_path: Path, capsys: Capture) -> None:
    """In the second chunk of a piece."""
    writer = _native.binpack().make_writer()
    writer.add("8/8/8/8/8/8/8/KP1k4 w - - 0 1", "a1a2", 0, 2, 0)
    writer.finish()
    bad = writer.take()
    plain = tmp_path / "plain.binpack"
    plain.write_bytes(VALIDATION.read_bytes() + bad)
    for path in (plain, packed(tmp_path, ".gz", plain.read_bytes())):
        assert main(["verify", str(path)]) == 1
        said = capsys.readouterr()
        assert "a pawn on the first or last rank" in said.out + said.err
        assert str(len(VALIDATION.read_bytes()) + 8) in (said.out + said.err).replace(",", "")
