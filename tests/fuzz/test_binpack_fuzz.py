"""Any bytes at all: reading never crashes or hangs, and what it says can be trusted (I8).

Either the error names the file and a place in it, or what was read can be written and is then read the same.
`make fuzz` looks for the same with libFuzzer and sanitizers.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loader import _native
from loader.chess.positions.entry import Entry
from loader.chess.positions.inputs import entries
from loader.errors import DataError
from tests.fuzz.mutants import mutants, payloads_of
from tests.loader.chess.formats.binpack_bytes import EXAMPLE, chunk
from tests.support.binpack_file import BinpackFile, make_writer
from tests.support.looked_into import dump
from tests.support.paths import VALIDATION

MUTANTS = 20_000
# The format holds these positions in the middle of a chain only, if at all.
REFUSALS = ("castling right without a rook in its corner can't be stored", "ply at the start of a chain must be")
CASTLING = 2  # type of a move
MAX_SECONDS = 1.0  # of CPU, for one file
MAX_GROWTH = 64 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class MemoryFile:
    """A file that no disk holds: tens of thousands are written here."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("test.binpack")
        self.path = Path(f"/proc/self/fd/{self._descriptor}")

    def write(self, data: bytes) -> None:
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)
        os.utime(self._descriptor, ns=(1, 1))  # a reader waits until a file that was written just now is older

    def close(self) -> None:
        os.close(self._descriptor)


class Checker:
    """Writes bytes to a file, reads it in every way there is, and compares."""

    def __init__(self) -> None:
        self.file = MemoryFile()
        self.again = MemoryFile()
        self.path = self.file.path
        self.entries = self.damaged = self.rewritten = 0
        self.slowest = 0.0

    def check(self, data: bytes) -> tuple[int, DataError | None]:
        """Good entries, and the damage behind them if there is any."""
        self.file.write(data)
        begin = time.process_time()
        error: DataError | None = None
        lines = 0
        try:
            for block in dump(self.path, format="binpack"):
                lines += block.count(b"\n")
        except DataError as caught:
            error = caught
        if error is not None:
            assert error.file == str(self.path)
            assert error.offset is not None
            assert 0 <= error.offset <= len(data)
            assert error.reason
        self.compare(lines, error)
        self.slowest = max(self.slowest, time.process_time() - begin)
        self.entries += lines
        self.damaged += error is not None
        return lines, error

    def compare(self, lines: int, error: DataError | None) -> None:
        """The records are those of the lines; written and read again they are the same."""
        file = BinpackFile(self.path)
        counted = 0
        for number in range(file.num_chunks):
            records, damage = file.decode(number)
            counted += len(records)
            self.rewrite(file, number, records.tobytes(), damage is not None)
            if damage is not None:
                assert error is not None
                assert error.offset == damage.offset
                break
        else:
            assert (error is not None) == (file.header_damage is not None)
        assert counted == lines

    def rewrite(self, file: BinpackFile, number: int, records: bytes, damaged: bool) -> None:
        writer = make_writer()
        stopped = file.copy_to(number, writer)
        writer.finish()
        if stopped is not None and not damaged:
            assert stopped.reason.startswith(REFUSALS)
        written = writer.entries
        if written == len(records) // 32:
            # What could be said in a move text can be said in one: a nonsense move would need a stem of its own. Only
            # castling with the king elsewhere can be read there, as long as the right is held, but not written.
            moves = np.frombuffer(records, np.uint16).reshape(-1, 16)[:, 14]
            assert writer.chains <= file.count(number)[1] + np.count_nonzero(moves >> 14 == CASTLING)
        assert written == len(records) // 32 or (stopped is not None and stopped.reason.startswith(REFUSALS))
        if written:
            self.again.write(writer.take())
            again, damage = BinpackFile(self.again.path).decode(0)
            assert damage is None
            assert again.tobytes() == records[: 32 * written]
            self.rewritten += 1


@pytest.fixture
def checker() -> Iterator[Checker]:
    checker = Checker()
    yield checker
    checker.file.close()
    checker.again.close()


def rewritten(read: list[Entry]) -> bytes:
    writer = make_writer()
    for entry in read:
        writer.add(entry.fen, entry.move, entry.score, entry.ply, entry.result)
    writer.finish()
    return writer.take()


