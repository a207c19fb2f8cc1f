"""Any bytes at all, in every format of positions: reading never crashes, and what it says can be trusted (I8).

Either the error names the file and a place in it, or what was read can be written and is then read the same.
`make fuzz` looks for the same with libFuzzer and sanitizers.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterator

import pytest

from loader import _native
from loader.chess.positions.file import fault_of_walk
from loader.formats.errors import Fault
from tests.fuzz.mutants import change_bytes
from tests.fuzz.test_binpack_fuzz import MemoryFile
from tests.support.positions import FORMATS, GAMES, HEADERS, RECORDS, codec, encode, open_path, sample

MUTANTS = 1500  # of each format
DAMAGED = 30


class Checker:
    """Writes bytes to a file, reads it, and compares what it gives with what its writer makes of that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = MemoryFile()
        self.damaged = self.entries = 0

    def read(self, data: bytes) -> tuple[list[str], Fault | None]:
        """Lines of the good entries, and the fault behind them."""
        self.file.write(data)
        file, lines = open_path(self.name, self.file.path), []
        for chunk in range(file.num_chunks):
            walk = _native.ChunkWalk(file, chunk)
            lines += walk.lines(1 << 30).decode().splitlines()
            assert _native.ChunkWalk(file, chunk).count() <= len(lines)
            if (fault := fault_of_walk(walk)) is not None:
                return lines, fault
        return lines, None

    def check(self, data: bytes) -> tuple[int, int | None]:
        """Good entries, and the offset of the damage behind them if there is any."""
        lines, fault = self.read(data)
        if fault is not None:
            file, reason, offset, kind = fault
            assert file == str(self.file.path)
            assert reason
            assert "\n" not in reason
            assert kind == "damaged"
            assert offset is not None
            assert 0 <= offset <= len(data)
            self.damaged += 1
        writer = codec(self.name).make_writer()
        self.file.write(data)
        opened = open_path(self.name, self.file.path)
        for chunk in range(opened.num_chunks):
            stopped = _native.ChunkWalk(opened, chunk).copy_to(writer)
            if stopped is not None:
                assert stopped == fault, "a writer takes whatever its format's reader gives"
                break
        writer.finish()
        assert writer.entries == len(lines)
        again, none = self.read(writer.take())
        assert none is None
        # The clock and en - passant squares that no pawn can take on are not kept within a game.
        assert [_kept(self.name, line) for line in again] == [_kept(self.name, line) for line in lines]
        self.entries += len(lines)
        return len(lines), None if fault is None else fault[2]


def _kept(name: str, line: str) -> str:
    if name not in GAMES:
        return line
    fen, *rest = line.split("\t")
    return " ".join([*fen.split()[:3], *rest])


@pytest.fixture
def checker(request: pytest.FixtureRequest) -> Iterator[Checker]:
    made = Checker(request.node.callspec.params["name"])
    yield made
    made.file.close()


def units_of(name: str, data: bytes) -> list[int]:
    """Where records, lines or games of a good file end."""
    if name == "text":
        return [at + 1 for at, byte in enumerate(data) if byte == 10]
    if name == "plain":
        return [found.end() for found in re.finditer(rb"\ne\n", data)]
    if name == "pgn":
        return [*(found.start() for found in re.finditer(rb"(?<=\n\n)\[Event", data)), len(data)]
    if name in RECORDS:
        return list(range(RECORDS[name], len(data) + 1, RECORDS[name]))
    ends, at = [], 0
    while at < len(data):
        at += HEADERS[name]
        while data[at : at + 4] != bytes(4):
            at += 4
        at += 4
        ends.append(at)
    return ends


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_may_end_anywhere(name: str, checker: Checker) -> None:
    whole = encode(name, sample(150)[-12:])
    ends = units_of(name, whole)
    assert ends[-1] == len(whole)
    for length in range(len(whole) + 1):
        good, offset = checker.check(whole[:length])
        before = max((end for end in ends if end <= length), default=0)
        if name == "text":  # a last line needs no line feed, and a shorter number may be one
            assert offset in (None, before)
            continue
        if name in ("pgn", "plain"):  # nor a game the empty line behind it, a position its last line feed
            assert offset is None or offset >= before
            continue
        assert (offset is None) == (length == before)
        if name in RECORDS:
            assert good == length // RECORDS[name]
            assert offset in (None, before)
        elif offset is not None:  # of a game: the header, or the move
            assert before <= offset <= length
            assert good >= ends.index(before) if before else good >= 0


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_told_in_one_line(name: str, checker: Checker) -> None:
    """A stretch of bytes is changed at 30 places, each in its own way."""
    whole = encode(name, sample(400))
    for number in range(DAMAGED):
        rng = random.Random(number)
        data = bytearray(whole)
        at = len(whole) * number // DAMAGED
        length = 1 + number % 9
        match number % 3:
            case 0:
                data[at : at + length] = rng.randbytes(length)
            case 1:
                del data[at : at + length]
            case _:
                data[at : at + length] = bytes([255]) * length
        good, offset = checker.check(bytes(data))
        if offset is not None:
            assert good > 0 or offset <= at or name == "pgn"  # whose games are read whole
    assert checker.damaged > DAMAGED // 2


@pytest.mark.parametrize("name", FORMATS)
def test_mutants_are_read_or_refused(name: str, checker: Checker) -> None:
    """Each instruction set in turn."""
    before, levels = _native.simd_level(), _native.simd_levels()
    whole = encode(name, sample(60)[-8:])
    rng = random.Random(name)
    try:
        for number in range(MUTANTS):
            _native.set_simd_level(levels[number % len(levels)])
            mutant = bytearray(whole)
            for _ in range(rng.choice((1, 1, 2, 4))):
                change_bytes(mutant, rng, 0, len(mutant))
            checker.check(bytes(mutant))
    finally:
        _native.set_simd_level(before)
    assert checker.damaged > MUTANTS // 4
    assert checker.entries > MUTANTS


@pytest.mark.parametrize("name", FORMATS)
def test_a_compressed_file_may_end_or_change_anywhere(name: str, checker: Checker) -> None:
    """What is decoded before that is good."""
    whole = encode(name, sample(40))
    known = checker.read(whole)[0]
    packed = gzip.compress(whole, 6, mtime=0)
    for length in range(2, len(packed), 7):
        lines, fault = checker.read(packed[:length])
        assert fault is not None
        assert lines == known[: len(lines)]
    for at in range(2, len(packed), 7):
        checker.read(packed[:at] + bytes([packed[at] ^ 16]) + packed[at + 1 :])