def small_file(chains: int, skip: int = 0) -> bytes:
    """Two chunks: the worked example, and a few chains of the bundled sample."""
    games: list[Entry] = []
    begun = 0
    last: Entry | None = None
    for entry in entries(VALIDATION):
        begun += last is None or (last.ply is not None and entry.ply != last.ply + 1)
        last = entry
        if begun > skip + chains:
            break
        if begun > skip:
            games.append(entry)
    return EXAMPLE + rewritten(games)


def stems_of(payload: bytes) -> list[int]:
    """Where the chains of a good payload begin: a chunk cut before its last byte is damaged in its last chain."""
    stems: list[int] = []
    file = MemoryFile()
    end = len(payload)
    while end:
        file.write(chunk(payload[: end - 1]))
        damage = BinpackFile(file.path).decode(0)[1]
        end = 0 if damage is None else damage.offset - 8
        stems.append(end)
    file.close()
    return sorted(set(stems))


@pytest.mark.parametrize("change", ["0", "255", "^1", "^128"])
def test_any_byte_may_be_wrong(change: str, checker: Checker) -> None:
    whole = small_file(chains=5)
    for i, byte in enumerate(whole):
        value = {"0": 0, "255": 255, "^1": byte ^ 1, "^128": byte ^ 128}[change]
        checker.check(whole[:i] + bytes([value]) + whole[i + 1 :])
    assert checker.damaged > len(whole) // 3
    assert checker.slowest < MAX_SECONDS


def test_a_file_may_end_anywhere(checker: Checker) -> None:
    whole = small_file(chains=5)
    for length in range(len(whole) + 1):
        good, error = checker.check(whole[:length])
        complete = length in (0, len(EXAMPLE), len(whole))
        assert (error is None) == complete
        if error is not None:
            assert error.offset == (0 if length < len(EXAMPLE) else len(EXAMPLE))
            assert good == (0 if error.offset == 0 else 11)


@pytest.mark.parametrize("level", _native.simd_levels())
def test_mutants_are_read_in_bounded_time_and_memory(level: str, checker: Checker) -> None:
    """20,000 in all, half of them by each build of the decoder."""
    before = _native.simd_level()
    _native.set_simd_level(level)
    files = [small_file(chains=2, skip=7 * i) for i in range(5)]
    each = MUTANTS // len(_native.simd_levels()) // len(files)
    try:
        resident = 0
        for seed, file in enumerate(files):
            stems = [stems_of(payload) for payload in payloads_of(file)]
            assert checker.check(file)[1] is None
            for mutant in mutants(file, stems, each, seed):
                checker.check(mutant)
            resident = resident or resident_bytes()
        assert resident_bytes() - resident < MAX_GROWTH
    finally:
        _native.set_simd_level(before)
    assert checker.damaged > each  # mutants that are none would test nothing
    assert checker.rewritten > each
    assert checker.slowest < MAX_SECONDS


def test_random_payloads_behind_a_right_header_never_crash(checker: Checker) -> None:
    rng = random.Random(5)
    for _ in range(1000):
        checker.check(chunk(rng.randbytes(rng.randrange(200))))


def test_random_moves_behind_a_right_position_never_crash(checker: Checker) -> None:
    rng = random.Random(6)
    for _ in range(1000):
        stem = bytearray(EXAMPLE[8 : 8 + 34])
        stem[24:26] = rng.choice((EXAMPLE[32:34], rng.randbytes(2)))
        stem[32:34] = (200).to_bytes(2, "big")
        checker.check(chunk(bytes(stem) + rng.randbytes(400)))
    assert checker.entries > 1000


def test_a_claimed_length_costs_no_memory(checker: Checker) -> None:
    """Sizes and counts are checked against what is there before anything is made of them."""
    resident = resident_bytes()
    for size in (100 << 20, (100 << 20) + 1, 0x7FFFFFFF, 0xFFFFFFFF):
        _, error = checker.check(b"BINP" + size.to_bytes(4, "little") + bytes(100))
        assert error is not None
        assert error.offset == 0
    assert resident_bytes() - resident < 8 << 20
